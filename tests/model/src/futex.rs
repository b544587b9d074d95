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
    /// The one bucket, which is that of the one word.
    static ref SLEEPERS: Mutex<VecDeque<Thread>> = Mutex::new(VecDeque::new());
}

pub(crate) fn sleep_while(word: &AtomicU32, value: u32) {
    {
        let mut sleepers = SLEEPERS.lock().unwrap();
        // Relaxed: the kernel's `get_user` under the lock.
        if word.load(Ordering::Relaxed) != value {
            return;
        }
        sleepers.push_back(thread::current());
    }
    thread::park();
}

pub(crate) fn wake_one(_word: &AtomicU32) {
    let woken = SLEEPERS.lock().unwrap().pop_front();
    if let Some(woken) = woken {
        woken.unpark();
    }
}
