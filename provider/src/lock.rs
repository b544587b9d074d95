// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause

//! The locks of the queues.
//!
//! Order: a QP's life, an SRQ's claims, a CQ (one at a time), a QP's send queue, its receive queue, an SRQ. System
//! calls that change a QP are made under the lock of its life; none is made under that of a CQ, but by
//! `ibv_resize_cq`: nobody may read the CQ between the kernel's copy of the ring and our mapping of it. The
//! lists of QPs and of pending events have locks under which no other is taken.

use std::sync::{Mutex, MutexGuard, PoisonError};

/// Locks a queue. One whose holder panicked stays usable: its verb has failed, and every state of
/// a ledger is one that its methods accept.
pub(crate) fn lock<T>(queue: &Mutex<T>) -> MutexGuard<'_, T> {
    queue.lock().unwrap_or_else(PoisonError::into_inner)
}
