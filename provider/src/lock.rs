// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause

//! The locks of the queues.
//!
//! Order: a QP's life, an SRQ's claims, a CQ (one at a time), a QP's send queue, its receive queue, an SRQ. System
//! calls that change a QP are made under the lock of its life; none is made under that of a CQ, but by
//! `ibv_resize_cq`: nobody may read the CQ between the kernel's copy of the ring and our mapping of it. The
//! lists of QPs and of pending events have locks under which no other is taken; an announcer's objects are locked
//! before all others.
//!
//! Under ThreadSanitizer (`--cfg tsan`) they are those of another crate, compiled with it: the standard library's
//! comes compiled without, and where threads have to wait for one its order would not be seen.

#[cfg(not(tsan))]
use std::sync::PoisonError;
#[cfg(not(tsan))]
pub(crate) use std::sync::{Condvar, Mutex, MutexGuard};

#[cfg(tsan)]
pub(crate) use parking_lot::{Condvar, Mutex, MutexGuard};

/// Locks a queue. One whose holder panicked stays usable: its verb has failed, and every state of
/// a ledger is one that its methods accept.
#[cfg(not(tsan))]
pub(crate) fn lock<T>(queue: &Mutex<T>) -> MutexGuard<'_, T> {
    queue.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Gives the lock up, waits to be told, and takes it again.
#[cfg(not(tsan))]
pub(crate) fn wait<'a, T>(told: &Condvar, held: MutexGuard<'a, T>) -> MutexGuard<'a, T> {
    told.wait(held).unwrap_or_else(PoisonError::into_inner)
}

/// As above.
#[cfg(tsan)]
pub(crate) fn lock<T>(queue: &Mutex<T>) -> MutexGuard<'_, T> {
    queue.lock()
}

/// As above.
#[cfg(tsan)]
pub(crate) fn wait<'a, T>(told: &Condvar, mut held: MutexGuard<'a, T>) -> MutexGuard<'a, T> {
    told.wait(&mut held);
    held
}
