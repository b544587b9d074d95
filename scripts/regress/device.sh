# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# shellcheck shell=bash
#
# One RDMA device of our own on a dummy link, gone again when the script ends. Both ends of every connection run on it:
# the drivers loop packets for their own address back.
#
# open_device sets:
#   DEVICE     the RDMA device's name
#   ADDRESS    its IPv4 address (documentation range, RFC 5737)

open_device() { # rxe|siw
    DEVICE=$1_regress NETDEV=regress-$1
    case $1 in
    rxe) ADDRESS=203.0.113.1 ;;
    siw) ADDRESS=203.0.113.129 ;;
    esac
    if ((EUID != 0)); then
        echo "RDMA links need root" >&2
        exit 2
    fi
    # Wherever modules come from: if one is missing after this, rdma link add says so.
    modprobe -qa ib_uverbs rdma_ucm "$([[ $1 == rxe ]] && echo rdma_rxe || echo siw)" 2>/dev/null || true
    close_device # of a run that was killed
    ip link add "$NETDEV" type dummy
    ip address add "$ADDRESS/25" dev "$NETDEV"
    ip link set "$NETDEV" up
    rdma link add "$DEVICE" type "$1" netdev "$NETDEV"
}

close_device() {
    rdma link delete "$DEVICE" 2>/dev/null || true
    ip link delete "$NETDEV" 2>/dev/null || true
}

# The index of the RoCE GID that stands for ADDRESS.
gid_index() {
    local gids=/sys/class/infiniband/$DEVICE/ports/1/gids a b c d
    IFS=. read -r a b c d <<<"$ADDRESS"
    basename "$(grep -l "$(printf 'ffff:%02x%02x:%02x%02x' "$a" "$b" "$c" "$d")" "$gids"/* | head -n 1)"
}
