// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause

//! How many completions are left of those that were read ahead, and who gets which.
//!
//! Whoever takes one off the number has the completion that stands so far before the end: no two threads have the
//! same. One thread takes without the lock of the CQ, the one that has the turn of the batch; all else happens under
//! that lock. Too many may be taken: then there are none, until a number is put again.
//!
//! The model tests (`tests/model`) run these very functions in all interleavings; `atomic` is the standard library's
//! here, and loom's there.

use super::atomic::{AtomicIsize, Ordering};

/// Takes one of `size`; how much was left with it, if there was one.
///
/// Acquire: what stands there was written before the number was put.
#[inline(always)]
pub(super) fn take(left: &AtomicIsize, size: isize) -> Option<isize> {
    let before = left.fetch_sub(size, Ordering::Acquire);
    (before > 0).then_some(before)
}

/// Takes all that is left, so that nobody else has any of it.
pub(super) fn take_all(left: &AtomicIsize) -> isize {
    left.swap(0, Ordering::Acquire).max(0)
}

/// Puts that much, of which all is written. Nobody has any of it, and who finds nothing waits for the lock.
///
/// Release: see [`take`]. A swap, since loom does not see that a store comes behind what was [taken](take) of nothing
/// before it.
pub(super) fn put(left: &AtomicIsize, size: isize) {
    left.swap(size, Ordering::Release);
}

/// How much is left. What may be taken meanwhile, the caller has to take into account.
#[inline(always)]
pub(super) fn there_is(left: &AtomicIsize) -> isize {
    // Relaxed: nothing is read by it.
    left.load(Ordering::Relaxed).max(0)
}
