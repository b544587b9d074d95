# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# shellcheck shell=bash
#
# Cases in which a server is killed in mid-traffic, and its client would run for minutes without that.

# The client must end, in whatever way but by a fault (UCX aborts). Optional, as variables before the call:
#   AWAKE=yes      it need not end, but must not be left asleep
#   AGAIN=REGEX    what the programs say when they do not get as far as traffic by a race of their own; they get two more tries
killed_case() { play kill_in_traffic "$2" "$1" "${@:3}"; } # NAME tcp_listens|cm_listens SERVER [ARGUMENT...] -- CLIENT [ARGUMENT...]

kill_in_traffic() { # CLIENT [ARGUMENT...]; part of play, sets its reason and race
    local status=0 before
    serve || return 0
    before=$(carried)
    limited "$@" &>"$LOGS/client" &
    CLIENT=$!
    if until_moving "$before"; then
        # shellcheck disable=SC2153 # start_server sets it; timeout leads the process group of all that it has started
        kill -KILL -- "-$SERVER"
        if [[ ${AWAKE:-} ]]; then
            is_awake || reason="the client was left asleep"
        else
            in_time "$CLIENT" || status=$?
        fi
        case $status in
        124) reason="the client outlived its server: $(ending 124 client)" ;;
        132 | 135 | 136 | 139) reason="client: $(ending "$status" client)" ;; # SIGILL, SIGBUS, SIGFPE, SIGSEGV
        esac
    else
        # Who has crashed has said nothing of it.
        kill -0 "$CLIENT" 2>/dev/null || wait "$CLIENT" || echo "ended with status $?" >>"$LOGS/client"
        unread >"$LOGS/unread"
        reason="no traffic: $(ending 0 client)"
    fi
    stop_client
    stop_server
    # shellcheck disable=SC2034 # play reads it
    [[ $reason != "no traffic"* ]] || race=$(others_race)
}

# Returns when a hundred packets more have gone over DEVICE, or fails if that takes too long.
until_moving() { # BEFORE
    local limit=$((SECONDS + DEADLINE))
    until (($(carried) > $1 + 100)); do
        ((SECONDS < limit)) && kill -0 "$CLIENT" 2>/dev/null || return 1
        sleep 0.05
    done
}

# The packets that DEVICE has carried: rxe counts them, and siw's TCP runs over lo, for it is at home on both ends.
carried() {
    local counter=/sys/class/infiniband/$DEVICE/ports/1/hw_counters/rcvd_pkts
    [[ -e $counter ]] || counter=/sys/class/net/lo/statistics/rx_packets
    cat "$counter"
}

# The client has ended, or has used up two seconds of its processor: who sleeps uses none.
is_awake() {
    local limit=$((SECONDS + DEADLINE)) before now pid
    pid=$(pgrep -P "$CLIENT") || return 0
    before=$(ticks "$pid")
    while ((SECONDS < limit)); do
        now=$(ticks "$pid") || return 0
        ((now - before < 2 * $(getconf CLK_TCK))) || return 0
        sleep 0.5
    done
    return 1
}

# Processor time of a process, user and system: fields 14 and 15 of stat, which the name in parentheses must not shift.
ticks() { # PID
    sed 's/.*) //' "/proc/$1/stat" 2>/dev/null | awk '{ used = $12 + $13 } END { if (!NR) exit 1; print used }'
}
