// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause

//! siw: flags carry the entries of a ring, and a word arms a CQ (linux 6.1 `siw_qp.c`).

use loom::cell::UnsafeCell;
use loom::sync::Arc;
use loom::thread;

use crate::armed::Armed;
use crate::atomic::{AtomicU32, Ordering, fence};
use crate::order;

const VALID: u32 = 1;

/// `smp_store_mb(word, 0)`.
fn store_mb(word: &AtomicU32) {
    word.store(0, Ordering::Relaxed);
    fence(Ordering::SeqCst);
}

/// One SQE that is posted twice; the kernel copies it, then clears its flags.
fn post_twice(publish: fn(&AtomicU32, u32), flags: fn(&AtomicU32) -> u32) {
    #[derive(Default)]
    struct Entry {
        flags: AtomicU32,
        id: UnsafeCell<u32>,
    }
    loom::model(move || {
        let entry = Arc::new(Entry::default());
        let kernel = Arc::clone(&entry);
        let kernel = thread::spawn(move || {
            for id in 1..3 {
                // The copy depends on the flags (READ_ONCE and a control dependency; on x86, and
                // by the lock taken since, an acquire).
                while kernel.flags.load(Ordering::Acquire) & VALID == 0 {
                    thread::yield_now();
                }
                // SAFETY: the protocol under test gives the entry to the kernel; loom reports a
                // race if not.
                kernel.id.with(|at| assert_eq!(unsafe { *at }, id));
                fence(Ordering::Release);
                store_mb(&kernel.flags);
            }
        });
        for id in 1..3 {
            while flags(&entry.flags) != 0 {
                thread::yield_now();
            }
            // SAFETY: the protocol under test gives the entry to us.
            entry.id.with_mut(|at| unsafe { *at = id });
            publish(&entry.flags, VALID);
        }
        kernel.join().unwrap();
    });
}

#[test]
fn an_sqe_is_complete_when_it_is_copied_and_copied_before_it_is_rewritten() {
    post_twice(order::publish_entry, order::entry);
}

#[test]
#[should_panic = "Causality violation"]
fn an_sqe_is_torn_without_release() {
    post_twice(
        |flags, value| flags.store(value, Ordering::Relaxed),
        order::entry,
    );
}

#[test]
#[should_panic = "Causality violation"]
fn an_sqe_is_rewritten_too_soon_without_acquire() {
    post_twice(order::publish_entry, |flags| flags.load(Ordering::Relaxed));
}

/// The doorbell that is left out: an older SQE is pending, we publish a newer one and ring only if
/// the older is no longer pending. The kernel takes the older and goes on if it finds the newer.
fn leave_out_the_doorbell(older_flags: fn(&AtomicU32) -> u32) {
    loom::model(move || {
        let older = Arc::new(AtomicU32::new(VALID));
        let newer = Arc::new(AtomicU32::new(0));
        let kernel = {
            let (older, newer) = (Arc::clone(&older), Arc::clone(&newer));
            thread::spawn(move || {
                store_mb(&older);
                newer.load(Ordering::Relaxed) & VALID != 0
            })
        };
        order::publish_entry(&newer, VALID);
        let rings = older_flags(&older) & VALID == 0;
        let found = kernel.join().unwrap();
        assert!(found || rings, "the newer SQE is never looked at");
    });
}

#[test]
fn a_doorbell_is_left_out_only_if_the_kernel_looks_again() {
    leave_out_the_doorbell(order::older_entry);
}

#[test]
#[should_panic = "never looked at"]
fn an_sqe_is_forgotten_without_the_fence() {
    leave_out_the_doorbell(|flags| flags.load(Ordering::Relaxed));
}

/// One CQE place that is used twice.
///
/// The kernel's side has the release that x86 gives it; see the provider's `ring`.
fn poll_twice(flags: fn(&AtomicU32) -> u32, give_back: fn(&AtomicU32)) {
    #[derive(Default)]
    struct Entry {
        flags: AtomicU32,
        id: UnsafeCell<u32>,
    }
    loom::model(move || {
        let entry = Arc::new(Entry::default());
        let kernel = Arc::clone(&entry);
        let kernel = thread::spawn(move || {
            for id in 1..3 {
                while kernel.flags.load(Ordering::Acquire) != 0 {
                    thread::yield_now();
                }
                // SAFETY: the protocol under test gives the entry to the kernel.
                kernel.id.with_mut(|at| unsafe { *at = id });
                kernel.flags.store(1, Ordering::Release);
            }
        });
        for id in 1..3 {
            while flags(&entry.flags) & 1 == 0 {
                thread::yield_now();
            }
            // SAFETY: the protocol under test gives the entry to us.
            entry.id.with(|at| assert_eq!(unsafe { *at }, id));
            give_back(&entry.flags);
        }
        kernel.join().unwrap();
    });
}

#[test]
fn a_cqe_is_complete_when_it_is_read_and_read_before_it_is_overwritten() {
    poll_twice(order::cqe, order::return_cqe);
}

#[test]
#[should_panic = "Causality violation"]
fn a_cqe_is_torn_without_acquire() {
    poll_twice(|flags| flags.load(Ordering::Relaxed), order::return_cqe);
}

#[test]
#[should_panic = "Causality violation"]
fn a_cqe_is_overwritten_without_release() {
    poll_twice(order::cqe, |flags| flags.store(0, Ordering::Relaxed));
}

/// Arm and poll against a completion: the poll finds it, or an event is raised.
fn arm_and_poll(arm: fn(&AtomicU32, u32)) {
    const NEXT_COMPLETION: u32 = 2;
    loom::model(move || {
        let cqe = Arc::new(AtomicU32::new(0));
        let notify = Arc::new(AtomicU32::new(0));
        let kernel = {
            let (cqe, notify) = (Arc::clone(&cqe), Arc::clone(&notify));
            thread::spawn(move || {
                cqe.store(1, Ordering::Release);
                // The smp_store_mb that recycles the work queue entry.
                fence(Ordering::SeqCst);
                notify.load(Ordering::Relaxed) & NEXT_COMPLETION != 0
            })
        };
        arm(&notify, NEXT_COMPLETION);
        let polled = order::cqe(&cqe) != 0;
        let raised = kernel.join().unwrap();
        assert!(polled || raised, "the application sleeps for ever");
    });
}

#[test]
fn a_completion_is_polled_or_wakes() {
    arm_and_poll(|word, wanted| {
        order::arm(word, wanted);
        Armed::new().set();
    });
}

#[test]
#[should_panic = "sleeps for ever"]
fn a_wake_up_is_lost_without_the_fence() {
    arm_and_poll(order::arm);
}
