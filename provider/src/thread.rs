// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause

//! Which thread calls.

use std::arch::asm;

/// A number that no other thread has as long as this one lives; never 0.
#[inline(always)]
pub(crate) fn this_thread() -> u64 {
    let address;
    // SAFETY: the first word of a thread's control block is the block's own address (ELF Handling For Thread-Local
    // Storage 0.21, x86-64). It does not change.
    unsafe {
        asm!(
            "mov {}, fs:[0]",
            out(reg) address,
            options(nostack, preserves_flags, readonly, pure),
        );
    }
    address
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Barrier;
    use std::thread;

    #[test]
    fn threads_that_live_have_numbers_of_their_own() {
        let all_live = Barrier::new(3);
        let number = || {
            let number = this_thread();
            all_live.wait();
            assert_eq!(number, this_thread());
            number
        };
        let [a, b] = thread::scope(|scope| {
            let others = [scope.spawn(number), scope.spawn(number)];
            number();
            others.map(|other| other.join().unwrap())
        });
        assert!(a != b && a != this_thread() && b != this_thread());
        assert!(a != 0 && b != 0);
    }
}
