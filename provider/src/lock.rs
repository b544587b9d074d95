// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause

//! The locks of the queues.
//!
//! Order: a QP's life, an SRQ's claims, a CQ (one at a time), a QP's send queue, its receive queue, an SRQ. System
//! calls that change a QP are made under the lock of its life; none is made under that of a CQ, but by
//! `ibv_resize_cq`: nobody may read the CQ between the kernel's copy of the ring and our mapping of it. The
//! lists of QPs and of pending events have locks under which no other is taken; an announcer's objects are locked
//! before all others.
//!
//! Each post and each poll takes one or two of them. So the lock is one instruction to take and one to give
//! back, and knows nothing of panics, as the standard library's does at three times that: one whose holder
//! panicked stays usable. Its verb has failed, and every state of a ledger is one that its methods accept.

use std::cell::UnsafeCell;
use std::fmt;
use std::hint::spin_loop;
use std::ops::{Deref, DerefMut};
use std::ptr;
use std::sync::atomic::{AtomicU32, Ordering};

/// Locks a queue.
#[inline(always)]
pub(crate) fn lock<T>(queue: &Mutex<T>) -> MutexGuard<'_, T> {
    queue.lock()
}

const FREE: u32 = 0;
const TAKEN: u32 = 1;
/// Taken, and somebody may sleep until it is given back.
const AWAITED: u32 = 2;

/// How often a thread looks again before it sleeps: about as long as a queue is held.
const LOOKS: u32 = 100;

/// What one thread has at a time, until it gives it back.
#[derive(Debug, Default)]
pub(crate) struct Word(AtomicU32);

impl Word {
    /// Waits until nobody has it, and takes it.
    #[inline(always)]
    pub(crate) fn take(&self) {
        if !self.is_taken_at_once() {
            self.wait();
        }
    }

    /// Takes it, if nobody has it.
    #[inline(always)]
    fn is_taken_at_once(&self) -> bool {
        // Acquire: pairs with the Release of whoever has given it back.
        self.0
            .compare_exchange(FREE, TAKEN, Ordering::Acquire, Ordering::Relaxed)
            .is_ok()
    }

    /// Gives it back; nothing if nobody has it.
    #[inline(always)]
    pub(crate) fn give_back(&self) {
        // Release: pairs with the Acquire of whoever takes it next.
        if self.0.swap(FREE, Ordering::Release) == AWAITED {
            self.wake();
        }
    }

    #[cold]
    fn wait(&self) {
        for _ in 0..LOOKS {
            // Relaxed: only a look.
            if self.0.load(Ordering::Relaxed) == FREE {
                break;
            }
            spin_loop();
        }
        // Acquire: as in `is_taken_at_once`. Whoever takes it here does not know whether others sleep, and says so.
        while self.0.swap(AWAITED, Ordering::Acquire) != FREE {
            self.futex(libc::FUTEX_WAIT, AWAITED);
        }
    }

    #[cold]
    fn wake(&self) {
        self.futex(libc::FUTEX_WAKE, 1);
    }

    /// futex(2), of this process: sleeps while the word is `value`, or wakes so many.
    fn futex(&self, operation: i32, value: u32) {
        // SAFETY: a word of ours; there is no deadline. That it failed, or woke for nothing, does no harm.
        unsafe {
            libc::syscall(
                libc::SYS_futex,
                self.0.as_ptr(),
                operation | libc::FUTEX_PRIVATE_FLAG,
                value,
                ptr::null::<libc::timespec>(),
            )
        };
    }
}

/// A value that one thread uses at a time.
#[derive(Default)]
pub(crate) struct Mutex<T> {
    word: Word,
    value: UnsafeCell<T>,
}

// SAFETY: the value is reached by the thread alone that has taken the lock, one after the other.
unsafe impl<T: Send> Sync for Mutex<T> {}

impl<T> Mutex<T> {
    pub(crate) const fn new(value: T) -> Self {
        Self {
            word: Word(AtomicU32::new(FREE)),
            value: UnsafeCell::new(value),
        }
    }

    #[inline(always)]
    pub(crate) fn lock(&self) -> MutexGuard<'_, T> {
        self.word.take();
        MutexGuard { mutex: self }
    }

    /// Takes the lock, if nobody has it.
    #[cfg(test)]
    pub(crate) fn try_lock(&self) -> Option<MutexGuard<'_, T>> {
        self.word
            .is_taken_at_once()
            .then(|| MutexGuard { mutex: self })
    }
}

/// The use of a value, until it is dropped.
pub(crate) struct MutexGuard<'a, T> {
    mutex: &'a Mutex<T>,
}

// SAFETY: as a `&T`.
unsafe impl<T: Sync> Sync for MutexGuard<'_, T> {}

impl<T> Deref for MutexGuard<'_, T> {
    type Target = T;

    #[inline(always)]
    fn deref(&self) -> &T {
        // SAFETY: this thread has taken the lock.
        unsafe { &*self.mutex.value.get() }
    }
}

impl<T> DerefMut for MutexGuard<'_, T> {
    #[inline(always)]
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: as above.
        unsafe { &mut *self.mutex.value.get() }
    }
}

impl<T> Drop for MutexGuard<'_, T> {
    #[inline(always)]
    fn drop(&mut self) {
        self.mutex.word.give_back();
    }
}

impl<T> fmt::Debug for Mutex<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Mutex").finish_non_exhaustive()
    }
}

impl<T> fmt::Debug for MutexGuard<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MutexGuard").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
    use std::sync::Arc;
    use std::thread;

    use super::*;

    #[test]
    fn one_thread_has_it_at_a_time_and_none_waits_for_ever() {
        let count = Arc::new(Mutex::new(0_u32));
        let threads: Vec<_> = (0..4)
            .map(|_| {
                let count = Arc::clone(&count);
                thread::spawn(move || {
                    for _ in 0..2000 {
                        let mut count = count.lock();
                        let before = *count;
                        // Now and then long enough for the others to sleep.
                        if before.is_multiple_of(64) {
                            thread::yield_now();
                        }
                        *count = before.wrapping_add(1);
                    }
                })
            })
            .collect();
        for thread in threads {
            thread.join().unwrap();
        }
        assert_eq!(*count.lock(), 8000);
        assert_eq!(count.word.0.load(Ordering::Relaxed), FREE);
    }

    #[test]
    fn one_whose_holder_panicked_is_free() {
        let value = Mutex::new(1);
        let panicked = catch_unwind(AssertUnwindSafe(|| {
            let mut held = value.lock();
            *held = 2;
            resume_unwind(Box::new(()));
        }));
        assert!(panicked.is_err());
        assert_eq!(*value.lock(), 2);
    }
}
