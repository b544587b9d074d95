// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause

//! A CQE → the ledger: what becomes of one, whatever it says. What is nothing but a success of a queue that was
//! met before takes shorter ways (`run.rs`, `quick_poll.rs`).

use std::mem::MaybeUninit;
use std::sync::atomic::Ordering;

use rdma_core_sys::{IBV_WC_GENERAL_ERR, IBV_WC_RECV, IBV_WC_SUCCESS, ibv_wc};

use crate::cookie::{Cookie, Mark, Queue};
use crate::cq::{CompletionQueue, Completions, Early};
use crate::driver::{CompletionRing, Driver};
use crate::flush::Chore;
use crate::ledger::{Outcome, Progress, Received, small};
use crate::lock::lock;

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
    /// Settles one CQE, whatever it is, and delivers what is due then.
    #[cold]
    #[inline(never)]
    pub(crate) fn settle_next(
        &self,
        state: &mut Completions<D>,
        wc: &mut [MaybeUninit<ibv_wc>],
        mut filled: usize,
    ) -> usize {
        let Some(slot) = wc.get_mut(filled) else {
            return filled;
        };
        let early = state.early.take();
        let entry = match early {
            Some(early) => slot.write(early.0),
            None => match state.ring.next(slot) {
                Some(entry) => entry,
                None => return filled,
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
                let Some(recv) = qp.own_recv() else {
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
                if srq.is_claimed()
                    && let Some(qp) = state.member(wc.qp_num)
                    && ledger.has(wc.wr_id)
                {
                    // The entry's name is its sequence number.
                    qp.shared_from
                        .store(cookie.entry.wrapping_add(1), Ordering::Relaxed);
                    state.add_chore(Chore::LookAgain(qp));
                }
                match ledger.complete(wc.wr_id) {
                    Some(wr_id) => received(wc, wr_id),
                    None => Settled::Passed,
                }
            }
        }
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
