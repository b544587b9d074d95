// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause

//! Runs: CQEs of consecutive work requests of one queue that are all successes, or flushes where the death is known.
//!
//! The queue is found and locked once, and what remains for each is that its cookie is the next one, and the `wr_id`
//! from the ledger.

use std::mem::MaybeUninit;

use rdma_core_sys::{IBV_WC_RECV, ibv_wc};

use crate::cookie::Cookie;
use crate::cq::{CompletionQueue, Completions};
use crate::driver::{CompletionRing, Driver, Front};
use crate::ledger::{Entry, RecvLedger, SendLedger, SharedLedger, wr_id_of};
use crate::lock::{Awaited, lock};
use crate::met::Named;

impl<D: Driver> CompletionQueue<D> {
    /// Settles CQEs of one queue that are nothing but successes, or flushes where the death is known, up to
    /// the first that is something else; how many.
    #[inline(never)]
    pub(crate) fn settle_run(
        &self,
        state: &mut Completions<D>,
        front: Front,
        room: &mut [MaybeUninit<ibv_wc>],
    ) -> usize {
        if front.is_success {
            self.settle_successes(state, front.cookie, room)
        } else {
            self.settle_flushes(state, front.cookie, room)
        }
    }

    /// As [`settle_run`](Self::settle_run), of successes from the `first` on.
    #[inline(always)]
    pub(crate) fn settle_successes(
        &self,
        state: &mut Completions<D>,
        first: u64,
        room: &mut [MaybeUninit<ibv_wc>],
    ) -> usize {
        match self.named(state, first) {
            Some(Named::Recvs(recv)) => state.take_recvs(&recv.ledger, first, room),
            Some(Named::Sends(send)) => state.take_sends(&mut lock(send).ledger, first, room),
            Some(Named::Shared(srq)) if !srq.is_claimed() => {
                state.take_shared(&mut srq.lock().ledger, first, room)
            }
            Some(Named::Shared(_)) | None => 0,
        }
    }

    /// As [`settle_successes`](Self::settle_successes), if the queue was met and nobody else has it: nothing is called.
    /// Also who has to be woken then.
    #[inline(always)]
    pub(crate) fn settle_quickly<'s>(
        &'s self,
        state: &mut Completions<D>,
        first: u64,
        room: &mut [MaybeUninit<ibv_wc>],
    ) -> (usize, Option<Awaited<'s>>) {
        // SAFETY: the CQ is locked.
        match unsafe { state.met.queue(first) } {
            Some(Named::Recvs(recv)) => (state.take_recvs(&recv.ledger, first, room), None),
            Some(Named::Sends(send)) => match send.try_lock() {
                Some(mut send) => {
                    let count = state.take_sends(&mut send.ledger, first, room);
                    (count, send.give_back_at_once())
                }
                None => (0, None),
            },
            Some(Named::Shared(srq)) if !srq.is_claimed() => match srq.try_lock() {
                Some(mut recv) => {
                    let count = state.take_shared(&mut recv.ledger, first, room);
                    (count, recv.give_back_at_once())
                }
                None => (0, None),
            },
            Some(Named::Shared(_)) | None => (0, None),
        }
    }

    /// As [`settle_run`](Self::settle_run), of flushes of a QP's own queue, from the `first` on.
    #[inline(always)]
    fn settle_flushes(
        &self,
        state: &mut Completions<D>,
        first: u64,
        room: &mut [MaybeUninit<ibv_wc>],
    ) -> usize {
        let name = Cookie::entry(first);
        let count = match self.named(state, first) {
            Some(Named::Sends(send)) => {
                let mut send = lock(send);
                let entries = send.ledger.flushed_from(name);
                let of = Entry::wr_id_and_opcode;
                let count = state.ring.take_flushes(first, entries, of, room);
                send.ledger.pass_flushed(count);
                count
            }
            Some(Named::Recvs(recv)) => {
                let recv = recv.lock();
                let wr_ids = recv.ledger.flushed_from(name);
                let of = |wr_id: &_| (wr_id_of(wr_id), IBV_WC_RECV);
                let count = state.ring.take_flushes(first, wr_ids, of, room);
                recv.ledger.pass(count);
                count
            }
            Some(Named::Shared(_)) | None => 0,
        };
        len(count)
    }
}

impl<D: Driver> Completions<D> {
    /// Takes the successes of a send queue, which is locked, from the `first` on; how many.
    #[inline(always)]
    fn take_sends(
        &mut self,
        ledger: &mut SendLedger,
        first: u64,
        room: &mut [MaybeUninit<ibv_wc>],
    ) -> usize {
        let entries = ledger.due_from(Cookie::entry(first));
        let of = |entry: &Entry| entry.due(D::REPORTS_UNASKED);
        let count = self.ring.take_run::<true, _>(first, entries, of, room);
        ledger.succeed(count);
        len(count)
    }

    /// The same of a QP's own receive queue.
    #[inline(always)]
    fn take_recvs(
        &mut self,
        ledger: &RecvLedger,
        first: u64,
        room: &mut [MaybeUninit<ibv_wc>],
    ) -> usize {
        let wr_ids = ledger.due_from(Cookie::entry(first));
        let of = |wr_id: &_| Some((wr_id_of(wr_id), IBV_WC_RECV));
        let count = self.ring.take_run::<false, _>(first, wr_ids, of, room);
        ledger.pass(count);
        len(count)
    }

    /// The same of an SRQ, which is locked.
    #[inline(always)]
    fn take_shared(
        &mut self,
        ledger: &mut SharedLedger,
        first: u64,
        room: &mut [MaybeUninit<ibv_wc>],
    ) -> usize {
        let places = ledger.places_from(first);
        let complete = |place: &_, cookie| ledger.retire(place, cookie);
        let count = self.ring.take_each(places, complete, room);
        ledger.pass(count);
        len(count)
    }
}

fn len(count: u32) -> usize {
    // CAST: u32 fits usize on every target that libibverbs supports.
    count as usize
}
