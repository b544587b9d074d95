# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# shellcheck shell=bash
#
# Larger applications that both drivers can run, over RC connections by rdma_cm: qperf, libfabric, fio.

applications() {
    local test verb
    for test in rc_lat rc_rdma_read_bw rc_rdma_write_poll_lat; do
        measure "qperf-$test" -t 1 "$test"
    done
    # Fewer messages than the receives that are posted at first: iWARP has nothing to make a fast sender wait.
    measure qperf-rc_bw -n 200 rc_bw
    measure qperf-rc_bw-polling -n 200 -cp1 rc_bw

    fabric fi_pingpong-msg verbs msg "$DEVICE"

    for verb in write read send; do
        files "fio-$verb" "$verb"
    done
}

# qperf's server tells its port before it listens there (0.4.11, cm_open_server; later sources have it the other way round), and a
# client that comes first is refused: by TCP below siw (siw_connect: ECONNREFUSED), by the CM on rxe.
QPERF_CONNECTS_TOO_EARLY='rdma_connect failed|Event rejected'

# One run of qperf, whose server goes on. It gives no GID unless rdma_cm does, and neither RoCE nor iWARP can do without.
measure() { # NAME [OPTION...] TEST
    AGAIN="$QPERF_CONNECTS_TOO_EARLY${AGAIN:+|$AGAIN}" STAYS=yes tcp_case "$1" \
        qperf -lp "$PORT" -- qperf -lp "$PORT" -cm 1 -to 20 -m 1k "$ADDRESS" "${@:2}"
}

# fi_pingpong, which checks what it receives.
fabric() { # NAME PROVIDER ENDPOINT DOMAIN [ARGUMENT...]
    local end=(fi_pingpong -p "$2" -e "$3" -d "$4" -I 10 -S 1024 -c "${@:5}")
    tcp_case "$1" "${end[@]}" -B "$PORT" -- "${end[@]}" -P "$PORT" "$ADDRESS"
}

# fio over the wire. Its client says how much it has moved; it ends with 0 also where it failed. The server has more receives
# posted than the client has sends: fio connects without RNR retries, and iWARP has none.
files() { # NAME VERB
    local end=(fio --name=regress --ioengine=rdma --size=64k --bs=4k --thread --port="$PORT")
    EXPECT='io=[1-9][0-9.]*[kKM]iB' cm_case "$1" \
        "${end[@]}" --iodepth=16 --rw=read -- "${end[@]}" --iodepth=2 --rw=write --hostname="$ADDRESS" --verb="$2"
}

# UCX below UCP, on one transport.
transfer() { # NAME TRANSPORT TEST [ARGUMENT...]
    tcp_case "$1" ucx_perftest -p "$PORT" -- \
        ucx_perftest "$ADDRESS" -p "$PORT" -d "$DEVICE:1" -x "$2" -n 50 -w 5 -t "${@:3}"
}

# UCX by UCP, which chooses among transports.
protocol() { # NAME TRANSPORTS TEST [ARGUMENT...]
    UCX_NET_DEVICES=$DEVICE:1 UCX_TLS=$2 tcp_case "$1" \
        ucx_perftest -p "$PORT" -- ucx_perftest "$ADDRESS" -p "$PORT" -n 50 -w 5 -t "${@:3}"
}

# A ring of MPI processes that passes 1024 bytes on, over UCX and nothing else.
ring() { # NAME TRANSPORTS
    UCX_NET_DEVICES=$DEVICE:1 UCX_TLS=$2 EXPECT='time for 5 loops' alone_case "$1" \
        mpirun --allow-run-as-root --oversubscribe -n 2 \
        --mca pml ucx --mca pml_ucx_tls any --mca pml_ucx_devices any --mca btl self \
        /usr/bin/python3 -m mpi4py.bench ringtest -n 1024 -l 5
}
