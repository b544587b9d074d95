// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause

//! A ledger that is filled under one lock and emptied under another (provider `ledger/ends.rs`, `ledger/recv.rs`): no
//! entry is read that is not there, and none overwritten that is.

use loom::cell::UnsafeCell;
use loom::sync::Arc;
use loom::thread;

use crate::atomic::{AtomicU32, Ordering};
use crate::ends::End;

/// What both ends are: the provider's, or one that lacks something.
trait Number: Default + Send + Sync + 'static {
    fn get(&self) -> u32;
    fn set(&self, name: u32);
}

impl Number for End {
    fn get(&self) -> u32 {
        self.get()
    }

    fn set(&self, name: u32) {
        self.set(name);
    }
}

#[derive(Default)]
struct WithoutAcquire(AtomicU32);

impl Number for WithoutAcquire {
    fn get(&self) -> u32 {
        self.0.load(Ordering::Relaxed)
    }

    fn set(&self, name: u32) {
        self.0.store(name, Ordering::Release);
    }
}

#[derive(Default)]
struct WithoutRelease(AtomicU32);

impl Number for WithoutRelease {
    fn get(&self) -> u32 {
        self.0.load(Ordering::Acquire)
    }

    fn set(&self, name: u32) {
        self.0.store(name, Ordering::Relaxed);
    }
}

/// Room for one receive.
struct Ledger<N> {
    entry: UnsafeCell<u32>,
    head: N,
    tail: N,
}

// SAFETY: loom runs one thread at a time, and reports whether two could have reached the entry at once.
unsafe impl<N: Sync> Sync for Ledger<N> {}

/// Each end is asked for by the other alone: a thread's own loads hide those of the others from loom, which looks for the
/// last access to a number that a store may have to do with.
impl<N: Number> Ledger<N> {
    /// Whether there was room.
    fn post(&self, name: u32) -> bool {
        let has_room = self.head.get() == name;
        if has_room {
            // SAFETY: the ends under test; loom reports a race.
            self.entry.with_mut(|entry| unsafe { *entry = name });
            self.tail.set(name.wrapping_add(1));
        }
        has_room
    }

    /// Whether there was one.
    fn poll(&self, name: u32) -> bool {
        let is_there = self.tail.get() != name;
        if is_there {
            // SAFETY: as above.
            let found = self.entry.with(|entry| unsafe { *entry });
            assert_eq!(found, name);
            self.head.set(name.wrapping_add(1));
        }
        is_there
    }
}

/// One thread posts and another polls, a few of them as far as the other lets it.
fn post_and_poll<N: Number>() {
    loom::model(|| {
        let ledger = Arc::new(Ledger {
            entry: UnsafeCell::new(u32::MAX),
            head: N::default(),
            tail: N::default(),
        });
        let poster = {
            let ledger = Arc::clone(&ledger);
            thread::spawn(move || (0..3).all(|name| ledger.post(name)))
        };
        let _ = (0..3).all(|name| ledger.poll(name));
        poster.join().unwrap();
    });
}

#[test]
fn an_entry_is_read_behind_its_post_and_overwritten_behind_that() {
    post_and_poll::<End>();
}

#[test]
#[should_panic = "Causality violation"]
fn an_entry_is_read_too_early_without_acquire() {
    post_and_poll::<WithoutAcquire>();
}

#[test]
#[should_panic = "Causality violation"]
fn an_entry_is_read_too_early_without_release() {
    post_and_poll::<WithoutRelease>();
}
