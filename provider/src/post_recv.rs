// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause

//! `ibv_post_recv`, `ibv_post_srq_recv`: application → ledger and ring → kernel.
//!
//! A receive queue has no doorbell: the kernel looks when a message arrives.

use std::ffi::c_int;

use rdma_core_sys::{IBV_QPS_RESET, ibv_qp, ibv_recv_wr, ibv_srq};

use crate::boundary::{Refused, post};
use crate::cookie::CookieBase;
use crate::driver::{Driver, RecvRing};
use crate::errno::Errno;
use crate::ledger::Receives;
use crate::lock::lock;
use crate::qp::Qp;
use crate::srq::Srq;
use crate::wr::List;

/// A receive queue, a QP's own or an SRQ's. Under its lock.
#[derive(Debug)]
pub(crate) struct RecvQueue<R, L> {
    pub(crate) ring: R,
    pub(crate) ledger: L,
    pub(crate) cookies: CookieBase,
}

impl<R: RecvRing, L: Receives> RecvQueue<R, L> {
    /// Accepts the list up to the first that is malformed, or for which there is no room.
    fn post(&mut self, mut list: List<ibv_recv_wr>) -> Result<(), Refused<ibv_recv_wr>> {
        let mut posted = Ok(());
        while let Some(wr) = list.peek() {
            let written = if self.ledger.is_full() {
                Err(Errno::ENOMEM)
            } else {
                self.ring.write(self.cookies.with(self.ledger.next()), wr)
            };
            if let Err(errno) = written {
                posted = Err(Refused {
                    errno,
                    first: list.head(),
                });
                break;
            }
            self.ledger.push(wr.wr_id);
            list.pass();
        }
        self.ring.publish();
        posted
    }
}

/// `ibv_post_recv`(3).
///
/// # Safety
///
/// As the man page asks.
pub(crate) unsafe extern "C" fn post_recv<D: Driver>(
    qp: *mut ibv_qp,
    wr: *mut ibv_recv_wr,
    bad_wr: *mut *mut ibv_recv_wr,
) -> c_int {
    let verb = || {
        let refused = |errno| Refused { errno, first: wr };
        // SAFETY: a QP of ours.
        let qp = unsafe { Qp::<D>::of(qp) }.ok_or_else(|| refused(Errno::EINVAL))?;
        // A QP that uses an SRQ has no queue of its own; one in RESET refuses (IBA C10-97.2.1).
        let recv = qp.own_recv().ok_or_else(|| refused(Errno::EINVAL))?;
        if wr.is_null() || qp.state() == IBV_QPS_RESET {
            return Err(refused(Errno::EINVAL));
        }
        // SAFETY: the caller's list.
        lock(recv).post(unsafe { List::new(wr) })
    };
    // SAFETY: the caller's `bad_wr`.
    unsafe { post(wr, bad_wr, verb) }
}

/// `ibv_post_srq_recv`(3).
///
/// # Safety
///
/// As the man page asks.
pub(crate) unsafe extern "C" fn post_srq_recv<D: Driver>(
    srq: *mut ibv_srq,
    wr: *mut ibv_recv_wr,
    bad_wr: *mut *mut ibv_recv_wr,
) -> c_int {
    let verb = || {
        let refused = |errno| Refused { errno, first: wr };
        // SAFETY: an SRQ of ours.
        let srq = unsafe { Srq::<D>::of(srq) }.ok_or_else(|| refused(Errno::EINVAL))?;
        if wr.is_null() {
            return Err(refused(Errno::EINVAL));
        }
        // SAFETY: the caller's list.
        srq.queue.lock().post(unsafe { List::new(wr) })
    };
    // SAFETY: the caller's `bad_wr`.
    unsafe { post(wr, bad_wr, verb) }
}
