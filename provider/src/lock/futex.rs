// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause

//! Sleeping until a word is another, and waking who does (`futex`(2)), in this process alone.

use std::ptr;

use super::atomic::AtomicU32;

/// How often a thread looks again before it sleeps: about as long as a queue is held.
pub(super) const LOOKS: u32 = 100;

/// Sleeps while the word is `value` until it is woken, or for nothing.
///
/// The kernel reads the word and queues the sleeper under the lock under which it looks for whom to wake
/// (linux 6.1, 6.12 `futex/waitwake.c: futex_wait_setup, futex_wake`): no wake-up falls between the two.
pub(super) fn sleep_while(word: &AtomicU32, value: u32) {
    call(word, libc::FUTEX_WAIT, value);
}

/// Wakes one that sleeps until the word is another, if there is one.
pub(super) fn wake_one(word: &AtomicU32) {
    call(word, libc::FUTEX_WAKE, 1);
}

fn call(word: &AtomicU32, operation: i32, value: u32) {
    // SAFETY: a word of ours; there is no deadline. That it failed, or woke for nothing, does no harm.
    unsafe {
        libc::syscall(
            libc::SYS_futex,
            word.as_ptr(),
            operation | libc::FUTEX_PRIVATE_FLAG,
            value,
            ptr::null::<libc::timespec>(),
        )
    };
}
