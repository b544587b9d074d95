// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause

//! What most polls find: nothing, or one send or receive that has succeeded.
//!
//! Whatever else there is, or may be, is left to [`poll_cq`](crate::poll_cq) as it was found. There is nothing here
//! that waits, calls or panics: the few registers that it needs have not to be saved first.

use std::mem::MaybeUninit;
use std::sync::atomic::Ordering;

use rdma_core_sys::ibv_wc;

use crate::cookie::Cookie;
use crate::cq::{CompletionQueue, Completions};
use crate::driver::{CompletionRing, Driver};
use crate::lock::{Kept, MutexGuard};
use crate::met::Named;

/// What a poll has found at first sight.
pub(crate) enum Quick<'s, D: Driver> {
    Nothing,
    /// Successes, the first of which has this cookie, in this CQ that is locked.
    Successes(MutexGuard<'s, Completions<D>>, u64),
    /// Something else, in this CQ that is locked, if it is not another thread's.
    Unknown(Option<MutexGuard<'s, Completions<D>>>),
}

/// What came of a poll for one success.
pub(crate) enum One<'s, D: Driver> {
    Polled,
    /// It was, and there is more to do.
    PolledOf(MutexGuard<'s, Completions<D>>),
    /// It was not.
    Unknown(MutexGuard<'s, Completions<D>>),
}

impl<D: Driver> CompletionQueue<D> {
    /// Looks what comes next, if that is all that a poll has to look at.
    #[inline(always)]
    pub(crate) fn look_quickly(&self) -> Quick<'_, D> {
        let Some(mut state) = self.try_lock() else {
            return Quick::Unknown(None);
        };
        if !state.is_plain() {
            return Quick::Unknown(Some(state));
        }
        match state.ring.front() {
            Some(front) if front.is_success => Quick::Successes(state, front.cookie),
            // Relaxed: see `ask_after_suspects`.
            None if state.is_quiet()
                && !(D::DIES_UNSEEN && self.suspects.load(Ordering::Relaxed)) =>
            {
                Quick::Nothing
            }
            _ => Quick::Unknown(Some(state)),
        }
    }

    /// Polls for a success of which the cookie is known, if it is of the queue that was met last.
    #[inline(always)]
    pub(crate) fn poll_one<'s>(
        &'s self,
        mut state: MutexGuard<'s, Completions<D>>,
        cookie: u64,
        wc: &mut MaybeUninit<ibv_wc>,
    ) -> One<'s, D> {
        // SAFETY: the CQ is locked.
        let met = unsafe { state.last_met.queue(cookie) };
        let name = Cookie::entry(cookie);
        let Some((wr_id, queue)) = met.and_then(|queue| succeed_next(queue, name)) else {
            return One::Unknown(state);
        };
        state.ring.take(wc, wr_id);
        state.ring.release();
        if state.was_full() {
            drop(queue);
            return One::PolledOf(state);
        }
        queue.give_back_with(state.keep());
        One::Polled
    }
}

/// Notes the success of entry `name` in the ledger of its queue, if it is the next one there; its `wr_id`, and the
/// lock.
#[inline(always)]
fn succeed_next<D: Driver>(queue: Named<'_, D>, name: u32) -> Option<(u64, Kept<'_>)> {
    let (wr_id, kept) = match queue {
        Named::Sends(send) => {
            let mut send = send.try_lock()?;
            (send.ledger.succeed_next(name), send.keep())
        }
        Named::Recvs(recv) => {
            let mut recv = recv.try_lock()?;
            (recv.ledger.succeed_next(name), recv.keep())
        }
        Named::Shared(srq) => {
            if srq.is_claimed() {
                return None;
            }
            let mut recv = srq.try_lock()?;
            (recv.ledger.complete(name), recv.keep())
        }
    };
    Some((wr_id?, kept))
}

impl<D: Driver> Completions<D> {
    /// Whether CQEs are all that a poll has to look at.
    #[inline(always)]
    pub(crate) fn is_plain(&self) -> bool {
        self.ahead.is_empty() && self.due.is_empty() && self.early.is_none()
    }

    /// Whether there is nothing to do, where no CQE is. Chores are for who has found them.
    #[inline(always)]
    fn is_quiet(&self) -> bool {
        self.moved.is_none() && self.dying.is_empty() && !self.was_full()
    }
}
