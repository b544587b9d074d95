// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
//! Recognises, in what the kernel says, that it is in trouble.

/// How bad a line of the kernel's is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Alarm {
    /// The kernel goes on, but found a fault in itself.
    Fault,
    /// The kernel has stopped.
    Panic,
}

/// What the kernel says when it finds a fault in itself.
const FAULTS: &[&str] = &[
    "BUG:",
    "WARNING:",
    "KASAN",
    "KCSAN",
    "UBSAN",
    "refcount_t:",
    "Oops:",
    "general protection fault",
    "kernel BUG at",
    "soft lockup",
    "hard LOCKUP",
    "self-detected stall",
    "detected stalls on CPUs",
    "detected expedited stalls",
    "blocked for more than",
    "possible recursive locking",
    "unregister_netdevice: waiting for",
    "list_add corruption",
    "list_del corruption",
];

/// Judges one line of the kernel's log or console.
pub(crate) fn alarm(line: &str) -> Option<Alarm> {
    if line.contains("Kernel panic") {
        return Some(Alarm::Panic);
    }
    // arch/x86/kernel/traps.c: show_signal. A program crashed, which its exit status tells.
    if line.contains("traps: ") && line.contains(" ip:") {
        return None;
    }
    FAULTS
        .iter()
        .any(|fault| line.contains(fault))
        .then_some(Alarm::Fault)
}

/// Cuts bytes into lines, without the carriage returns of a serial line.
#[derive(Debug, Default)]
pub(crate) struct Lines {
    rest: Vec<u8>,
}

impl Lines {
    /// Takes the next bytes and returns the lines that are complete.
    pub(crate) fn feed(&mut self, bytes: &[u8]) -> Vec<String> {
        self.rest.extend_from_slice(bytes);
        let mut lines = Vec::new();
        while let Some(end) = self.rest.iter().position(|byte| *byte == b'\n') {
            let line: Vec<u8> = self.rest.drain(..=end).collect();
            lines.push(String::from_utf8_lossy(&line).trim_end().to_owned());
        }
        lines
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn trouble_is_recognised() {
        for line in [
            "[   12.345678] WARNING: CPU: 0 PID: 77 at drivers/infiniband/sw/rxe/rxe_qp.c:1",
            "[   12.345678] BUG: kernel NULL pointer dereference, address: 0000000000000008",
            "[   12.345678] BUG: scheduling while atomic: kworker/u4:1/50/0x00000100",
            "[   12.345678] watchdog: BUG: soft lockup - CPU#1 stuck for 26s! [siw_tx/1:66]",
            "[   12.345678] rcu: INFO: rcu_preempt self-detected stall on CPU",
            "[   12.345678] rcu: INFO: rcu_preempt detected stalls on CPUs/tasks:",
            "[   12.345678] refcount_t: underflow; use-after-free.",
            "[   12.345678] INFO: task ibv_rc_pingpong:99 blocked for more than 120 seconds.",
            "[   12.345678] general protection fault, probably for non-canonical address 0x6b6b: 0000 [#1] SMP",
            "[   12.345678] unregister_netdevice: waiting for dummy0 to become free.",
        ] {
            assert_eq!(alarm(line), Some(Alarm::Fault), "{line}");
        }
        let panic = "[   12.345678] Kernel panic - not syncing: Fatal exception in interrupt";
        assert_eq!(alarm(panic), Some(Alarm::Panic));
    }

    #[test]
    fn ordinary_messages_are_not_trouble() {
        for line in [
            "[    1.000000] siw: loading out-of-tree module taints kernel.",
            "[    1.000000] rdma_rxe: loaded",
            "[    1.000000] infiniband rxe0: added dummy0",
            "[    1.000000] debug: unmapping init [mem 0x0-0x1]",
            "[    1.000000] traps: ib_atomic_lat[478] general protection fault ip:7f0f62f86472 sp:7ffc error:0 in libc.so.6",
        ] {
            assert_eq!(alarm(line), None, "{line}");
        }
    }

    #[test]
    fn lines_are_cut_at_newlines_only() {
        let mut lines = Lines::default();
        assert_eq!(lines.feed(b"a\r\nb"), ["a"]);
        assert_eq!(lines.feed(b"c\n"), ["bc"]);
    }
}
