# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# shellcheck shell=bash
#
# The programs of ibverbs-utils.

pingpong() { # NAME TRANSPORT [ARGUMENT...]
    local name=$1 end=("ibv_$2_pingpong" -d "$DEVICE" -g "$gid" -p "$PORT" -n 20 -s 1024 -c "${@:3}")
    tcp_case "$name" "${end[@]}" -- "${end[@]}" "$ADDRESS"
}

# Its -c is another: the number of clients.
xrc_pingpong() {
    local end=(ibv_xsrq_pingpong -d "$DEVICE" -g "$gid" -p "$PORT" -n 20 -s 1024)
    WHY='no XRC' UNABLE='xrc|XRC' tcp_case xsrq "${end[@]}" -- "${end[@]}" "$ADDRESS"
}

# Those that look at a device. The last of them takes its port down.
look() {
    EXPECT=$DEVICE alone_case devices ibv_devices
    EXPECT=PORT_ACTIVE alone_case devinfo ibv_devinfo -v -d "$DEVICE"
    HOLDS=port_error_is_told STAYS=yes talk is_watching asyncwatch \
        stdbuf -oL ibv_asyncwatch -d "$DEVICE" -- ip link set "$NETDEV" down
}

is_watching() { grep -q 'async event FD' "$LOGS/server"; }

port_error_is_told() {
    local limit=$((SECONDS + DEADLINE))
    until grep -q PORT_ERR "$LOGS/server"; do
        ((SECONDS < limit)) || return
        sleep 0.1
    done
}
