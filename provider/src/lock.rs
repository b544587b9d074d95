// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause

//! The locks of the queues.
//!
//! Order: CQs (lower address first), then a QP's send queue, its receive queue, an SRQ. No system
//! call is made under the lock of a CQ.

use std::sync::{Mutex, MutexGuard, PoisonError};

/// Locks a queue. One whose holder panicked stays usable: its verb has failed, and every state of
/// a ledger is one that its methods accept.
pub(crate) fn lock<T>(queue: &Mutex<T>) -> MutexGuard<'_, T> {
    queue.lock().unwrap_or_else(PoisonError::into_inner)
}
