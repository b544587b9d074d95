// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause

//! A CQ that had no room for a CQE.
//!
//! The kernel drops the CQE, raises CQ_ERR, and goes on (linux 6.1, 6.12 `rxe_cq.c: rxe_cq_post`,
//! `siw_qp.c: siw_sqe_complete, siw_rqe_complete`). Here the CQ's QPs go into the error state, as IBA
//! 11.6.3.2 has it, and so all that is outstanding completes.
//!
//! An application that reaps no events is not told. But a CQ has room for more than twice what was asked
//! for ([`room`]), so one that was ever full has held more than it should: polls notice that.

use std::ffi::c_int;
use std::mem;

use crate::cq::{CompletionQueue, Completions};
use crate::death::Cause;
use crate::driver::{CompletionRing, Driver};
use crate::lock::lock;

/// CQEs that a CQ has room for beyond twice what was asked for: those of marks and bells.
const SPARE: c_int = 64;

/// The room for CQEs of a CQ that an application wants for `asked`.
///
/// Each of its work requests takes one, each of its QPs two more at its death. The rest is for an
/// application that is about to poll while its work requests complete again: it has not overrun. What the
/// kernel refuses stays refused.
pub(crate) fn room<D: Driver>(asked: c_int) -> c_int {
    if asked < 1 {
        return asked;
    }
    let room = asked.saturating_mul(2).saturating_add(SPARE);
    asked.max(room.min(D::MAX_CQE))
}

impl<D: Driver> CompletionQueue<D> {
    /// CQ_ERR was reaped; whether it is to be told, which it is once.
    pub(crate) fn tell_overrun(&self, cause: Cause) -> bool {
        let told = mem::replace(&mut self.lock().told_overrun, true);
        self.overrun(cause);
        !told
    }

    /// This CQ has lost completions for good, and with them its QPs. No lock is held.
    #[cold]
    pub(crate) fn overrun(&self, cause: Cause) {
        {
            let mut state = self.lock();
            state.overran = true;
            // A bell may have been dropped as well.
            if state.belled.take().is_some() {
                state.armed.set();
            }
        }
        self.each_member(|pair| {
            pair.die(cause);
            if pair.recv_cq.lock().overran {
                pair.begin_claim(&lock(&pair.life));
            }
        });
        self.each_member(|pair| {
            // If it was dead before, what it waited for may have been dropped.
            pair.settle_if_quiet();
            pair.claim_dropped();
        });
    }
}

impl<D: Driver> Completions<D> {
    /// Whether a poll has found something that has to be done when the lock is released.
    pub(crate) fn has_work(&self) -> bool {
        self.was_full() | !self.chores.is_empty()
    }

    /// Whether the ring may have been full, or the one before it.
    pub(crate) fn was_full(&self) -> bool {
        self.ring.was_full() | self.left_full
    }

    /// Whether a CQE may have been dropped that nothing else tells of.
    pub(crate) fn is_found_full(&mut self) -> bool {
        let was_full = self.was_full();
        self.left_full = false;
        self.ring.forget_full();
        was_full && self.ring.capacity() > self.asked.saturating_mul(2)
    }
}
