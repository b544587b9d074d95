// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause

//! `ibv_poll_cq`: kernel → ring → ledger → application.
//!
//! The kernel's CQE names its ledger entry by its cookie. The entry gives the caller's `wr_id` back
//! and, on an error, tells a send from a receive. Sends whose CQE came before their turn wait in
//! the ledger.
//!
//! A CQE that is not a success is a sign of death, which is dealt with as soon as the lock of the CQ
//! is released; what the library then flushes follows in the same poll, if there is room.

use std::ffi::c_int;
use std::mem::MaybeUninit;
use std::slice;
use std::sync::atomic::Ordering;

use rdma_core_sys::{IBV_WC_GENERAL_ERR, IBV_WC_RECV, IBV_WC_SUCCESS, ibv_cq, ibv_wc};

use crate::boundary::count;
use crate::cookie::{Cookie, Mark, Queue};
use crate::cq::{CompletionQueue, Completions, Cq, Early};
use crate::death::Cause;
use crate::driver::{CompletionRing, Driver};
use crate::errno::Errno;
use crate::flush::Chore;
use crate::ledger::{Outcome, Progress, Received, small};
use crate::lock::lock;
use crate::queue_pair::QueuePair;
use crate::srq::SharedQueue;

/// `ibv_poll_cq`(3).
///
/// # Safety
///
/// As the man page asks.
pub(crate) unsafe extern "C" fn poll_cq<D: Driver>(
    cq: *mut ibv_cq,
    num_entries: c_int,
    wc: *mut ibv_wc,
) -> c_int {
    count(|| {
        // SAFETY: a CQ of ours.
        let cq = unsafe { Cq::<D>::of(cq) }.ok_or(Errno::EINVAL)?;
        let room = usize::try_from(num_entries).map_err(|_| Errno::EINVAL)?;
        if room == 0 {
            return Ok(0);
        }
        if wc.is_null() {
            return Err(Errno::EINVAL);
        }
        // SAFETY: the caller has room for `num_entries` of them there.
        let wc = unsafe { slice::from_raw_parts_mut(wc.cast::<MaybeUninit<ibv_wc>>(), room) };
        Ok(cq.queue.poll(wc, GiveBack::AtOnce))
    })
}

/// When the places of CQEs that were read go back to the kernel.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum GiveBack {
    AtOnce,
    /// When a batch ends.
    AtTheEnd,
}

/// What became of a CQE.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Settled {
    /// The `ibv_wc` it was read into is the application's.
    Due,
    /// It is nobody's, or not yet.
    Passed,
    /// It has to be looked at again when what is due was delivered.
    Early,
}

impl<D: Driver> CompletionQueue<D> {
    /// Fills `wc` as far as there are completions, in order; how many.
    pub(crate) fn poll(&self, wc: &mut [MaybeUninit<ibv_wc>], give_back: GiveBack) -> usize {
        let mut filled = 0;
        let mut has_overrun = false;
        loop {
            let mut state = self.lock();
            filled = self.fill(&mut state, wc, filled);
            if give_back == GiveBack::AtOnce {
                state.ring.release();
            }
            // In a batch, which gives nothing back before its end, it stays full.
            if !has_overrun && state.is_found_full() {
                drop(state);
                self.overrun(Cause::Overrun);
                has_overrun = true;
                continue;
            }
            let Some(chore) = state.chores.pop() else {
                return filled;
            };
            drop(state);
            chore.run();
        }
    }

    fn fill(
        &self,
        state: &mut Completions<D>,
        wc: &mut [MaybeUninit<ibv_wc>],
        filled: usize,
    ) -> usize {
        let mut filled = self.deliver_due(state, wc, filled);
        while let Some(slot) = wc.get_mut(filled) {
            let entry = match state.early.take() {
                Some(early) => slot.write(early.0),
                None => match state.ring.next(slot) {
                    Some(entry) => entry,
                    None if state.follow(&self.context) => continue,
                    None if state.dying.is_empty() => {
                        self.found_nothing(state);
                        break;
                    }
                    None => {
                        self.settle_quiet(state);
                        filled = self.deliver_due(state, wc, filled);
                        break;
                    }
                },
            };
            match self.settle_cqe(state, entry) {
                Settled::Due => filled = filled.wrapping_add(1),
                Settled::Passed => {}
                Settled::Early => state.early = Some(Early(*entry)),
            }
            if !state.due.is_empty() {
                filled = self.deliver_due(state, wc, filled);
            }
        }
        filled
    }

    /// Finds the ledger entry of a CQE and completes `wc`, into which it was read.
    fn settle_cqe(&self, state: &mut Completions<D>, wc: &mut ibv_wc) -> Settled {
        let Some(cookie) = Cookie::decode(wc.wr_id) else {
            if let Some(mark) = Mark::decode(wc.wr_id) {
                self.mark_is_back(state, mark);
            }
            return Settled::Passed;
        };
        let failed = wc.status != IBV_WC_SUCCESS;
        match cookie.queue {
            Queue::Send => {
                let Some(qp) = self.qp(cookie) else {
                    return Settled::Passed;
                };
                let mut send = lock(&qp.send);
                if failed && !send.ledger.is_closed() {
                    self.doom(state, qp);
                }
                let progress = send.ledger.complete(cookie.entry, Outcome::of(wc));
                if send.ledger.has_held() {
                    state.add_due(cookie.owner, Queue::Send);
                }
                match progress {
                    Progress::Due(sent) => {
                        wc.wr_id = sent.wr_id;
                        if failed {
                            wc.opcode = sent.opcode.into();
                        }
                        Settled::Due
                    }
                    Progress::Noted | Progress::Stale => Settled::Passed,
                }
            }
            Queue::Recv => {
                let Some(qp) = self.qp(cookie) else {
                    return Settled::Passed;
                };
                let Some(mut recv) = qp.own_recv() else {
                    return Settled::Passed;
                };
                if failed && !recv.ledger.is_closed() {
                    self.doom(state, qp);
                }
                match recv.ledger.complete(cookie.entry) {
                    Received::Due(wr_id) => received(wc, wr_id),
                    Received::Stale => Settled::Passed,
                    Received::Early => {
                        state.add_due(cookie.owner, Queue::Recv);
                        Settled::Early
                    }
                }
            }
            Queue::Shared => {
                let Some(srq) = self.srq(cookie) else {
                    return Settled::Passed;
                };
                if failed && let Some(qp) = state.member(wc.qp_num) {
                    self.doom(state, &qp);
                }
                let ledger = &mut srq.lock().ledger;
                // Relaxed: see `QueuePair::begin_claim`.
                if srq.claimed.load(Ordering::Relaxed)
                    && let Some(qp) = state.member(wc.qp_num)
                    && let Some(sequence) = ledger.sequence(cookie.entry)
                {
                    qp.shared_from
                        .store(sequence.wrapping_add(1), Ordering::Relaxed);
                    state.add_chore(Chore::LookAgain(qp));
                }
                match ledger.complete(cookie.entry) {
                    Some(wr_id) => received(wc, wr_id),
                    None => Settled::Passed,
                }
            }
        }
    }

    /// The QP that a cookie names, if it is one whose completions come here. The CQ is locked.
    ///
    /// That keeps it: a QP leaves the table under this CQ's lock before it is freed.
    pub(crate) fn qp(&self, cookie: Cookie) -> Option<&QueuePair<D>> {
        let at = self
            .context
            .owners
            .find(cookie.owner, cookie.queue, self.key())?;
        // SAFETY: published for this CQ by `qp::create`, so it is a `QueuePair<D>`; alive, see above.
        Some(unsafe { at.cast().as_ref() })
    }

    /// The SRQ that a cookie names. The CQ is locked.
    ///
    /// That keeps it: an SRQ outlives its QPs, and a QP voids its unread CQEs under this CQ's lock
    /// before it is freed.
    fn srq(&self, cookie: Cookie) -> Option<&SharedQueue<D>> {
        let at = self
            .context
            .owners
            .find(cookie.owner, cookie.queue, self.key())?;
        // SAFETY: published as an SRQ by `srq::create`, so it is a `SharedQueue<D>`; alive, see
        // above.
        Some(unsafe { at.cast().as_ref() })
    }
}

/// Completes the `wc` of a receive.
fn received(wc: &mut ibv_wc, wr_id: u64) -> Settled {
    wc.wr_id = wr_id;
    if wc.status != IBV_WC_SUCCESS {
        wc.opcode = IBV_WC_RECV;
    }
    Settled::Due
}

impl Outcome {
    /// What a CQE says; a status that libibverbs does not know is a general error.
    fn of(wc: &ibv_wc) -> Self {
        Self {
            status: u8::try_from(wc.status).unwrap_or(small(IBV_WC_GENERAL_ERR)),
            byte_len: wc.byte_len,
        }
    }
}
