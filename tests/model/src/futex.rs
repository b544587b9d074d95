// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause

//! `futex`(2) as the kernel does it: it reads the word and queues the sleeper under one lock, that of a hash
//! bucket, and looks for whom to wake under the same (linux 6.1, 6.12 `futex/waitwake.c: futex_wait_setup,
//! futex_wake`).
//!
//! `futex_wake` does not take the lock where nobody has announced himself in the bucket
//! (`futex_hb_waiters_pending`): with the full barriers there and in `futex_q_lock` that is as if it had.

use std::collections::VecDeque;

use loom::sync::Mutex;
use loom::thread::{self, Thread};

use crate::atomic::{AtomicU32, Ordering};

/// None: loom lets a thread that spins wait for others, and so would miss some of the ways to sleep.
pub(crate) const LOOKS: u32 = 0;

loom::lazy_static! {
    /// One bucket: who sleeps, and the address of the word.
    static ref SLEEPERS: Mutex<VecDeque<(usize, Thread)>> = Mutex::new(VecDeque::new());
}

pub(crate) fn sleep_while(word: &AtomicU32, value: u32) {
    {
        let mut sleepers = SLEEPERS.lock().unwrap();
        // Relaxed: the kernel's `get_user` under the lock.
        if word.load(Ordering::Relaxed) != value {
            return;
        }
        sleepers.push_back((address(word), thread::current()));
    }
    thread::park();
}

pub(crate) fn wake_one(word: &AtomicU32) {
    let woken = {
        let mut sleepers = SLEEPERS.lock().unwrap();
        let at = sleepers.iter().position(|(of, _)| *of == address(word));
        at.and_then(|at| sleepers.remove(at))
    };
    if let Some((_, woken)) = woken {
        woken.unpark();
    }
}

fn address(word: &AtomicU32) -> usize {
    std::ptr::from_ref(word).addr()
}
