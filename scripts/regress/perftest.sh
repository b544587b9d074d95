# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# shellcheck shell=bash
#
# One perftest program on DEVICE, few iterations: the verbs are under test, not their speed.

# Its races, when it connects by rdma_cm:
# - the client may connect again before the server listens again (rdma_cm_server_connection), and crashes when refused;
# - the client goes as soon as it has the server's last message, and siw may then complete that SEND with LOC_QP_OP_ERR, cut
#   off in siw_qp_sq_process.
CONNECTS_TOO_EARLY='Failed to connect RDMA CM events'
perftest() { # tcp|cm NAME PROGRAM [ARGUMENT...]
    local end=("ib_$3" -d "$DEVICE" -p "$PORT" -n 50 -F "${@:4}")
    [[ $3 == atomic_* || ${*:4} == *" -s "* ]] || end+=(-s 1024)
    AGAIN="$CONNECTS_TOO_EARLY|Failed to close connection" \
        "$1_case" "$2" "${end[@]}" -- "${end[@]}" "$ADDRESS"
}

# What can be varied on both drivers.
#
# Not send_lat with events: run_iter_lat_send takes the first event of either CQ for the one that it waits for, and polls once.
# When an answer completes before the send that it answers (rxe of linux 6.12 completes sends in a work item, siw behind the
# transmission), that send stays in its CQ of one entry and the next one is lost with its event (rxe_cq_post: queue full).
variants() {
    perftest cm send_bw-cm-8qps send_bw -R -q 8
    perftest cm send_bw-cm-both-ways send_bw -R -b
    perftest cm send_bw-cm-post-list send_bw -R -l 10
    perftest cm send_bw-cm-srq send_bw -R --use-srq
    perftest cm send_lat-cm-srq send_lat -R --use-srq
    perftest cm send_lat-cm-inline send_lat -R -I 64 -s 64
    perftest cm write_bw-cm-8qps write_bw -R -q 8
    perftest cm read_bw-cm-8qps read_bw -R -q 8
    perftest cm read_bw-cm-events read_bw -R -e -t 10 -Q 10
}
