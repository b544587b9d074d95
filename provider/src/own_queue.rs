// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause

//! A QP's own receive queue: what is posted to under its lock, and the ledger, which polls use without.

use crate::driver::RecvRing;
use crate::flush::Rest;
use crate::ledger::RecvLedger;
use crate::lock::{Mutex, MutexGuard};
use crate::post_recv::RecvQueue;

/// A receive queue of one QP.
#[derive(Debug)]
pub(crate) struct OwnQueue<R> {
    pub(crate) ledger: RecvLedger,
    queue: Mutex<RecvQueue<R>>,
}

/// A receive queue, which is locked.
#[derive(Debug)]
pub(crate) struct OwnGuard<'q, R> {
    pub(crate) ledger: &'q RecvLedger,
    pub(crate) queue: MutexGuard<'q, RecvQueue<R>>,
}

impl<R: RecvRing> OwnQueue<R> {
    pub(crate) fn new(queue: RecvQueue<R>, ledger: RecvLedger) -> Self {
        Self {
            ledger,
            queue: Mutex::new(queue),
        }
    }

    pub(crate) fn lock(&self) -> OwnGuard<'_, R> {
        OwnGuard {
            ledger: &self.ledger,
            queue: self.queue.lock(),
        }
    }

    /// What is under the lock, if nobody has that.
    #[inline(always)]
    pub(crate) fn try_lock_queue(&self) -> Option<MutexGuard<'_, RecvQueue<R>>> {
        self.queue.try_lock()
    }
}

impl<R: RecvRing> OwnGuard<'_, R> {
    /// What the kernel may still have to say of the dead queue. The CQ is locked.
    pub(crate) fn rest(&self) -> Rest {
        if self.queue.flushed || self.ledger.is_over() {
            Rest::Nothing
        } else if self.queue.ring.is_drained() {
            Rest::Stuck
        } else {
            Rest::Flushing
        }
    }
}
