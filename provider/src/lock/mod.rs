// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause

//! The locks of the queues.
//!
//! Order: a QP's life, an SRQ's claims, a CQ (one at a time), a QP's send queue, its receive queue, an SRQ. System
//! calls that change a QP are made under the lock of its life; none is made under that of a CQ, but by
//! `ibv_resize_cq`: nobody may read the CQ between the kernel's copy of the ring and our mapping of it. The
//! lists of QPs and of pending events have locks under which no other is taken; an announcer's objects are locked
//! before all others.
//!
//! Each post and each poll takes one or two of them: a poll of a QP's own receives that of the CQ alone
//! (`own_queue.rs`). So the lock is one instruction to take and one to give
//! back, and knows nothing of panics, as the standard library's does at three times that: one whose holder
//! panicked stays usable. Its verb has failed, and every state of a ledger is one that its methods accept.

mod futex;
mod word;

mod atomic {
    pub(super) use std::hint::spin_loop;
    pub(super) use std::sync::atomic::{AtomicU32, Ordering};
}

use std::cell::UnsafeCell;
use std::ffi::c_int;
use std::fmt;
use std::mem::ManuallyDrop;
use std::ops::{Deref, DerefMut};

use self::atomic::AtomicU32;

/// Locks a queue.
#[inline(always)]
pub(crate) fn lock<T>(queue: &Mutex<T>) -> MutexGuard<'_, T> {
    queue.lock()
}

/// What one thread has at a time, until it gives it back.
#[derive(Debug, Default)]
pub(crate) struct Word(AtomicU32);

impl Word {
    /// Waits until nobody has it, and takes it.
    #[inline(always)]
    pub(crate) fn take(&self) {
        word::take(&self.0);
    }

    /// Whether somebody has it.
    #[inline(always)]
    pub(crate) fn is_taken(&self) -> bool {
        word::is_taken(&self.0)
    }

    /// Gives it back, which somebody has.
    #[inline(always)]
    pub(crate) fn give_back(&self) {
        word::give_back(&self.0);
    }
}

/// A value that one thread uses at a time. The lock is where it begins.
#[derive(Default)]
#[repr(C)]
pub(crate) struct Mutex<T> {
    word: Word,
    value: UnsafeCell<T>,
}

// SAFETY: the value is reached by the thread alone that has taken the lock, one after the other.
unsafe impl<T: Send> Sync for Mutex<T> {}

impl<T> Mutex<T> {
    pub(crate) const fn new(value: T) -> Self {
        Self {
            word: Word(AtomicU32::new(word::FREE)),
            value: UnsafeCell::new(value),
        }
    }

    #[inline(always)]
    pub(crate) fn lock(&self) -> MutexGuard<'_, T> {
        self.word.take();
        MutexGuard { mutex: self }
    }

    /// The use of a value whose lock was [left](MutexGuard::leave) taken.
    ///
    /// # Safety
    ///
    /// This thread has left it so, and resumes it once.
    #[inline(always)]
    pub(crate) unsafe fn resume(&self) -> MutexGuard<'_, T> {
        MutexGuard { mutex: self }
    }

    /// Takes the lock, if nobody has it.
    #[inline(always)]
    pub(crate) fn try_lock(&self) -> Option<MutexGuard<'_, T>> {
        word::is_taken_at_once(&self.word.0).then(|| MutexGuard { mutex: self })
    }
}

/// The use of a value, until it is dropped.
pub(crate) struct MutexGuard<'a, T> {
    mutex: &'a Mutex<T>,
}

// SAFETY: as a `&T`.
unsafe impl<T: Sync> Sync for MutexGuard<'_, T> {}

impl<'a, T> MutexGuard<'a, T> {
    /// Leaves the lock taken, for [`resume`](Mutex::resume).
    #[inline(always)]
    pub(crate) fn leave(self) {
        let _guard = ManuallyDrop::new(self);
    }

    /// Gives the lock back, which is the last that a verb does; the verb's `answer`.
    #[inline(always)]
    pub(crate) fn answer(self, answer: c_int) -> c_int {
        let guard = ManuallyDrop::new(self);
        word::answer(&guard.mutex.word.0, answer)
    }

    /// Gives the lock back, but wakes nobody yet who may wait for it.
    #[inline(always)]
    pub(crate) fn give_back_at_once(self) -> Option<Awaited<'a>> {
        self.keep().give_back_at_once()
    }

    /// Goes on to have the lock taken, and lets go of the value.
    #[inline(always)]
    pub(crate) fn keep(self) -> Kept<'a> {
        let guard = ManuallyDrop::new(self);
        Kept {
            word: &guard.mutex.word,
        }
    }
}

/// A lock that is taken, until it is dropped.
pub(crate) struct Kept<'a> {
    word: &'a Word,
}

impl<'a> Kept<'a> {
    /// As [`MutexGuard::give_back_at_once`].
    #[inline(always)]
    pub(crate) fn give_back_at_once(self) -> Option<Awaited<'a>> {
        let kept = ManuallyDrop::new(self);
        // Made where it is wanted only: to drop it wakes.
        (!word::is_free_at_once(&kept.word.0)).then(|| Awaited { word: kept.word })
    }

    /// As [`MutexGuard::answer`], of two locks: this one is given back first.
    #[inline(always)]
    pub(crate) fn answer_with(self, other: Kept<'_>, answer: c_int) -> c_int {
        let kept = [self, other].map(ManuallyDrop::new);
        let [first, second] = kept.each_ref().map(|kept| &kept.word.0);
        word::answer_for_both(first, second, answer)
    }
}

/// A lock that was given back and that somebody may wait for, who is woken when this is dropped.
pub(crate) struct Awaited<'a> {
    word: &'a Word,
}

impl Drop for Awaited<'_> {
    #[inline(always)]
    fn drop(&mut self) {
        word::wake(&self.word.0);
    }
}

impl Drop for Kept<'_> {
    #[inline(always)]
    fn drop(&mut self) {
        self.word.give_back();
    }
}

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
    use std::sync::atomic::Ordering;
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
        assert_eq!(count.word.0.load(Ordering::Relaxed), word::FREE);
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
