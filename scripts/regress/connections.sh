# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# shellcheck shell=bash
#
# The librdmacm examples that both drivers can run: RC connections made, used and closed.

connections() {
    EXPECT=rdma-ping-9 cm_case rping \
        rping -s -a "$ADDRESS" -p "$PORT" -C 10 -v -- rping -c -a "$ADDRESS" -p "$PORT" -C 10 -vV
    EXPECT=rdma-ping-9 STAYS=yes cm_case rping-persistent \
        rping -s -P -a "$ADDRESS" -p "$PORT" -C 10 -- rping -c -a "$ADDRESS" -p "$PORT" -C 10 -vV
    cm_case ucmatose \
        ucmatose -b "$ADDRESS" -p "$PORT" -c 4 -C 10 -- ucmatose -s "$ADDRESS" -p "$PORT" -c 4 -C 10
    cm_case ucmatose-silent \
        ucmatose -b "$ADDRESS" -p "$PORT" -c 4 -C 0 -- ucmatose -s "$ADDRESS" -p "$PORT" -c 4 -C 0
    cm_case rdma_client \
        rdma_server -s "$ADDRESS" -p "$PORT" -- rdma_client -s "$ADDRESS" -p "$PORT"
    cm_case rdma_xclient \
        rdma_xserver -p "$PORT" -- rdma_xclient -s "$ADDRESS" -p "$PORT"
    # Servers block: the default of these two, busy polling, never sleeps and so never looks ready. There is no async client,
    # because it takes the server's close for an error when that is there together with the last data (poll gives
    # POLLIN | POLLHUP, and do_poll of the examples returns POLLHUP).
    local program mode
    for program in rstream riostream; do
        for mode in blocking nonblocking; do
            local load=(-p "$PORT" -S 4096 -C 20 -I 2 -T verify)
            cm_case "$program-$mode" \
                "$program" -b "$ADDRESS" "${load[@]}" -T blocking -- "$program" -s "$ADDRESS" "${load[@]}" -T "$mode"
        done
    done
}
