// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause

//! A completion that the library makes, against an application that arms, polls and sleeps (provider
//! `cq/armed.rs`, `flush.rs: take_wake`, `bell.rs`).
//!
//! Three words: what is due, under the CQ's lock, whether the CQ is armed, and the kernel's own word of that. The bell is a
//! CQE of the kernel's; it raises the event if the kernel's word says so.

use loom::sync::{Arc, Mutex};
use loom::thread;

use crate::armed::Armed;
use crate::atomic::{AtomicU32, Ordering, fence};
use crate::order;

const NEXT_COMPLETION: u32 = 2;

struct Cq {
    due: Mutex<bool>,
    armed: Armed,
    notify: AtomicU32,
    /// The event was raised, and is not taken yet.
    event: Mutex<bool>,
}

impl Cq {
    fn new() -> Self {
        Self {
            due: Mutex::new(false),
            armed: Armed::new(),
            notify: AtomicU32::new(0),
            event: Mutex::new(false),
        }
    }

    /// A library-made completion is there; whether a waiter has to be woken for it.
    fn complete(&self) -> bool {
        let mut due = self.due.lock().unwrap();
        *due = true;
        self.armed.take()
    }

    /// The kernel posts a CQE, which polls pass over.
    fn bell(&self) {
        fence(Ordering::SeqCst);
        if self.notify.load(Ordering::Relaxed) & NEXT_COMPLETION != 0 {
            self.notify.store(0, Ordering::Relaxed);
            *self.event.lock().unwrap() = true;
        }
    }

    fn arm(&self) {
        order::arm(&self.notify, NEXT_COMPLETION);
        self.armed.set();
    }

    fn poll(&self) -> bool {
        std::mem::take(&mut self.due.lock().unwrap())
    }
}

/// One thread completes, one arms and polls and then waits for the event.
fn sleep_and_complete(arm_and_poll: fn(&Cq), complete: fn(&Cq)) {
    loom::model(move || {
        let cq = Arc::new(Cq::new());
        let library = {
            let cq = Arc::clone(&cq);
            thread::spawn(move || complete(&cq))
        };
        arm_and_poll(&cq);
        // A waiter that is woken polls again, and arms first, so that it may sleep again.
        if std::mem::take(&mut *cq.event.lock().unwrap()) {
            arm_and_poll(&cq);
        }
        library.join().unwrap();
        let is_left = *cq.due.lock().unwrap();
        let is_woken = *cq.event.lock().unwrap();
        assert!(!is_left || is_woken, "the application sleeps for ever");
    });
}

fn arm_and_poll(cq: &Cq) {
    cq.arm();
    cq.poll();
}

fn complete_and_ring(cq: &Cq) {
    if cq.complete() {
        cq.bell();
    }
}

fn complete_and_ring_twice(cq: &Cq) {
    complete_and_ring(cq);
    complete_and_ring(cq);
}

#[test]
fn a_completion_of_the_librarys_is_polled_or_wakes() {
    sleep_and_complete(arm_and_poll, complete_and_ring);
}

#[test]
fn each_of_two_is_polled_or_wakes() {
    sleep_and_complete(arm_and_poll, complete_and_ring_twice);
}

#[test]
#[should_panic = "sleeps for ever"]
fn a_wake_up_is_lost_without_arming_before_the_poll() {
    sleep_and_complete(
        |cq| {
            cq.poll();
            cq.arm();
        },
        complete_and_ring,
    );
}

#[test]
#[should_panic = "sleeps for ever"]
fn a_wake_up_is_lost_without_the_flag_being_set_before_the_poll() {
    sleep_and_complete(
        |cq| {
            order::arm(&cq.notify, NEXT_COMPLETION);
            cq.poll();
            cq.armed.set();
        },
        complete_and_ring,
    );
}

/// The first bell wakes nobody, and the second is not rung.
#[test]
#[should_panic = "sleeps for ever"]
fn a_wake_up_is_lost_without_the_kernel_being_asked_before_the_flag() {
    sleep_and_complete(
        |cq| {
            cq.armed.set();
            order::arm(&cq.notify, NEXT_COMPLETION);
            fence(Ordering::SeqCst);
            cq.poll();
        },
        complete_and_ring_twice,
    );
}

#[test]
#[should_panic = "sleeps for ever"]
fn a_wake_up_is_lost_without_the_completion_being_there_before_the_bell() {
    sleep_and_complete(arm_and_poll, |cq| {
        if cq.armed.take() {
            cq.bell();
        }
        *cq.due.lock().unwrap() = true;
    });
}

#[test]
#[should_panic = "sleeps for ever"]
fn a_wake_up_is_lost_without_looking_at_the_flag_behind_the_completion() {
    sleep_and_complete(arm_and_poll, |cq| {
        let is_armed = cq.armed.is_set();
        cq.complete();
        if is_armed {
            cq.bell();
        }
    });
}

/// A QP becomes suspect while its application falls asleep: one of the two asks after it.
#[test]
fn a_suspect_is_asked_after_by_who_arms_or_by_who_suspects() {
    loom::model(|| {
        let cq = Arc::new((Armed::new(), AtomicU32::new(0)));
        let poster = {
            let cq = Arc::clone(&cq);
            thread::spawn(move || {
                cq.1.store(1, Ordering::Relaxed);
                cq.0.is_set()
            })
        };
        cq.0.set();
        let is_seen = cq.1.load(Ordering::Relaxed) != 0;
        assert!(poster.join().unwrap() || is_seen, "nobody asks");
    });
}
