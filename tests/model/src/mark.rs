// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause

//! siw: the mark that stands behind all entries (provider `ring/valid.rs`), against a kernel that
//! takes entries while the QP lives and flushes them when it dies (linux 6.1 `siw_qp.c:
//! siw_activate_tx_from_sq, siw_sq_flush`).
//!
//! The kernel's two sides exclude each other by the QP's state lock; the poster takes no lock of the
//! kernel's.
//!
//! A post that races with the flush may find the mark which the kernel has found too: then the kernel
//! clears the flags of what was just published, and nobody completes that. What counts is that some CQE
//! tells of the death, of the mark or of an entry: the library completes what is left.

#![expect(clippy::arithmetic_side_effects, reason = "a few steps of a counter")]

use loom::cell::UnsafeCell;
use loom::sync::{Arc, Mutex};
use loom::thread;

use crate::atomic::{AtomicU32, Ordering, fence};
use crate::order;

const VALID: u32 = 1;
const MARK: u32 = 64;
/// The id of the mark; entries have smaller ones.
const MARK_ID: u32 = 99;

#[derive(Default)]
struct Entry {
    flags: AtomicU32,
    /// A flush that finds a mark may read it while it is written: it finds the old one or the new.
    id: AtomicU32,
    /// The rest, which is read when the entry is taken.
    body: UnsafeCell<u32>,
}

struct Ring {
    entries: Vec<Entry>,
    /// The kernel's state lock.
    kernel: Mutex<Kernel>,
}

#[derive(Default, Clone)]
struct Kernel {
    get: usize,
    taken: Vec<u32>,
    flushed: Vec<u32>,
}

impl Ring {
    /// A ring of `count` entries with the mark at `marked`, where the kernel looks at `get`.
    fn new(count: usize, get: usize, marked: usize) -> Arc<Self> {
        let ring = Self {
            entries: (0..count).map(|_| Entry::default()).collect(),
            kernel: Mutex::new(Kernel {
                get,
                ..Kernel::default()
            }),
        };
        ring.mark(marked);
        Arc::new(ring)
    }

    fn at(&self, index: usize) -> &Entry {
        &self.entries[index % self.entries.len()]
    }

    // Our side, as in `ring/valid.rs`.

    fn write(&self, index: usize, id: u32) {
        let entry = self.at(index);
        entry.id.store(id, Ordering::Relaxed);
        // SAFETY: the protocol under test gives the entry to us; loom reports a race if not.
        entry.body.with_mut(|body| unsafe { *body = id });
    }

    fn publish(&self, index: usize) {
        order::publish_entry(&self.at(index).flags, VALID);
    }

    fn publish_over_mark(&self, index: usize) -> bool {
        order::publish_over_mark(&self.at(index).flags, MARK, VALID)
    }

    fn mark(&self, index: usize) {
        let entry = self.at(index);
        if order::entry(&entry.flags) == 0 {
            entry.id.store(MARK_ID, Ordering::Relaxed);
            order::publish_entry(&entry.flags, MARK);
        }
    }

    /// Only to be used when the kernel does not take entries.
    fn take_back(&self, index: usize, instead: u32) -> bool {
        let flags = &self.at(index).flags;
        order::entry(flags) == VALID && order::take_back_entry(flags, VALID, instead)
    }

    // The kernel's side.

    /// Takes what it finds: copies an entry, then `smp_store_mb(flags, 0)`.
    fn take(&self) {
        let mut kernel = self.kernel.lock().unwrap();
        loop {
            let entry = self.at(kernel.get);
            if entry.flags.load(Ordering::Acquire) & VALID == 0 {
                return;
            }
            // SAFETY: the protocol under test gives the entry to the kernel.
            let body = entry.body.with(|body| unsafe { *body });
            assert_eq!(entry.id.load(Ordering::Relaxed), body);
            kernel.taken.push(body);
            fence(Ordering::Release);
            entry.flags.store(0, Ordering::Relaxed);
            fence(Ordering::SeqCst);
            kernel.get += 1;
        }
    }

    /// Flushes whatever has flags, and does not look again: a CQE, `smp_store_mb(flags, 0)`, and
    /// once more `WRITE_ONCE(flags, 0)`.
    fn flush(&self) {
        let mut kernel = self.kernel.lock().unwrap();
        loop {
            let entry = self.at(kernel.get);
            if entry.flags.load(Ordering::Acquire) == 0 {
                return;
            }
            let id = entry.id.load(Ordering::Relaxed);
            kernel.flushed.push(id);
            entry.flags.store(0, Ordering::Relaxed);
            fence(Ordering::SeqCst);
            entry.flags.store(0, Ordering::Relaxed);
            kernel.get += 1;
        }
    }

    /// What the kernel has seen in the end.
    fn seen(&self) -> Kernel {
        self.kernel.lock().unwrap().clone()
    }
}

/// We post a list of two; the kernel takes what is there, and then the QP dies. `post` says whether it
/// found the QP alive.
fn post_two_and_die(post: fn(&Ring) -> bool) {
    loom::model(move || {
        let ring = Ring::new(4, 0, 0);
        let kernel = {
            let ring = Arc::clone(&ring);
            thread::spawn(move || {
                ring.take();
                ring.flush();
            })
        };
        let alive = post(&ring);
        kernel.join().unwrap();
        let Kernel { taken, flushed, .. } = ring.seen();
        assert!(!flushed.is_empty(), "a death goes unseen");
        assert!(alive || taken.is_empty(), "a dead QP sends");
    });
}

/// As `siw/send.rs: Sends::write` and `publish`: what is behind the mark, the next mark, and only
/// then what goes in the mark's place.
fn post_as_we_do(ring: &Ring) -> bool {
    ring.write(0, 1);
    ring.write(1, 2);
    ring.publish(1);
    ring.mark(2);
    ring.publish_over_mark(0)
}

#[test]
fn a_death_is_told_whatever_is_posted_meanwhile() {
    post_two_and_die(post_as_we_do);
}

#[test]
#[should_panic = "a death goes unseen"]
fn a_death_goes_unseen_without_the_next_mark_being_put_first() {
    post_two_and_die(|ring| {
        ring.write(0, 1);
        ring.write(1, 2);
        ring.publish(1);
        let alive = ring.publish_over_mark(0);
        ring.mark(2);
        alive
    });
}

#[test]
#[should_panic = "a death goes unseen"]
fn a_death_goes_unseen_without_a_mark_at_every_moment() {
    post_two_and_die(|ring| {
        let alive = order::take_back_entry(&ring.at(0).flags, MARK, 0);
        ring.write(0, 1);
        ring.write(1, 2);
        ring.mark(2);
        ring.publish(1);
        ring.publish(0);
        alive
    });
}

#[test]
#[should_panic = "Causality violation"]
fn an_entry_is_torn_without_release_over_the_mark() {
    post_two_and_die(|ring| {
        ring.write(0, 1);
        ring.write(1, 2);
        ring.publish(1);
        ring.mark(2);
        let flags = &ring.at(0).flags;
        flags
            .compare_exchange(MARK, VALID, Ordering::Relaxed, Ordering::Relaxed)
            .is_ok()
    });
}

/// While the QP lives, the kernel takes both, at once or by the doorbell, and leaves the mark alone.
#[test]
fn a_living_kernel_takes_all_but_the_mark() {
    loom::model(|| {
        let ring = Ring::new(4, 0, 0);
        let kernel = {
            let ring = Arc::clone(&ring);
            thread::spawn(move || ring.take())
        };
        assert!(post_as_we_do(&ring));
        ring.take();
        kernel.join().unwrap();
        ring.flush();
        let Kernel { taken, flushed, .. } = ring.seen();
        assert_eq!((taken, flushed), (vec![1, 2], vec![MARK_ID]));
    });
}

/// The doorbell that is left out, as in `valid_ring.rs`, where a mark gives way to the newer entry.
#[test]
fn a_doorbell_is_left_out_only_if_the_kernel_looks_again() {
    loom::model(|| {
        let ring = Ring::new(4, 0, 0);
        ring.write(0, 1);
        ring.mark(1);
        assert!(ring.publish_over_mark(0));
        let kernel = {
            let ring = Arc::clone(&ring);
            thread::spawn(move || ring.take())
        };
        ring.write(1, 2);
        ring.mark(2);
        assert!(ring.publish_over_mark(1));
        let rings = order::older_entry(&ring.at(0).flags) & VALID == 0;
        kernel.join().unwrap();
        let taken = ring.seen().taken;
        assert!(taken == [1, 2] || rings, "a send is never looked at");
    });
}

/// We have posted two, and the kernel refuses the doorbell, so that it takes none; but the QP may die.
/// Nothing pending is left when we have taken back, and the death is told.
fn take_back_two_and_die(take_back: fn(&Ring) -> bool) {
    loom::model(move || {
        let ring = Ring::new(4, 0, 0);
        assert!(post_as_we_do(&ring));
        let kernel = {
            let ring = Arc::clone(&ring);
            thread::spawn(move || ring.flush())
        };
        take_back(&ring);
        kernel.join().unwrap();
        ring.take();
        let Kernel { taken, flushed, .. } = ring.seen();
        assert!(!flushed.is_empty(), "a death goes unseen");
        assert!(taken.is_empty(), "a send that was refused goes out");
    });
}

/// As `siw/send.rs: Sends::take_back`.
fn take_back_as_we_do(ring: &Ring) -> bool {
    let taken_back = ring.take_back(0, MARK);
    if taken_back {
        ring.at(0).id.store(MARK_ID, Ordering::Relaxed);
        ring.take_back(1, 0);
        order::take_back_entry(&ring.at(2).flags, MARK, 0);
    }
    taken_back
}

#[test]
fn what_is_taken_back_leaves_the_mark() {
    take_back_two_and_die(take_back_as_we_do);
}

#[test]
#[should_panic = "a death goes unseen"]
fn a_death_goes_unseen_without_the_mark_in_place_of_what_is_taken_back() {
    take_back_two_and_die(|ring| {
        let taken_back = ring.take_back(0, 0);
        if taken_back {
            ring.take_back(1, 0);
            order::take_back_entry(&ring.at(2).flags, MARK, 0);
            ring.mark(0);
        }
        taken_back
    });
}
