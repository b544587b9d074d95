// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause

//! `ibv_create_qp`, `ibv_modify_qp`, `ibv_query_qp`, `ibv_destroy_qp`.

use std::cell::UnsafeCell;
use std::ffi::c_int;
use std::fmt;
use std::mem::MaybeUninit;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};

use kernel_abi::uverbs;
use rdma_core_sys::provider::verbs_qp;
use rdma_core_sys::{
    IBV_QP_STATE, IBV_QPS_ERR, IBV_QPS_RESET, ibv_pd, ibv_qp, ibv_qp_attr, ibv_qp_init_attr,
    ibv_qp_state,
};

use crate::boundary::{pointer, status};
use crate::context::Context;
use crate::cookie::{Cookie, CookieBase, OwnerId, Queue};
use crate::cq::{CompletionQueue, Cq};
use crate::doorbell::Doorbell;
use crate::driver::{Driver, RecvRing, SendRing, holds};
use crate::errno::{Errno, Result};
use crate::ledger::{RecvLedger, SendLedger};
use crate::lock::lock;
use crate::object;
use crate::owners::Owner;
use crate::post_recv::RecvQueue;
use crate::post_send::SendQueue;
use crate::srq::{SharedQueue, Srq};

/// A QP: libibverbs' half, then ours.
#[repr(C)]
pub(crate) struct Qp<D: Driver> {
    base: UnsafeCell<verbs_qp>,
    pub(crate) id: OwnerId,
    pub(crate) doorbell: Doorbell,
    pub(crate) send: Mutex<SendQueue<D::Sends>>,
    recv: Receiver<D>,
    pub(crate) send_cq: Arc<CompletionQueue<D>>,
    recv_cq: Arc<CompletionQueue<D>>,
}

// SAFETY: libibverbs' half is reached through raw pointers only, its state word atomically; what is
// ours is shared by locks.
unsafe impl<D: Driver> Sync for Qp<D> {}

/// Where a QP's receives are posted.
#[derive(Debug)]
enum Receiver<D: Driver> {
    Own(Mutex<RecvQueue<D::Recvs, RecvLedger>>),
    Shared(Arc<SharedQueue<D>>),
    /// Created with `max_recv_wr` 0 by a driver that maps nothing then.
    Nothing,
}

impl<D: Driver> fmt::Debug for Qp<D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Qp")
            .field("id", &self.id)
            .finish_non_exhaustive()
    }
}

impl<D: Driver> Qp<D> {
    /// The QP behind libibverbs' one.
    ///
    /// # Safety
    ///
    /// `qp` is NULL or a QP that [`create`] made for this driver, not yet destroyed.
    pub(crate) unsafe fn of<'a>(qp: *mut ibv_qp) -> Option<&'a Self> {
        // SAFETY: NULL or begins a `Qp`. libibverbs' half is behind an `UnsafeCell`.
        unsafe { qp.cast::<Self>().as_ref() }
    }

    fn base(&self) -> *mut ibv_qp {
        self.base.get().cast()
    }

    /// The QP number, which never changes.
    pub(crate) fn number(&self) -> u32 {
        // SAFETY: libibverbs' half, whose number is written before the QP is published.
        unsafe { (*self.base()).qp_num }
    }

    /// The state that libibverbs remembers: the last one that `ibv_modify_qp` set or
    /// `ibv_query_qp` saw.
    pub(crate) fn state(&self) -> ibv_qp_state {
        // SAFETY: libibverbs' half; the word is aligned. libibverbs writes it with a plain store
        // (rdma-core v44.0 `cmd.c: ibv_cmd_modify_qp`), maybe meanwhile: it is old or new then.
        let word = unsafe { AtomicU32::from_ptr(&raw mut (*self.base()).state) };
        // Relaxed: nothing else is read on the strength of it.
        word.load(Ordering::Relaxed)
    }

    /// The receive queue of a QP that does not use an SRQ.
    pub(crate) fn own_recv(&self) -> Option<&Mutex<RecvQueue<D::Recvs, RecvLedger>>> {
        match &self.recv {
            Receiver::Own(recv) => Some(recv),
            Receiver::Shared(_) | Receiver::Nothing => None,
        }
    }

    fn context(&self) -> &Arc<Context> {
        &self.send_cq.context
    }
}

/// The memory of a QP in creation, with libibverbs' half done.
type Unborn<D> = Box<MaybeUninit<Qp<D>>>;

/// `ibv_create_qp`(3).
///
/// # Safety
///
/// As the man page asks.
pub(crate) unsafe extern "C" fn create<D: Driver>(
    pd: *mut ibv_pd,
    attr: *mut ibv_qp_init_attr,
) -> *mut ibv_qp {
    pointer(|| {
        // SAFETY: a PD of ours, and so its context.
        let ours = unsafe { Context::of((*pd).context) };
        // SAFETY: the caller's attributes, which nobody else uses meanwhile.
        let attr = unsafe { &mut *attr };
        if attr.send_cq.is_null() || attr.recv_cq.is_null() {
            return Err(Errno::EINVAL);
        }
        if attr.cap.max_send_wr == 1 {
            // A silent send leaves the ledger when the kernel has gone on to the one after it.
            attr.cap.max_send_wr = 2;
        }
        let mut qp: Unborn<D> = object::allocate()?;
        let base = qp.as_mut_ptr().cast::<ibv_qp>();
        let mut request = uverbs::Request::<uverbs::CreateQp>::zeroed();
        let mut answer = uverbs::Response::<uverbs::CreateQpResp, D::QpAnswer>::zeroed();
        // SAFETY: request and answer are as large as their sizes say; the QP is at its place.
        Errno::check(unsafe {
            (ours.library.calls.ibv_cmd_create_qp)(
                pd,
                base,
                attr,
                (&raw mut request).cast(),
                size_of_val(&request),
                (&raw mut answer).cast(),
                size_of_val(&answer),
            )
        })?;
        // SAFETY: the attributes name objects of ours, or NULL for no SRQ.
        let born = unsafe { finish(&ours, &mut qp, attr, &answer.driver) };
        let (id, send_key, recv_key) = born.inspect_err(|_| {
            // SAFETY: the kernel's QP that was just made, known to nobody else. Its failure could
            // not be told: the other one is.
            let _ = unsafe { (ours.library.calls.ibv_cmd_destroy_qp)(base) };
        })?;
        let qp = NonNull::from(Box::leak(qp)).cast::<Qp<D>>();
        ours.owners.publish(id, Owner::qp(qp, send_key, recv_key));
        Ok(qp.as_ptr().cast())
    })
}

/// Maps the rings and makes the ledgers, which completes the QP; under which name completions are to
/// find it, and the keys of the CQs that they come from.
///
/// # Safety
///
/// `attr` names CQs of ours, and an SRQ of ours or NULL.
unsafe fn finish<D: Driver>(
    context: &Arc<Context>,
    qp: &mut Unborn<D>,
    attr: &mut ibv_qp_init_attr,
    answer: &D::QpAnswer,
) -> Result<(OwnerId, usize, usize)> {
    // SAFETY: the caller's promise.
    let (send_cq, recv_cq, srq) = unsafe {
        let cq = |cq| {
            Cq::<D>::of(cq)
                .map(|cq| Arc::clone(&cq.queue))
                .ok_or(Errno::EINVAL)
        };
        (cq(attr.send_cq)?, cq(attr.recv_cq)?, Srq::<D>::of(attr.srq))
    };
    let cmd_fd = context.cmd_fd;
    let asked = attr.cap;
    let sends = D::map_sq(cmd_fd, answer, attr.qp_type, &mut attr.cap)?;
    let send_ledger = SendLedger::new(holds(sends.capacity(), asked.max_send_wr)?, D::CQE_ORDER)?;
    let own = if srq.is_some() {
        None
    } else {
        let ring = D::map_rq(cmd_fd, answer, &mut attr.cap)?;
        let capacity = ring.as_ref().map_or(0, RecvRing::capacity);
        let ledger = RecvLedger::new(holds(capacity, asked.max_recv_wr)?)?;
        ring.map(|ring| (ring, ledger))
    };
    send_cq.attach()?;
    recv_cq.attach().inspect_err(|_| send_cq.give_up_attach())?;
    let id = context.owners.reserve().inspect_err(|_| {
        send_cq.give_up_attach();
        recv_cq.give_up_attach();
    })?;
    let recv = match (srq, own) {
        (Some(srq), _) => Receiver::Shared(Arc::clone(&srq.queue)),
        (None, Some((ring, ledger))) => {
            let cookies = CookieBase::new(Queue::Recv, id);
            Receiver::Own(Mutex::new(RecvQueue {
                ring,
                ledger,
                cookies,
            }))
        }
        (None, None) => Receiver::Nothing,
    };
    let send = Mutex::new(SendQueue {
        ring: sends,
        ledger: send_ledger,
        cookies: CookieBase::new(Queue::Send, id),
        signal_all: attr.sq_sig_all != 0,
        unproven: D::CONNECTS_UNSEEN,
    });
    let born = (id, send_cq.key(), recv_cq.key());
    let at = qp.as_mut_ptr();
    // SAFETY: all inside the allocation; libibverbs' half is done, and these are all of ours.
    unsafe {
        let qp_handle = (*at.cast::<ibv_qp>()).handle;
        (&raw mut (*at).id).write(id);
        (&raw mut (*at).doorbell).write(Doorbell { cmd_fd, qp_handle });
        (&raw mut (*at).send).write(send);
        (&raw mut (*at).recv).write(recv);
        (&raw mut (*at).send_cq).write(send_cq);
        (&raw mut (*at).recv_cq).write(recv_cq);
    }
    Ok(born)
}

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
        let ours = unsafe { Qp::<D>::of(qp) }.ok_or(Errno::EINVAL)?;
        // SAFETY: the caller's attributes.
        unsafe { ours.modify_kernel(attr, mask) }?;
        let to_state = c_int::try_from(IBV_QP_STATE).is_ok_and(|state| mask & state != 0);
        // SAFETY: the caller's attributes.
        if to_state && unsafe { (*attr).qp_state } == IBV_QPS_RESET && !D::CONNECTS_UNSEEN {
            ours.forget_all();
        }
        Ok(())
    })
}

impl<D: Driver> Qp<D> {
    /// # Safety
    ///
    /// `attr` are attributes of which the mask tells the valid ones.
    unsafe fn modify_kernel(&self, attr: *mut ibv_qp_attr, mask: c_int) -> Result<()> {
        let mut request = uverbs::Request::<uverbs::ModifyQp>::zeroed();
        // SAFETY: the caller's attributes; the request is as large as its size says.
        Errno::check(unsafe {
            (self.context().library.calls.ibv_cmd_modify_qp)(
                self.base(),
                attr,
                mask,
                (&raw mut request).cast(),
                size_of_val(&request),
            )
        })
    }

    /// Empties both ledgers and removes the unread CQEs: the kernel has reset the queues, and left
    /// the indices of their rings where they were (linux 6.1 `rxe_qp.c: rxe_qp_reset`).
    fn forget_all(&self) {
        let is_own = |cookie| Cookie::decode(cookie).is_some_and(|c| c.owner == self.id);
        for cq in [&self.send_cq, &self.recv_cq] {
            let mut completions = cq.lock();
            completions.held.retain(|held| *held != self.id);
            completions.void_unread(|cookie, qp_num| is_own(cookie) || self.took(cookie, qp_num));
        }
        lock(&self.send).ledger.clear();
        if let Some(recv) = self.own_recv() {
            lock(recv).ledger.clear();
        }
    }

    /// Whether an unread CQE is for an SRQ's entry that this QP took; the entry is retired then.
    fn took(&self, cookie: u64, qp_num: u32) -> bool {
        let Receiver::Shared(srq) = &self.recv else {
            return false;
        };
        match Cookie::decode(cookie) {
            Some(c) if c.queue == Queue::Shared && c.owner == srq.id && qp_num == self.number() => {
                srq.lock().ledger.complete(c.entry);
                true
            }
            _ => false,
        }
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
        let ours = unsafe { Qp::<D>::of(qp) }.ok_or(Errno::EINVAL)?;
        let mut request = uverbs::Request::<uverbs::QueryQp>::zeroed();
        // SAFETY: the caller's attributes; the request is as large as its size says.
        Errno::check(unsafe {
            (ours.context().library.calls.ibv_cmd_query_qp)(
                qp,
                attr,
                mask,
                init_attr,
                (&raw mut request).cast(),
                size_of_val(&request),
            )
        })
    })
}

/// `ibv_destroy_qp`(3). No completion of the QP is seen any more.
///
/// # Safety
///
/// As the man page asks.
pub(crate) unsafe extern "C" fn destroy<D: Driver>(qp: *mut ibv_qp) -> c_int {
    status(|| {
        // SAFETY: a QP of ours.
        let ours = unsafe { Qp::<D>::of(qp) }.ok_or(Errno::EINVAL)?;
        let took = |cookie, qp_num| ours.took(cookie, qp_num);
        if D::REUSES_QP_NUMBERS && matches!(ours.recv, Receiver::Shared(_)) {
            // An SRQ's CQE tells its QP by the number alone. So it has to go while the number is
            // still this QP's, and none may follow: siw's move to ERROR flushes before it returns
            // (linux 6.1 `siw_qp.c: siw_qp_modify`), and destroy then flushes nothing more.
            let mut attr = ibv_qp_attr {
                qp_state: IBV_QPS_ERR,
                ..Default::default()
            };
            let state = c_int::try_from(IBV_QP_STATE).map_err(|_| Errno::EINVAL)?;
            // SAFETY: the attributes have the state that the mask tells of.
            unsafe { ours.modify_kernel(&raw mut attr, state) }?;
            ours.recv_cq.lock().void_unread(took);
        }
        // SAFETY: as above.
        Errno::check(unsafe { (ours.context().library.calls.ibv_cmd_destroy_qp)(qp) })?;
        let is_own = |cookie| Cookie::decode(cookie).is_some_and(|c| c.owner == ours.id);
        ours.context().owners.release(ours.id);
        ours.send_cq.detach(ours.id, |cookie, _| is_own(cookie));
        ours.recv_cq.detach(ours.id, |cookie, qp_num| {
            is_own(cookie) || (!D::REUSES_QP_NUMBERS && took(cookie, qp_num))
        });
        // SAFETY: `create` made it a box of `Qp`. The kernel has let go of it and the caller does;
        // no poller can have it, for it left the table before its CQs' locks were taken.
        drop(unsafe { Box::from_raw(qp.cast::<Qp<D>>()) });
        Ok(())
    })
}
