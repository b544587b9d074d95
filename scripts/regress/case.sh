# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# shellcheck shell=bash
#
# Cases: two stock programs talk to each other, and one line on stdout says how it went.
#   ok NAME
#   not ok NAME: reason
#   skip NAME: reason
# What the programs of a failed case said goes to stderr. The script ends with 1 if any case failed.

here=$(dirname "${BASH_SOURCE[0]}")
# shellcheck source=scripts/regress/provider.sh
. "$here/provider.sh"
# shellcheck source=scripts/regress/device.sh
. "$here/device.sh"
# shellcheck source=scripts/regress/killed.sh
. "$here/killed.sh"

DEADLINE=${DEADLINE:-30} # seconds for a client, and as many for its server after it; an emulated guest is slow
PORT=7301                # each case has its own, so that no TIME_WAIT of the last one is in its way
FAILED=0
LOGS=$(mktemp -d)
SERVER=
CLIENT=

begin() { # rxe|siw
    trap end EXIT
    open_device "$1"
}

end() {
    local status=$?
    stop_client
    stop_server
    close_device
    rm -rf "$LOGS"
    ((status)) || exit "$FAILED"
}

pass() { echo "ok $1"; }
skip() { echo "skip $1: $2"; }
fail() {
    echo "not ok $1: $2"
    FAILED=1
    tail -n 20 "$LOGS"/* | sed "s/^/$1 | /" >&2
}

# A server is ready when its TCP socket listens, if it exchanges addresses itself ...
tcp_listens() { [[ $(ss -Hltn "sport = :$PORT") ]]; }

# ... or when rdma_listen on DEVICE is over: the cm_id says LISTEN from its begin on, and the program sleeps after it.
cm_listens() {
    local ids
    ids=$(rdma resource show cm_id link "$DEVICE")
    [[ $ids =~ "state LISTEN ps "[A-Z]+" pid "([0-9]+)[^$'\n']*:${PORT}[[:space:]] ]] &&
        [[ $(<"/proc/${BASH_REMATCH[1]}/stat") == *") S "* ]]
}

# Starts a server and returns when it listens, or fails when it ended before.
start_server() { # tcp_listens|cm_listens PROGRAM [ARGUMENT...]
    local ready=$1
    shift
    limited "$@" &>"$LOGS/server" &
    SERVER=$!
    until "$ready"; do
        kill -0 "$SERVER" 2>/dev/null || return 1
        sleep 0.05
    done
}

# No program outlives a script that is killed. Who is late is decided before, by in_time.
limited() { exec timeout -k 2 $((3 * DEADLINE)) "$@"; }

# The status of a child, or 124 if it still runs at its deadline, or has said UNABLE; it is left running.
in_time() { # PID
    if [[ ${UNABLE:-} ]]; then
        until_unable "$1" || return
    else
        # One process where a loop would have many, which start slowly.
        timeout "$DEADLINE" tail --pid="$1" -s 0.1 -f /dev/null || return
    fi
    wait "$1"
}

until_unable() { # PID; fails unless that has ended
    local limit=$((SECONDS + DEADLINE))
    while kill -0 "$1" 2>/dev/null; do
        ((SECONDS < limit)) && ! is_unable >/dev/null || return 124
        sleep 0.2
    done
}

stop_server() {
    stop "$SERVER"
    SERVER=
}
stop_client() {
    stop "$CLIENT"
    CLIENT=
}
stop() { # [PID]
    [[ $1 ]] || return 0
    kill "$1" 2>/dev/null || true
    wait "$1" || true
}

# Runs a client against a server that listens on PORT; both must end well. Optional, as variables before the call:
#   EXPECT=REGEX   the client must also have said this
#   STAYS=yes      the server does not end, and must still be there when the client has ended
#   HOLDS=COMMAND  this must succeed then, a word without arguments
#   AGAIN=REGEX    what the programs say when they fail by a race of their own; they get two more tries
#   UNABLE=REGEX   what one of them says where it cannot run on DEVICE, and for which
#   WHY=REASON     the case is then skipped
tcp_case() { talk tcp_listens "$@"; } # NAME SERVER [ARGUMENT...] -- CLIENT [ARGUMENT...]
cm_case() { talk cm_listens "$@"; }   # the same
talk() { play attempt "$@"; }

# Plays a case of two programs, as often as others' races make it necessary. ATTEMPT plays it once: with reason it says why it
# failed, and with race what of that lets it be played again.
play() { # ATTEMPT READY NAME SERVER [ARGUMENT...] -- CLIENT [ARGUMENT...]
    local attempt=$1 ready=$2 name=$3 server client tries=3 reason race began=$SECONDS
    shift 3
    ends "$@"
    is_installed "$name" "${server[0]}" || return 0
    while true; do
        reason='' race=''
        "$attempt" "${client[@]}"
        if [[ -z $race ]] || is_unable >/dev/null || ! ((--tries)); then break; fi
        printf '%s: %s; again, for this:\n%s\n' "$name" "$reason" "$race" >&2
    done
    verdict "$name" "$reason" "$began"
    PORT=$((PORT + 1))
}

is_installed() { # NAME PROGRAM; else the case is skipped
    if command -v "$2" >/dev/null; then return; fi
    skip "$1" "$2 is not installed"
    return 1
}

# Splits what two programs are called with; sets server and client, of its caller.
ends() { # SERVER [ARGUMENT...] -- CLIENT [ARGUMENT...]
    server=()
    while [[ $1 != -- ]]; do
        server+=("$1")
        shift
    done
    client=("${@:2}")
}

# Shows where a program said UNABLE.
is_unable() { [[ ${UNABLE:-} ]] && grep -hE -- "$UNABLE" "$LOGS"/*; }

# Says how a case went: well, if there is no reason against it.
verdict() { # NAME REASON BEGIN
    echo "$1: $((SECONDS - $3)) s" >&2
    if [[ -z $2 ]]; then
        pass "$1"
    elif is_unable >&2; then
        skip "$1" "$WHY"
    else
        fail "$1" "$2"
    fi
}

attempt() { # CLIENT [ARGUMENT...]; part of play, sets its reason and race
    local status=0
    if ! serve; then
        race=$(others_race)
        return
    fi
    limited "$@" &>"$LOGS/client" &
    CLIENT=$!
    in_time "$CLIENT" || status=$?
    if ((status)); then
        reason="client: $(ending "$status" client)"
    elif ! has_said_it; then
        reason="the client never said '$EXPECT'"
    elif ! "${HOLDS:-true}" >"$LOGS/holds" 2>&1; then
        reason="$HOLDS: $(tail -n 1 "$LOGS/holds")"
    elif [[ ${STAYS:-} ]]; then
        kill -0 "$SERVER" 2>/dev/null || reason="the server did not stay"
    else
        in_time "$SERVER" || status=$?
        ((status == 0)) || reason="server: $(ending "$status" server)"
    fi
    # While both ends are there: when one goes, the other one's socket is read after all.
    [[ -z $reason ]] || unread >"$LOGS/unread"
    stop_client
    stop_server
    [[ -z $reason ]] || race=$(others_race)
}

# Begins an attempt: starts the server, or fails with the reason why there is none.
serve() {
    local status=0
    rm -f "$LOGS"/*
    touch "$LOGS"/{client,server,unread}
    if start_server "$ready" "${server[@]}"; then return; fi
    wait "$SERVER" || status=$?
    SERVER=
    reason="the server ended before it listened: $(ending "$status" server)"
    return 1
}

has_said_it() { [[ -z ${EXPECT:-} ]] || grep -q -- "$EXPECT" "$LOGS/client"; }

ending() { # STATUS server|client
    case $1 in
    124) echo "still ran after its time" ;;
    *) echo "status $1, last words: $(grep -v '^[[:space:]]*$' "$LOGS/$2" | tail -n 1)" ;;
    esac
}

# A program that needs no other; EXPECT, UNABLE and WHY as above.
alone_case() { # NAME PROGRAM [ARGUMENT...]
    local name=$1 reason='' status=0 began=$SECONDS
    shift
    is_installed "$name" "$1" || return 0
    rm -f "$LOGS"/*
    limited "$@" &>"$LOGS/client" &
    CLIENT=$!
    in_time "$CLIENT" || status=$?
    if ((status)); then
        reason=$(ending "$status" client)
    elif ! has_said_it; then
        reason="it never said '$EXPECT'"
    fi
    stop_client
    verdict "$name" "$reason" "$began"
}

# The server's TCP connections in which the same bytes wait for a second. On siw, which reads a socket in its receive upcall,
# that is the mark of a race in siw_accept (linux 6.1 to 6.12): it answers the client first and puts the QP's upcall on the
# socket then, and a first message that comes in between waits there for a second one. No provider has a part in it.
unread() { comm -12 <(waiting) <(sleep 1 && waiting); }
waiting() { ss -Htn state established "sport = :$PORT" | awk '$1 > 0' | sort; }

# What the last attempt left of a race that is not of the provider's making; nothing if there was none.
others_race() {
    cat "$LOGS/unread"
    [[ -z ${AGAIN:-} ]] || grep -hE -- "$AGAIN" "$LOGS/client" "$LOGS/server" || true
}
