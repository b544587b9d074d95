// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause

//! `ibv_modify_qp`, `ibv_query_qp`.

use std::ffi::c_int;
use std::thread;

use kernel_abi::uverbs;
use rdma_core_sys::{
    IBV_QP_STATE, IBV_QPS_ERR, IBV_QPS_INIT, IBV_QPS_RESET, IBV_QPS_RTS, ibv_qp, ibv_qp_attr,
    ibv_qp_attr_mask, ibv_qp_init_attr, ibv_qp_state,
};

use crate::boundary::status;
use crate::cookie;
use crate::death::{Cause, Life, STATE};
use crate::driver::{Driver, RecvRing, SendRing};
use crate::errno::{Errno, Result};
use crate::last_wqe::LastWqe;
use crate::lock::{MutexGuard, lock};
use crate::qp::Qp;
use crate::queue_pair::{QueuePair, remember};

/// `ibv_modify_qp`(3).
///
/// # Safety
///
/// As the man page asks.
pub(crate) unsafe extern "C" fn modify<D: Driver>(
    qp: *mut ibv_qp,
    attr: *mut ibv_qp_attr,
    mask: c_int,
) -> c_int {
    status(|| {
        // SAFETY: a QP of ours.
        let qp = unsafe { Qp::<D>::of(qp) }.ok_or(Errno::EINVAL)?;
        let mask = ibv_qp_attr_mask::try_from(mask).map_err(|_| Errno::EINVAL)?;
        let pair = &qp.pair;
        if mask & IBV_QP_STATE == 0 {
            let _life = lock(&pair.life);
            // SAFETY: the caller's attributes.
            return unsafe { pair.modify_kernel(attr, mask) };
        }
        // SAFETY: the mask says that the caller gave the state.
        let to = unsafe { (*attr).qp_state };
        if to == IBV_QPS_ERR || Some(to) == D::CLOSES_BY {
            pair.modify_to_error(qp.state(), attr, mask)?;
            // libibverbs remembers what stands here.
            // SAFETY: the caller's attributes.
            unsafe { (*attr).qp_state = IBV_QPS_ERR };
            return Ok(());
        }
        let mut life = lock(&pair.life);
        if to == IBV_QPS_RESET {
            return pair.modify_to_reset(life, qp.state(), attr, mask);
        }
        if life.dead {
            // A dead QP goes to RESET or stays where it is. siw would say that it moves.
            return Err(Errno::EINVAL);
        }
        let from = qp.state();
        // SAFETY: the caller's attributes.
        unsafe { pair.modify_kernel(attr, mask) }?;
        life.missed = None;
        drop(life);
        if to == IBV_QPS_RTS && from > IBV_QPS_RTS {
            // What was posted in SQD has to be started: rxe's move does not
            // (linux 6.1, 6.12 `rxe_qp.c: rxe_qp_from_attr`).
            let _ = pair
                .doorbell
                .ring()
                .inspect_err(|_| pair.die(Cause::Doorbell));
        }
        Ok(())
    })
}

impl<D: Driver> QueuePair<D> {
    /// The move to ERR, and on iWARP to SQD, which is the same there but for what it forgets.
    fn modify_to_error(
        &self,
        from: ibv_qp_state,
        attr: *mut ibv_qp_attr,
        mask: ibv_qp_attr_mask,
    ) -> Result<()> {
        let mut life = lock(&self.life);
        if life.dead || mask != STATE || (D::RESETS && from == IBV_QPS_RESET) {
            // Nothing new, or something that the kernel has to judge. siw's kernel takes ERR for
            // what it is, where SQD is asked for.
            // SAFETY: the caller's attributes.
            unsafe { self.modify_kernel(attr, mask) }?;
            drop(life);
            self.die(Cause::Modified);
            return Ok(());
        }
        let flushed = self.flush(&mut life, Cause::Modified);
        self.see_to_rest(life);
        flushed
    }

    /// The move to RESET: what is queued and what has completed is forgotten.
    ///
    /// By way of ERR, and only when the kernel has flushed: rxe's requester would start again in the
    /// middle of the old queue (linux 6.12 `rxe_qp.c: rxe_qp_reset`, where `rxe_sender` notes the
    /// consumer's place before the completer moves it).
    fn modify_to_reset(
        &self,
        mut life: MutexGuard<'_, Life>,
        from: ibv_qp_state,
        attr: *mut ibv_qp_attr,
        mask: ibv_qp_attr_mask,
    ) -> Result<()> {
        if mask == STATE && from != IBV_QPS_RESET {
            if !life.dead {
                self.flush(&mut life, Cause::Modified)?;
            }
            while D::RESETS && !self.is_drained() {
                thread::yield_now();
            }
        }
        // SAFETY: the caller's attributes.
        unsafe { self.modify_kernel(attr, mask) }?;
        // Before a post could find the queue alive.
        remember(self.base.0, IBV_QPS_RESET);
        self.forget_all();
        // siw's kernel ignores the move: such a QP stays dead.
        life.dead &= !D::RESETS;
        life.last_wqe = LastWqe::NotDue;
        self.note_earlier_events(&mut life);
        drop(life);
        self.withdraw_claim();
        Ok(())
    }

    /// Whether the kernel has consumed all that was published, and does no more than posting a CQE.
    fn is_drained(&self) -> bool {
        lock(&self.send).ring.is_drained()
            && self
                .own_recv()
                .is_none_or(|recv| recv.queue.ring.is_drained())
    }

    /// Empties both ledgers and removes the unread CQEs: the kernel has reset the queues, and left
    /// the indices of their rings where they were (linux 6.1 `rxe_qp.c: rxe_qp_reset`).
    fn forget_all(&self) {
        let is_own = |cookie| cookie::owner(cookie) == Some(self.id);
        for cq in self.cqs() {
            cq.lock().forget(self.id, |cookie, qp_num| {
                is_own(cookie) || self.took(cookie, qp_num)
            });
            cq.wake_for_rest();
        }
        {
            let mut send = lock(&self.send);
            if D::RESETS {
                let (index, indices) = send.ring.position();
                send.ledger.restart(index, indices);
                send.flushed = false;
                send.marks = 0;
            } else {
                send.ledger.clear();
            }
        }
        // Polls need no lock but the CQ's to empty the ledger.
        let recv_cq = self.recv_cq.lock();
        if let Some(mut recv) = self.own_recv() {
            if D::RESETS {
                recv.ledger.restart();
                recv.queue.flushed = false;
                recv.queue.marks = 0;
            } else {
                recv.ledger.clear();
            }
        }
        drop(recv_cq);
        self.absolve();
    }
}

/// `ibv_query_qp`(3).
///
/// # Safety
///
/// As the man page asks.
pub(crate) unsafe extern "C" fn query<D: Driver>(
    qp: *mut ibv_qp,
    attr: *mut ibv_qp_attr,
    mask: c_int,
    init_attr: *mut ibv_qp_init_attr,
) -> c_int {
    status(|| {
        // SAFETY: a QP of ours.
        let qp = unsafe { Qp::<D>::of(qp) }.ok_or(Errno::EINVAL)?;
        let mask = ibv_qp_attr_mask::try_from(mask).map_err(|_| Errno::EINVAL)?;
        let known = qp.state();
        let life = lock(&qp.pair.life);
        // SAFETY: the caller's attributes.
        unsafe { qp.pair.query_kernel(attr, mask, init_attr) }?;
        // SAFETY: as above; the kernel has filled them in.
        let (attr, init_attr) = unsafe { (&mut *attr, &mut *init_attr) };
        // What the kernel counts besides is the library's. siw of 6.1 and 6.12 has no number of elements,
        // and says of each QP that it signals all (`siw_verbs.c: siw_query_qp` leaves both at 0).
        attr.cap = qp.cap;
        init_attr.cap = qp.cap;
        init_attr.sq_sig_all = (lock(&qp.pair.send).flags != 0).into();
        let dead = life.dead;
        drop(life);
        if dead {
            attr.qp_state = IBV_QPS_ERR;
        } else if attr.qp_state == IBV_QPS_ERR {
            qp.pair.die(Cause::Queried);
        } else if attr.qp_state == IBV_QPS_RESET && D::CONNECTS_UNSEEN {
            attr.qp_state = qp.pair.find_out(known);
        } else {
            return Ok(());
        }
        attr.cur_qp_state = attr.qp_state;
        if mask & IBV_QP_STATE != 0 {
            remember(qp.pair.base.0, attr.qp_state);
        }
        Ok(())
    })
}

impl<D: Driver> QueuePair<D> {
    /// `ibv_query_qp`(3) as the kernel does it. The lock of `life` is held, which is not gone.
    ///
    /// # Safety
    ///
    /// As the man page asks of its pointers.
    pub(crate) unsafe fn query_kernel(
        &self,
        attr: *mut ibv_qp_attr,
        mask: ibv_qp_attr_mask,
        init_attr: *mut ibv_qp_init_attr,
    ) -> Result<()> {
        let mut request = uverbs::Request::<uverbs::QueryQp>::zeroed();
        let mask = mask.try_into().map_err(|_| Errno::EINVAL)?;
        // SAFETY: the caller's attributes; the request is as large as its size says. libibverbs'
        // half is there until `life` is gone.
        Errno::check(unsafe {
            (self.context.library.calls.ibv_cmd_query_qp)(
                self.base.0,
                attr,
                mask,
                init_attr,
                (&raw mut request).cast(),
                size_of_val(&request),
            )
        })
    }

    /// The state of a living QP whose kernel does not tell it (linux 6.1 `siw_verbs.c: siw_query_qp`):
    /// connected, if the kernel takes the doorbell. An iWARP QP begins in IDLE, which 6.12 calls INIT
    /// (`siw_verbs.c: siw_qp_state_to_ib_qp_state`).
    fn find_out(&self, known: ibv_qp_state) -> ibv_qp_state {
        let send = lock(&self.send);
        // Under the lock, so that it does not start what a post is about to take back.
        let rings = self.doorbell.ring().is_ok();
        let is_marked = send.ring.is_marked();
        drop(send);
        if !is_marked {
            self.die(Cause::Flushed);
            IBV_QPS_ERR
        } else if rings {
            IBV_QPS_RTS
        } else {
            known.max(IBV_QPS_INIT)
        }
    }
}
