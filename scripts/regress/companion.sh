# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# shellcheck shell=bash
#
# What tests of the companion module share: begin, cases and checks, end.

# Sets module, as all that follows needs it, and makes sure that it is not loaded.
begin() { # THEME PREFIX MODULE: of the guest's cases, of the functions that are probed in the driver, and the file
    theme=$1 prefix=$2 module=$3
    guest=${CARGO_TARGET_DIR:-target}/release/guest
    rounds=${GUEST_ROUNDS:-10}
    failed=0
    mountpoint -q /sys/kernel/debug || mount -t debugfs none /sys/kernel/debug
    [[ ! -e /sys/module/lastwqe_events ]] || rmmod lastwqe_events
}

end() { exit "$failed"; } # 1 if any case has failed

pass() { echo "ok $theme/companion/$1"; }
skip() { echo "skip $theme/companion/$1: $2"; }
fail() {
    echo "not ok $theme/companion/$1: $2"
    failed=1
}

# debugfs has a line for each probe.
probes() { grep -c " $prefix" /sys/kernel/debug/kprobes/list || true; }

expect_probes() { # NAME NUMBER
    local found
    found=$(probes)
    if ((found == $2)); then pass "$1"; else fail "$1" "$found probes instead of $2"; fi
}

# The log goes through sed, too: two who write at a time would write into each other's lines.
cases() { # WITH [FILTER]: cases of the theme, whose names say that they ran with it
    "$guest" "$theme/${2:-}" 2>&1 | sed -uE "s,$theme/(siw|rxe)/,&$1," || failed=1
}

come_and_go() { # until the file OVER is there
    local times=0
    while [[ ! -e $1 ]]; do
        insmod "$module" || return
        rmmod lastwqe_events || return
        times=$((times + 1))
    done
    echo "the module came and went $times times" >&2
}

# Connections are made and ended, and the module is loaded and unloaded all the time.
under_traffic() { # CASE
    local over=/run/companion.over loop status=0
    rm -f "$over"
    come_and_go "$over" &
    loop=$!
    GUEST_ROUNDS=$rounds "$guest" "$1" >&2 || status=1
    touch "$over"
    wait "$loop" || status=1
    return "$status"
}

# QEMU before 8.1 runs code that is no longer there: its emulator (translate-all.c: tb_gen_code) reads the code first and
# locks the page when it has translated it, and misses what another processor writes in between (its commit deba78709ae8
# turned that round). Probes are such writes. linux 6.12 then dies of an int3 that was removed or in a jump to 0, and 6.1
# meets the int3 for ever, with any probe. With one processor nobody runs what is being changed.
is_stale_qemu() {
    local machine version
    machine=$(cat /sys/class/dmi/id/product_version 2>/dev/null) # pc-i440fx-7.2
    version=${machine##*-}
    [[ $machine == pc-* ]] && ((${version%%.*} * 100 + ${version##*.} < 801))
}

switch_others() { # 0|1: all processors but the first, off or on
    local processor
    for processor in /sys/devices/system/cpu/cpu[1-9]*/online; do
        [[ ! -e $processor ]] || echo "$1" >"$processor"
    done
}

# What the kernel holds and cannot give back, in KiB.
kernel_memory() { awk '/^(SUnreclaim|VmallocUsed|Percpu):/ { sum += $2 } END { print sum }' /proc/meminfo; }

# The module comes and goes while CASE runs, and nothing stays.
storm() { # CASE
    local before
    if [[ ${PROVIDER:-lastwqe} == stock ]]; then
        skip under_traffic "the stock provider loses completions there"
    else
        if is_stale_qemu; then
            trap 'switch_others 1' EXIT
            switch_others 0
        fi
        before=$(kernel_memory)
        if under_traffic "$1"; then pass under_traffic; else fail under_traffic "see the log"; fi
        echo "kernel memory: $before KiB before, $(kernel_memory) KiB after" >&2
    fi
    expect_probes nothing_stays 0
}
