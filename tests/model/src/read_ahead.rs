// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause

//! Completions that were read ahead (provider `read_ahead/left.rs`): a batch comes to them without the lock under which
//! others take them or forget some. Each is had once, in order, or forgotten.

use loom::cell::UnsafeCell;
use loom::sync::{Arc, Mutex, MutexGuard};
use loom::thread;

use crate::atomic::{AtomicIsize, Ordering};
use crate::left;

/// How many there are: the numbers from 1 on.
const MOST: isize = 3;

struct Ahead {
    lock: Mutex<()>,
    left: AtomicIsize,
    room: [UnsafeCell<isize>; 3],
}

// SAFETY: loom runs one thread at a time, and reports whether two could have reached a place at once.
unsafe impl Sync for Ahead {}

impl Ahead {
    fn filled() -> Self {
        let ahead = Self {
            lock: Mutex::new(()),
            left: AtomicIsize::new(-1),
            room: [1, 2, 3].map(UnsafeCell::new),
        };
        left::put(&ahead.left, MOST);
        ahead
    }

    fn lock(&self) -> MutexGuard<'_, ()> {
        self.lock.lock().unwrap()
    }

    /// The place that is so far before the end.
    fn place(&self, back: isize) -> &UnsafeCell<isize> {
        &self.room[usize::try_from(MOST.wrapping_sub(back)).unwrap()]
    }

    fn next(&self) -> Option<isize> {
        let left = left::take(&self.left, 1)?;
        // SAFETY: what is under test; loom reports a race.
        Some(self.place(left).with(|place| unsafe { *place }))
    }

    /// As `ibv_next_poll`: without the lock, and with it where nothing is found.
    fn go_on(&self) -> Option<isize> {
        self.next().or_else(|| {
            let _locked = self.lock();
            (left::there_is(&self.left) > 0).then(|| self.next())?
        })
    }

    /// Forgets 2, and puts the rest by `put`. The lock is held.
    fn forget(&self, put: fn(&AtomicIsize, isize)) {
        let all = left::take_all(&self.left);
        let mut kept = 0_isize;
        for back in 1..=all {
            // SAFETY: as above.
            let value = self.place(back).with(|place| unsafe { *place });
            if value != 2 {
                kept = kept.wrapping_add(1);
                // SAFETY: as above.
                self.place(kept).with_mut(|place| unsafe { *place = value });
            }
        }
        put(&self.left, kept);
    }
}

/// A batch comes to all that it can while another thread does something under the lock; what each had.
fn check(
    other: impl Fn(&Ahead) -> Vec<isize> + Copy + Send + Sync + 'static,
    is_right: fn(&[isize], &[isize]) -> bool,
) {
    loom::model(move || {
        let ahead = Arc::new(Ahead::filled());
        let there = Arc::clone(&ahead);
        let other = thread::spawn(move || {
            let _locked = there.lock();
            other(&there)
        });
        let mut came_to = Vec::new();
        while let Some(value) = ahead.go_on() {
            came_to.push(value);
        }
        let took = other.join().unwrap();
        assert!(is_right(&came_to, &took), "{came_to:?} and {took:?}");
        assert_eq!(left::there_is(&ahead.left), 0);
    });
}

#[test]
fn each_is_had_once_and_in_order() {
    let take_two = |ahead: &Ahead| (0..2).filter_map(|_| ahead.next()).collect();
    check(take_two, |came_to, took| {
        let mut all = [came_to, took].concat();
        all.sort_unstable();
        all == [1, 2, 3] && came_to.is_sorted() && took.is_sorted()
    });
}

fn forgotten(came_to: &[isize], _: &[isize]) -> bool {
    [[1, 3].as_slice(), &[1, 2, 3]].contains(&came_to)
}

#[test]
fn what_is_not_forgotten_is_come_to() {
    check(
        |ahead| {
            ahead.forget(left::put);
            Vec::new()
        },
        forgotten,
    );
}

#[test]
#[should_panic = "Causality violation"]
fn what_was_moved_is_not_seen_without_release() {
    check(
        |ahead| {
            ahead.forget(|left, size| left.store(size, Ordering::Relaxed));
            Vec::new()
        },
        forgotten,
    );
}
