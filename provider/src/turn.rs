// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause

//! Whose turn it is: a lock that is held from one call of C to another.
//!
//! Between `ibv_start_poll` and `ibv_end_poll` the application may call any verb, on the same CQ too: it
//! posts, arms, kills a QP. So a batch must not hold the CQ's own lock, which those take. It holds this
//! one, which nothing but another batch waits for. So does a draft, of which only others of its QP wait for the end.

use crate::lock::Word;

/// A turn that one thread has at a time.
#[derive(Debug, Default)]
pub(crate) struct Turn(Word);

impl Turn {
    /// Waits for the turn, and takes it.
    pub(crate) fn take(&self) {
        self.0.take();
    }

    /// Gives the turn up; nothing if nobody has it.
    pub(crate) fn give_up(&self) {
        if self.0.is_taken() {
            self.0.give_back();
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
