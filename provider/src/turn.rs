// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause

//! Whose turn it is: a lock that is held from one call of C to another.
//!
//! Between `ibv_start_poll` and `ibv_end_poll` the application may call any verb, on the same CQ too: it
//! posts, arms, kills a QP. So a batch must not hold the CQ's own lock, which those take. It holds this
//! one, which nothing but another batch waits for.

use crate::lock::{Condvar, Mutex, lock, wait};

/// A turn that one thread has at a time.
#[derive(Debug, Default)]
pub(crate) struct Turn {
    state: Mutex<State>,
    free: Condvar,
}

#[derive(Debug, Default)]
struct State {
    is_taken: bool,
    /// Threads that wait. Without one nobody has to be told, which would be a system call.
    waiting: u32,
}

impl Turn {
    /// Waits for the turn, and takes it.
    pub(crate) fn take(&self) {
        let mut state = lock(&self.state);
        while state.is_taken {
            state.waiting = state.waiting.wrapping_add(1);
            state = wait(&self.free, state);
            state.waiting = state.waiting.wrapping_sub(1);
        }
        state.is_taken = true;
    }

    /// Gives the turn up; nothing if nobody has it.
    pub(crate) fn give_up(&self) {
        let mut state = lock(&self.state);
        state.is_taken = false;
        let has_heir = state.waiting > 0;
        drop(state);
        if has_heir {
            self.free.notify_one();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU32, Ordering};
    use std::thread;

    use super::*;

    #[test]
    fn one_thread_has_it_at_a_time_and_none_waits_for_ever() {
        let turn = Arc::new(Turn::default());
        let inside = Arc::new(AtomicU32::new(0));
        let threads: Vec<_> = (0..4)
            .map(|_| {
                let (turn, inside) = (Arc::clone(&turn), Arc::clone(&inside));
                thread::spawn(move || {
                    for _ in 0..500 {
                        turn.take();
                        assert_eq!(inside.fetch_add(1, Ordering::SeqCst), 0);
                        thread::yield_now();
                        inside.fetch_sub(1, Ordering::SeqCst);
                        turn.give_up();
                    }
                })
            })
            .collect();
        for thread in threads {
            thread.join().unwrap();
        }
        assert_eq!(lock(&turn.state).waiting, 0);
    }

    #[test]
    fn giving_up_what_nobody_has_does_no_harm() {
        let turn = Turn::default();
        turn.give_up();
        turn.take();
        turn.give_up();
        turn.take();
    }
}
