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
use crate::rarely::rarely;

/// What came of a quick poll.
pub(crate) enum Quick<'s, D: Driver> {
    /// Nothing, or one success: what the verb answers.
    Polled(c_int),
    /// Successes, the first of which has this cookie.
    Successes(Left<'s, D>, u64),
    /// The same, and the lock of their queue, in which the first is not the next one.
    Kept(Left<'s, D>, u64, Kept<'s>),
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
            return Quick::Successes(Left::new(self, state), cookie);
        }
        // SAFETY: the caller's promise.
        let wc = unsafe { &mut *wc.cast() };
        let name = Cookie::entry(cookie);
        // SAFETY: the CQ is locked.
        match unsafe { state.met.queue(cookie) } {
            Some(Named::Recvs(recv)) => {
                if let Some(wr_id) = recv.ledger.succeed_next(name) {
                    // SAFETY: just found.
                    unsafe {
                        state.ring.take_only::<false>(found, wc, wr_id, IBV_WC_RECV);
                    }
                    return Quick::Polled(state.answer(1));
                }
            }
            Some(Named::Sends(send)) => {
                if let Some(mut send) = send.try_lock() {
                    let due = send.ledger.succeed_next(name, D::REPORTS_UNASKED);
                    let Some((wr_id, opcode)) = due else {
                        return Quick::Kept(Left::new(self, state), cookie, send.keep());
                    };
                    // SAFETY: as above.
                    unsafe {
                        state.ring.take_only::<true>(found, wc, wr_id, opcode);
                    }
                    return Quick::Polled(send.keep().answer_with(state.keep(), 1));
                }
            }
            Some(Named::Shared(srq)) if !srq.is_claimed() => {
                rarely();
                if let Some(mut recv) = srq.try_lock() {
                    let Some(wr_id) = recv.ledger.complete(cookie) else {
                        return Quick::Kept(Left::new(self, state), cookie, recv.keep());
                    };
                    // SAFETY: as above.
                    unsafe {
                        state.ring.take_only::<false>(found, wc, wr_id, IBV_WC_RECV);
                    }
                    return Quick::Polled(recv.keep().answer_with(state.keep(), 1));
                }
            }
            Some(Named::Shared(_)) | None => {}
        }
        Quick::Successes(Left::new(self, state), cookie)
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
