// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause

//! `ibv_poll_cq`: kernel → ring → ledger → application.
//!
//! The kernel's CQE names its ledger entry by its cookie. The entry gives the caller's `wr_id` back
//! and, on an error, tells a send from a receive. Sends whose CQE came before their turn wait in
//! the ledger.

use std::ffi::c_int;
use std::mem::MaybeUninit;
use std::slice;

use rdma_core_sys::{IBV_WC_GENERAL_ERR, IBV_WC_RECV, IBV_WC_SUCCESS, ibv_cq, ibv_wc};

use crate::boundary::count;
use crate::cookie::{Cookie, OwnerId, Queue};
use crate::cq::{CompletionQueue, Completions, Cq};
use crate::driver::{CompletionRing, Driver};
use crate::errno::Errno;
use crate::ledger::{Outcome, Progress, Sent, small};
use crate::lock::lock;
use crate::qp::Qp;
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
        Ok(cq.queue.poll(wc))
    })
}

/// What became of a CQE.
struct Settled {
    /// The `ibv_wc` it was read into is the application's.
    due: bool,
    /// The QP behind whose sends others are due now.
    behind: Option<OwnerId>,
}

impl Settled {
    const PASSED_OVER: Self = Self {
        due: false,
        behind: None,
    };
    const DUE: Self = Self {
        due: true,
        behind: None,
    };
}

impl<D: Driver> CompletionQueue<D> {
    /// Fills `wc` as far as there are completions, in order; how many.
    fn poll(&self, wc: &mut [MaybeUninit<ibv_wc>]) -> usize {
        let mut state = self.lock();
        let mut filled = self.deliver_held(&mut state, wc, 0);
        while let Some(slot) = wc.get_mut(filled) {
            let Some(entry) = state.ring.next(slot) else {
                break;
            };
            let settled = self.settle(&state, entry);
            if settled.due {
                filled = filled.wrapping_add(1);
            }
            if let Some(owner) = settled.behind {
                state.held.push(owner);
                filled = self.deliver_held(&mut state, wc, filled);
            }
        }
        state.ring.release();
        filled
    }

    /// Finds the ledger entry of a CQE and completes `wc`, into which it was read.
    fn settle(&self, state: &Completions<D>, wc: &mut ibv_wc) -> Settled {
        let Some(cookie) = Cookie::decode(wc.wr_id) else {
            return Settled::PASSED_OVER;
        };
        match cookie.queue {
            Queue::Send => {
                let Some(qp) = self.qp(state, cookie) else {
                    return Settled::PASSED_OVER;
                };
                let mut send = lock(&qp.send);
                let outcome = Outcome::of(wc);
                let due = match send.ledger.complete(cookie.entry, outcome) {
                    Progress::Due(sent) => {
                        wc.wr_id = sent.wr_id;
                        if wc.status != IBV_WC_SUCCESS {
                            wc.opcode = sent.opcode.into();
                        }
                        true
                    }
                    Progress::Noted => false,
                    Progress::Stale => return Settled::PASSED_OVER,
                };
                Settled {
                    due,
                    behind: send.ledger.has_held().then_some(cookie.owner),
                }
            }
            Queue::Recv => {
                let Some(qp) = self.qp(state, cookie) else {
                    return Settled::PASSED_OVER;
                };
                let Some(recv) = qp.own_recv() else {
                    return Settled::PASSED_OVER;
                };
                received(wc, lock(recv).ledger.complete(cookie.entry))
            }
            Queue::Shared => {
                let Some(srq) = self.srq(state, cookie) else {
                    return Settled::PASSED_OVER;
                };
                received(wc, srq.lock().ledger.complete(cookie.entry))
            }
        }
    }

    /// Hands over sends that are due although their CQEs came earlier.
    fn deliver_held(
        &self,
        state: &mut Completions<D>,
        wc: &mut [MaybeUninit<ibv_wc>],
        mut filled: usize,
    ) -> usize {
        while let Some(owner) = state.held.last().copied() {
            if let Some(qp) = self.qp(
                state,
                Cookie {
                    queue: Queue::Send,
                    owner,
                    entry: 0,
                },
            ) {
                let mut send = lock(&qp.send);
                while send.ledger.has_held() {
                    let Some(slot) = wc.get_mut(filled) else {
                        return filled;
                    };
                    let Some(sent) = send.ledger.next_held() else {
                        break;
                    };
                    slot.write(completion(&sent, qp.number()));
                    filled = filled.wrapping_add(1);
                }
            }
            state.held.pop();
        }
        filled
    }

    /// The QP that a cookie names, if it is one whose completions come here.
    ///
    /// `_locked` keeps it: a QP leaves the table under this CQ's lock before it is freed.
    fn qp<'l>(&self, _locked: &'l Completions<D>, cookie: Cookie) -> Option<&'l Qp<D>> {
        let at = self
            .context
            .owners
            .find(cookie.owner, cookie.queue, self.key())?;
        // SAFETY: published for this CQ by `qp::create`, so it is a `Qp<D>`; alive, see above.
        Some(unsafe { at.cast().as_ref() })
    }

    /// The SRQ that a cookie names.
    ///
    /// `_locked` keeps it: an SRQ outlives its QPs, and a QP voids its unread CQEs under this CQ's
    /// lock before it is freed.
    fn srq<'l>(&self, _locked: &'l Completions<D>, cookie: Cookie) -> Option<&'l SharedQueue<D>> {
        let at = self
            .context
            .owners
            .find(cookie.owner, cookie.queue, self.key())?;
        // SAFETY: published as an SRQ by `srq::create`, so it is a `SharedQueue<D>`; alive, see
        // above.
        Some(unsafe { at.cast().as_ref() })
    }
}

/// Completes the `wc` of a receive, if its entry was outstanding.
fn received(wc: &mut ibv_wc, wr_id: Option<u64>) -> Settled {
    let Some(wr_id) = wr_id else {
        return Settled::PASSED_OVER;
    };
    wc.wr_id = wr_id;
    if wc.status != IBV_WC_SUCCESS {
        wc.opcode = IBV_WC_RECV;
    }
    Settled::DUE
}

/// The completion of a send from what the ledger has of it.
fn completion(sent: &Sent, qp_num: u32) -> ibv_wc {
    // SAFETY: `ibv_wc` is plain data, for which zeros will do.
    let mut wc = unsafe { std::mem::zeroed::<ibv_wc>() };
    wc.wr_id = sent.wr_id;
    wc.status = sent.outcome.status.into();
    wc.opcode = sent.opcode.into();
    wc.byte_len = sent.outcome.byte_len;
    wc.qp_num = qp_num;
    wc
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
