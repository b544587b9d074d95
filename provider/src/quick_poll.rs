// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause

//! What most polls find: nothing, or one send or receive that has succeeded.
//!
//! Whatever else there is, or may be, is left to [`poll_cq`](crate::poll_cq) as it was found. There is nothing here
//! that waits, calls or panics, and little to be kept in mind at a time: no register has to be saved first.

use std::ffi::c_int;

use rdma_core_sys::{IBV_WC_RECV, ibv_wc};

use crate::cookie::Cookie;
use crate::cq::{CompletionQueue, Completions};
use crate::driver::{CompletionRing, Driver, Sight};
use crate::lock::{Kept, MutexGuard};
use crate::met::Named;

/// What came of a quick poll.
pub(crate) enum Quick<'s, D: Driver> {
    /// Nothing, or one success: what the verb answers.
    Polled(c_int),
    /// Successes, the first of which has this cookie, and perhaps their queue.
    Successes(Left<'s, D>, u64, Option<Kept<'s>>),
    /// Something else.
    Unknown(Left<'s, D>),
    /// Another thread has the CQ.
    Busy,
}

/// A CQ whose lock was left taken, to be gone on with.
pub(crate) struct Left<'s, D: Driver>(&'s CompletionQueue<D>);

impl<'s, D: Driver> Left<'s, D> {
    #[inline(always)]
    pub(crate) fn new(
        queue: &'s CompletionQueue<D>,
        state: MutexGuard<'s, Completions<D>>,
    ) -> Self {
        state.leave();
        Self(queue)
    }

    /// The CQ, and what is under its lock.
    #[inline(always)]
    pub(crate) fn go_on(self) -> (&'s CompletionQueue<D>, MutexGuard<'s, Completions<D>>) {
        // SAFETY: it was left so in `new`, and this is gone.
        (self.0, unsafe { self.0.resume() })
    }
}

impl<D: Driver> CompletionQueue<D> {
    /// Polls, if that is quickly done; `is_for_one` if there is room for one completion only.
    ///
    /// # Safety
    ///
    /// There is room for one at `wc`.
    #[inline(always)]
    pub(crate) unsafe fn poll_quickly(&self, is_for_one: bool, wc: *mut ibv_wc) -> Quick<'_, D> {
        let Some(mut state) = self.try_lock_quietly() else {
            return Quick::Busy;
        };
        if !state.is_quiet {
            return Quick::Unknown(Left::new(self, state));
        }
        let (cookie, found) = match state.ring.glance() {
            Sight::Success(cookie, found) => (cookie, found),
            Sight::Nothing if !self.has_suspects() => return Quick::Polled(state.answer(0)),
            Sight::Nothing | Sight::Unclear => return Quick::Unknown(Left::new(self, state)),
        };
        if !(is_for_one || state.ring.is_last()) {
            return Quick::Successes(Left::new(self, state), cookie, None);
        }
        let name = Cookie::entry(cookie);
        // SAFETY: the CQ is locked.
        let kept = match unsafe { state.met.queue(cookie) } {
            Some(Named::Recvs(recv)) => {
                if let Some(wr_id) = recv.ledger.succeed_next(name) {
                    // SAFETY: just found; there is room.
                    unsafe {
                        state
                            .ring
                            .take_only::<false>(found, &mut *wc.cast(), wr_id, IBV_WC_RECV)
                    };
                    return Quick::Polled(state.answer(1));
                }
                None
            }
            Some(Named::Sends(send)) => match send.try_lock() {
                Some(mut send) => {
                    if let Some((wr_id, opcode)) =
                        send.ledger.succeed_next(name, D::REPORTS_UNASKED)
                    {
                        // SAFETY: just found; there is room.
                        unsafe {
                            state
                                .ring
                                .take_only::<true>(found, &mut *wc.cast(), wr_id, opcode)
                        };
                        return Quick::Polled(send.keep().answer_with(state.keep(), 1));
                    }
                    Some(send.keep())
                }
                None => None,
            },
            Some(Named::Shared(srq)) if !srq.is_claimed() => match srq.try_lock() {
                Some(mut recv) => {
                    if let Some(wr_id) = recv.ledger.complete(cookie) {
                        // SAFETY: just found; there is room.
                        unsafe {
                            state.ring.take_only::<false>(
                                found,
                                &mut *wc.cast(),
                                wr_id,
                                IBV_WC_RECV,
                            )
                        };
                        return Quick::Polled(recv.keep().answer_with(state.keep(), 1));
                    }
                    Some(recv.keep())
                }
                None => None,
            },
            Some(Named::Shared(_)) | None => None,
        };
        Quick::Successes(Left::new(self, state), cookie, kept)
    }
}

impl<D: Driver> Completions<D> {
    /// Whether CQEs are all that a poll has to look at.
    pub(crate) fn is_plain(&self) -> bool {
        !self.has_read_ahead && self.due.is_empty() && self.early.is_none()
    }

    /// Notes whether the next poll may be a quick one.
    #[inline(always)]
    pub(crate) fn note_quiet(&mut self) {
        self.is_quiet = self.is_plain()
            && self.moved.is_none()
            && self.dying.is_empty()
            && self.chores.is_empty()
            && self.ring.may_glance()
            && !self.was_full();
    }
}
