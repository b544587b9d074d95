// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause

//! What most polls find: nothing, or one send or receive that has succeeded.
//!
//! Whatever else there is, or may be, is left to [`poll_cq`](crate::poll_cq) as it was found. There is nothing here
//! that waits, calls or panics: the few registers that it needs have not to be saved first.

use std::mem::MaybeUninit;
use std::sync::atomic::Ordering;

use rdma_core_sys::ibv_wc;

use crate::cookie::{Cookie, Queue};
use crate::cq::{CompletionQueue, Completions};
use crate::driver::{CompletionRing, Driver};
use crate::lock::{Kept, MutexGuard};
use crate::queue_pair::{QueuePair, Receiver};

/// What a poll has found at first sight.
pub(crate) enum Quick<'s, D: Driver> {
    Nothing,
    One,
    /// Something else, in this CQ that is locked, if it is not another thread's; and so many completions.
    Unknown(Option<MutexGuard<'s, Completions<D>>>, usize),
}

impl<D: Driver> CompletionQueue<D> {
    /// Polls for nothing or one completion, if that is all that there can be; `is_room_for_one`: no more is
    /// asked for.
    #[inline(always)]
    pub(crate) fn poll_quickly(
        &self,
        wc: &mut MaybeUninit<ibv_wc>,
        is_room_for_one: bool,
    ) -> Quick<'_, D> {
        let Some(mut state) = self.try_lock() else {
            return Quick::Unknown(None, 0);
        };
        if !state.is_plain() {
            return Quick::Unknown(Some(state), 0);
        }
        let Some(front) = state.ring.front() else {
            // Relaxed: see `ask_after_suspects`.
            let is_suspect = D::DIES_UNSEEN && self.suspects.load(Ordering::Relaxed);
            if state.is_quiet() && !is_suspect {
                return Quick::Nothing;
            }
            return Quick::Unknown(Some(state), 0);
        };
        if !front.is_success || !(is_room_for_one || state.ring.is_last()) {
            return Quick::Unknown(Some(state), 0);
        }
        // SAFETY: the CQ is locked; it keeps the QP.
        let pair = unsafe { state.last_met.pair(front.cookie) };
        let Some((wr_id, queue)) = pair.and_then(|pair| succeed_next(pair, front.cookie)) else {
            return Quick::Unknown(Some(state), 0);
        };
        state.ring.take(wc, wr_id);
        state.ring.release();
        if state.has_work() {
            drop(queue);
            return Quick::Unknown(Some(state), 1);
        }
        queue.give_back_with(state.keep());
        Quick::One
    }
}

/// Notes the success of an entry in the ledger of its queue, if it is the next one there; its `wr_id`, and the
/// lock.
#[inline(always)]
fn succeed_next<D: Driver>(pair: &QueuePair<D>, cookie: u64) -> Option<(u64, Kept<'_>)> {
    let name = Cookie::entry(cookie);
    if Cookie::is_of(cookie, Queue::Send) {
        let mut send = pair.send.try_lock()?;
        let wr_id = send.ledger.succeed_next(name);
        let kept = send.keep();
        Some((wr_id?, kept))
    } else if Cookie::is_of(cookie, Queue::Recv)
        && let Receiver::Own(recv) = &pair.recv
    {
        let mut recv = recv.try_lock()?;
        let wr_id = recv.ledger.succeed_next(name);
        let kept = recv.keep();
        Some((wr_id?, kept))
    } else {
        None
    }
}

impl<D: Driver> Completions<D> {
    /// Whether CQEs are all that a poll has to look at.
    #[inline(always)]
    pub(crate) fn is_plain(&self) -> bool {
        self.ahead.is_empty() && self.due.is_empty() && self.early.is_none()
    }

    /// Whether there is nothing to do, where no CQE is.
    #[inline(always)]
    fn is_quiet(&self) -> bool {
        self.moved.is_none() && self.dying.is_empty() && !self.has_work()
    }
}
