# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# shellcheck shell=bash
#
# The librdmacm examples: RC connections made, used and closed, and what RoCE has beside them.

connections() {
    EXPECT=rdma-ping-9 cm_case rping \
        rping -s -a "$ADDRESS" -p "$PORT" -C 10 -v -- rping -c -a "$ADDRESS" -p "$PORT" -C 10 -vV
    EXPECT=rdma-ping-9 STAYS=yes cm_case rping-persistent \
        rping -s -P -a "$ADDRESS" -p "$PORT" -C 10 -- rping -c -a "$ADDRESS" -p "$PORT" -C 10 -vV
    cm_case ucmatose \
        ucmatose -b "$ADDRESS" -p "$PORT" -c 4 -C 10 -- ucmatose -s "$ADDRESS" -p "$PORT" -c 4 -C 10
    cm_case ucmatose-silent \
        ucmatose -b "$ADDRESS" -p "$PORT" -c 4 -C 0 -- ucmatose -s "$ADDRESS" -p "$PORT" -c 4 -C 0
    STAYS=yes cm_case cmtime \
        cmtime -b "$ADDRESS" -p "$PORT" -c 10 -- cmtime -s "$ADDRESS" -p "$PORT" -c 10
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
    copied=$LOGS.copy
    head -c 300000 /dev/urandom >"$copied.from"
    HOLDS=is_copied STAYS=yes cm_case rcopy \
        rcopy -p "$PORT" -- rcopy "$copied.from" "$ADDRESS:$copied" -p "$PORT"
    rm -f "$copied"*

    # Without end, if it were not for the end of the peer, of which rdma_cm tells.
    load=(-p "$PORT" -S 4096 -C 20 -I 1000000)
    killed_case rstream-killed-async cm_listens \
        rstream -b "$ADDRESS" "${load[@]}" -T blocking -- rstream -s "$ADDRESS" "${load[@]}" -T async
    killed_case rping-killed cm_listens \
        rping -s -a "$ADDRESS" -p "$PORT" -- rping -c -a "$ADDRESS" -p "$PORT" -C 100000000
}

is_copied() { cmp "$copied.from" "$copied"; }

# What iWARP cannot do: a QP that rping has made itself, whose moves rdma_cm does not make; datagrams.
roce() {
    WHY='RC by rdma_cm only' EXPECT=rdma-ping-9 cm_case rping-own-qp \
        rping -s -q -a "$ADDRESS" -p "$PORT" -C 10 -v -- rping -c -q -a "$ADDRESS" -p "$PORT" -C 10 -vV

    local udaddy_port=7174 # fixed in the program
    WHY='no datagrams' PORT=$udaddy_port cm_case udaddy udaddy -b "$ADDRESS" -c 2 -- udaddy -s "$ADDRESS" -c 2

    # One that receives has joined when it says so, line by line: librdmacm has attached its QP then.
    local group=(-m 233.252.0.9 -b "$ADDRESS" -C 10) # of MCAST-TEST-NET (RFC 6676)
    # linux 6.12 drops some of ten datagrams in a row to a group before rxe has sent them (sent_pkts), on either provider.
    if [[ $(uname -r) == 6.12.* && $DEVICE == *rxe* ]]; then
        skip mckey "linux 6.12 drops datagrams to a group"
    else
        WHY='no datagrams' talk has_joined mckey stdbuf -oL mckey "${group[@]}" -- mckey -s "${group[@]}"
    fi
}

has_joined() { grep -q joined "$LOGS/server"; }
