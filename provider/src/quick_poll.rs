// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause

//! What most polls find: nothing, or one send or receive that has succeeded.
//!
//! Whatever else there is, or may be, is left to [`poll_cq`](crate::poll_cq) as it was found. There is nothing here
//! that waits, calls or panics, and little to be kept in mind at a time: no register has to be saved first.

use std::ffi::c_int;
use std::mem::MaybeUninit;

use rdma_core_sys::{IBV_WC_RECV, ibv_wc, ibv_wc_opcode};

use crate::cookie::Cookie;
use crate::cq::{CompletionQueue, Completions};
use crate::driver::{CompletionRing, Driver, Sight};
use crate::lock::{Kept, MutexGuard};
use crate::met::{Met, Named};

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
    #[inline(always)]
    pub(crate) fn poll_quickly(
        &self,
        is_for_one: bool,
        wc: &mut MaybeUninit<ibv_wc>,
    ) -> Quick<'_, D> {
        let Some(mut state) = self.try_lock_quietly() else {
            return Quick::Busy;
        };
        if !state.is_quiet {
            return Quick::Unknown(Left::new(self, state));
        }
        let cookie = match state.ring.glance() {
            Sight::Success(cookie) => cookie,
            Sight::Nothing if !self.has_suspects() => return Quick::Polled(state.answer(0)),
            Sight::Nothing | Sight::Unclear => return Quick::Unknown(Left::new(self, state)),
        };
        if !(is_for_one || state.ring.is_last()) {
            return Quick::Successes(Left::new(self, state), cookie, None);
        }
        match succeed_next(&state.met, cookie) {
            Next::Is(wr_id, opcode, None) => {
                state.ring.take_only(wc, wr_id, opcode);
                Quick::Polled(state.answer(1))
            }
            Next::Is(wr_id, opcode, Some(queue)) => {
                state.ring.take_only(wc, wr_id, opcode);
                Quick::Polled(queue.answer_with(state.keep(), 1))
            }
            Next::IsNot(queue) => Quick::Successes(Left::new(self, state), cookie, queue),
        }
    }
}

/// Whether a success is of the next work request of a queue that was met, and that queue's lock, if it was taken.
enum Next<'s> {
    /// Of this `wr_id` and opcode.
    Is(u64, ibv_wc_opcode, Option<Kept<'s>>),
    IsNot(Option<Kept<'s>>),
}

/// Notes a success in the ledger, if it is the next one there of a queue that was met.
#[inline(always)]
fn succeed_next<'s, D: Driver>(met: &Met<D>, cookie: u64) -> Next<'s> {
    let name = Cookie::entry(cookie);
    // SAFETY: the CQ is locked.
    let (due, kept) = match unsafe { met.queue(cookie) } {
        Some(Named::Recvs(recv)) => (recv.ledger.succeed_next(name).map(received), None),
        Some(Named::Sends(send)) => {
            let Some(mut send) = send.try_lock() else {
                return Next::IsNot(None);
            };
            (send.ledger.succeed_next(name), Some(send.keep()))
        }
        Some(Named::Shared(srq)) if !srq.is_claimed() => {
            let Some(mut recv) = srq.try_lock() else {
                return Next::IsNot(None);
            };
            let due = recv.ledger.complete(cookie).map(received);
            (due, Some(recv.keep()))
        }
        Some(Named::Shared(_)) | None => return Next::IsNot(None),
    };
    match due {
        Some((wr_id, opcode)) => Next::Is(wr_id, opcode, kept),
        None => Next::IsNot(kept),
    }
}

/// What the completion of a receive says.
#[inline(always)]
fn received(wr_id: u64) -> (u64, ibv_wc_opcode) {
    (wr_id, IBV_WC_RECV)
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
