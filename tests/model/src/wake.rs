// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause

//! A completion that the library makes, against an application that arms, polls and sleeps (provider
//! `cq.rs: req_notify`, `flush.rs: take_wake`, `bell.rs`).
//!
//! Three words: what is due and whether the CQ is armed, under the CQ's lock, and the kernel's own word
//! of that. The bell is a CQE of the kernel's; it raises the event if the kernel's word says so.

use loom::sync::{Arc, Mutex};
use loom::thread;

use crate::atomic::{AtomicU32, Ordering, fence};
use crate::order;

const NEXT_COMPLETION: u32 = 2;

#[derive(Default)]
struct Cq {
    state: Mutex<State>,
    notify: AtomicU32,
    /// The event was raised, and is not taken yet.
    event: Mutex<bool>,
}

#[derive(Default)]
struct State {
    due: bool,
    armed: bool,
}

impl Cq {
    /// A library-made completion is there; whether a waiter has to be woken for it.
    fn complete(&self) -> bool {
        let mut state = self.state.lock().unwrap();
        state.due = true;
        std::mem::take(&mut state.armed)
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
        self.state.lock().unwrap().armed = true;
        order::arm(&self.notify, NEXT_COMPLETION);
    }

    fn poll(&self) -> bool {
        std::mem::take(&mut self.state.lock().unwrap().due)
    }
}

/// One thread completes, one arms and polls and then waits for the event.
fn sleep_and_complete(arm_and_poll: fn(&Cq) -> bool, complete: fn(&Cq)) {
    loom::model(move || {
        let cq = Arc::new(Cq::default());
        let library = {
            let cq = Arc::clone(&cq);
            thread::spawn(move || complete(&cq))
        };
        let mut polled = arm_and_poll(&cq);
        // A waiter that is woken polls again, and arms first, so that it may sleep again.
        if !polled && std::mem::take(&mut *cq.event.lock().unwrap()) {
            polled = arm_and_poll(&cq);
        }
        library.join().unwrap();
        let woken = *cq.event.lock().unwrap();
        assert!(polled || woken, "the application sleeps for ever");
    });
}

fn arm_and_poll(cq: &Cq) -> bool {
    cq.arm();
    cq.poll()
}

fn complete_and_ring(cq: &Cq) {
    if cq.complete() {
        cq.bell();
    }
}

#[test]
fn a_completion_of_the_librarys_is_polled_or_wakes() {
    sleep_and_complete(arm_and_poll, complete_and_ring);
}

#[test]
#[should_panic = "sleeps for ever"]
fn a_wake_up_is_lost_without_arming_before_the_poll() {
    sleep_and_complete(
        |cq| {
            let polled = cq.poll();
            cq.arm();
            polled
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
            let polled = cq.poll();
            cq.state.lock().unwrap().armed = true;
            polled
        },
        complete_and_ring,
    );
}

#[test]
#[should_panic = "sleeps for ever"]
fn a_wake_up_is_lost_without_the_completion_being_there_before_the_bell() {
    sleep_and_complete(arm_and_poll, |cq| {
        let armed = std::mem::take(&mut cq.state.lock().unwrap().armed);
        if armed {
            cq.bell();
        }
        cq.state.lock().unwrap().due = true;
    });
}

#[test]
#[should_panic = "sleeps for ever"]
fn a_wake_up_is_lost_without_looking_at_the_flag_under_the_lock_of_the_completion() {
    sleep_and_complete(arm_and_poll, |cq| {
        let armed = cq.state.lock().unwrap().armed;
        cq.complete();
        if armed {
            cq.bell();
        }
    });
}
