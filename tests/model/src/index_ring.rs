// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause

//! rxe: indices carry the elements of a ring (linux 6.1 `rxe_queue.h`).

#![expect(clippy::arithmetic_side_effects, reason = "three steps of a counter")]

use loom::cell::UnsafeCell;
use loom::sync::Arc;
use loom::thread;

use crate::atomic::{AtomicU32, AtomicU64, Ordering};
use crate::order;

const SLOTS: u32 = 2;

#[derive(Default)]
struct Ring {
    producer: AtomicU32,
    consumer: AtomicU32,
    slots: [UnsafeCell<u32>; SLOTS as usize],
}

impl Ring {
    fn write(&self, index: u32, value: u32) {
        // SAFETY: the protocol under test gives the slot to this side; loom reports a race if not.
        self.slots[(index % SLOTS) as usize].with_mut(|slot| unsafe { *slot = value });
    }

    fn read(&self, index: u32) -> u32 {
        // SAFETY: as in `write`.
        self.slots[(index % SLOTS) as usize].with(|slot| unsafe { *slot })
    }
}

/// We post three WQEs into two slots; the kernel reads each after its `smp_load_acquire` of the
/// producer index and frees it with its `smp_store_release` of the consumer index.
fn post(publish: fn(&AtomicU32, u32)) {
    loom::model(move || {
        let ring = Arc::new(Ring::default());
        let kernel = Arc::clone(&ring);
        let kernel = thread::spawn(move || {
            for index in 0..3 {
                while kernel.producer.load(Ordering::Acquire) == index {
                    thread::yield_now();
                }
                assert_eq!(kernel.read(index), index + 10);
                kernel.consumer.store(index + 1, Ordering::Release);
            }
        });
        for index in 0..3 {
            while index - order::kernel_index(&ring.consumer) == SLOTS {
                thread::yield_now();
            }
            ring.write(index, index + 10);
            publish(&ring.producer, index + 1);
        }
        kernel.join().unwrap();
    });
}

#[test]
fn a_wqe_is_complete_when_the_kernel_reads_it() {
    post(order::publish_index);
}

#[test]
#[should_panic = "Causality violation"]
fn a_wqe_is_torn_without_release() {
    post(|word, index| word.store(index, Ordering::Relaxed));
}

/// The kernel writes three CQEs into two slots; we read each and give the slot back.
fn poll(observe: fn(&AtomicU32) -> u32, give_back: fn(&AtomicU32, u32)) {
    loom::model(move || {
        let ring = Arc::new(Ring::default());
        let kernel = Arc::clone(&ring);
        let kernel = thread::spawn(move || {
            for index in 0..3 {
                while index - kernel.consumer.load(Ordering::Acquire) == SLOTS {
                    thread::yield_now();
                }
                kernel.write(index, index + 10);
                kernel.producer.store(index + 1, Ordering::Release);
            }
        });
        for index in 0..3 {
            while observe(&ring.producer) == index {
                thread::yield_now();
            }
            assert_eq!(ring.read(index), index + 10);
            give_back(&ring.consumer, index + 1);
        }
        kernel.join().unwrap();
    });
}

#[test]
fn a_cqe_is_complete_when_it_is_read_and_read_before_it_is_overwritten() {
    poll(order::kernel_index, order::publish_index);
}

#[test]
#[should_panic = "Causality violation"]
fn a_cqe_is_torn_without_acquire() {
    poll(|word| word.load(Ordering::Relaxed), order::publish_index);
}

#[test]
#[should_panic = "Causality violation"]
fn a_cqe_is_overwritten_without_release() {
    poll(order::kernel_index, |word, index| {
        word.store(index, Ordering::Relaxed);
    });
}

/// The kernel begins with what was published; who looks at a WQE's state, without the lock of the queue, sees what
/// it was or is, also when somebody else posts in its place meanwhile.
#[test]
fn a_state_is_one_that_the_wqe_had() {
    const BEGUN: u64 = 1 << 32;
    loom::model(|| {
        let shared = Arc::new((AtomicU32::new(0), AtomicU64::new(0)));
        let threads = [Arc::clone(&shared), Arc::clone(&shared)];
        let [kernel, other] = threads;
        order::reset_wqe_state(&shared.1);
        order::publish_index(&shared.0, 1);
        let kernel = thread::spawn(move || {
            if kernel.0.load(Ordering::Acquire) > 0 {
                kernel.1.store(BEGUN, Ordering::Relaxed);
            }
        });
        let other = thread::spawn(move || {
            if order::wqe_state(&other.1) == BEGUN {
                order::reset_wqe_state(&other.1);
            }
        });
        assert!([0, BEGUN].contains(&order::wqe_state(&shared.1)));
        kernel.join().unwrap();
        other.join().unwrap();
    });
}
