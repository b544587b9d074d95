// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause

//! `ibv_create_qp`, `ibv_destroy_qp`; its states are in `qp_state.rs`.

use std::cell::UnsafeCell;
use std::ffi::c_int;
use std::fmt;
use std::mem::MaybeUninit;
use std::ptr::NonNull;
use std::sync::Arc;

use kernel_abi::uverbs;
use rdma_core_sys::provider::verbs_qp;
use rdma_core_sys::{
    IBV_SEND_SIGNALED, ibv_context, ibv_pd, ibv_qp, ibv_qp_cap, ibv_qp_init_attr, ibv_qp_state,
};

use crate::announcer;
use crate::boundary::{pointer, status};
use crate::context::Context;
use crate::cookie::{self, Cookie, CookieBase, Mark, Queue};
use crate::cq::Cq;
use crate::death::Cause;
use crate::doorbell::Doorbell;
use crate::draft::Draft;
use crate::driver::{Driver, RecvRing, SendRing, holds};
use crate::errno::{Errno, Result};
use crate::held::Held;
use crate::ledger::{RecvLedger, SendLedger};
use crate::lock::lock;
use crate::object;
use crate::own_queue::OwnQueue;
use crate::owners::Owner;
use crate::pd::Domain;
use crate::post_recv::RecvQueue;
use crate::post_send::SendQueue;
use crate::queue_pair::{Base, Parts, QueuePair, Receiver, remembered};
use crate::srq::Srq;

/// A QP: libibverbs' half, then ours.
#[repr(C)]
pub(crate) struct Qp<D: Driver> {
    base: UnsafeCell<verbs_qp>,
    pub(crate) pair: Held<QueuePair<D>>,
    /// What its queues hold, as its creation answered.
    pub(crate) cap: ibv_qp_cap,
    /// Where `ibv_wr_start` and what follows it work; without room, if the QP was not created for that.
    pub(crate) draft: Draft,
    _domain: Arc<Domain>,
}

impl<D: Driver> fmt::Debug for Qp<D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Qp")
            .field("pair", &self.pair)
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

    /// As [`of`](Self::of), of one that is there.
    ///
    /// # Safety
    ///
    /// `qp` is a QP that [`create`] made for this driver, not yet destroyed.
    #[inline(always)]
    pub(crate) unsafe fn at<'a>(qp: *mut ibv_qp) -> &'a Self {
        // SAFETY: begins a `Qp`. libibverbs' half is behind an `UnsafeCell`.
        unsafe { &*qp.cast::<Self>() }
    }

    /// The state that libibverbs remembers.
    pub(crate) fn state(&self) -> ibv_qp_state {
        remembered(self.base.get().cast())
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
    // SAFETY: the caller's PD and attributes, which nobody else uses meanwhile.
    pointer(|| unsafe { make::<D>(pd, &mut *attr, false) })
}

/// Makes a QP; if it `has_drafts`, one that can post by `ibv_wr_post`(3) too.
///
/// # Errors
///
/// What the kernel says; `EINVAL` without CQs, or if they or the SRQ are not of the PD's context; `ENOMEM`,
/// `EIO`. The attributes are as they were then.
///
/// # Safety
///
/// A PD of this driver's, and attributes that name objects of its, as `ibv_create_qp`(3) asks.
pub(crate) unsafe fn make<D: Driver>(
    pd: *mut ibv_pd,
    attr: &mut ibv_qp_init_attr,
    has_drafts: bool,
) -> Result<*mut ibv_qp> {
    // SAFETY: the caller's PD, and CQs and SRQ or NULL.
    if unsafe { !belong((*pd).context, attr) } {
        return Err(Errno::EINVAL);
    }
    let asked = attr.cap;
    // SAFETY: as above.
    unsafe { make_of_these::<D>(pd, attr, has_drafts) }.inspect_err(|_| attr.cap = asked)
}

/// Whether there are CQs, and they and the SRQ are of `context`: the kernel sees but a handle, and takes it
/// for that of an object of the PD's context.
///
/// # Safety
///
/// `attr` names living objects, or NULL.
unsafe fn belong(context: *mut ibv_context, attr: &ibv_qp_init_attr) -> bool {
    // SAFETY: the caller's promise.
    let [send_cq, recv_cq] = [attr.send_cq, attr.recv_cq].map(|cq| unsafe { cq.as_ref() });
    // SAFETY: as above.
    let srq = unsafe { attr.srq.as_ref() };
    send_cq.is_some_and(|cq| cq.context == context)
        && recv_cq.is_some_and(|cq| cq.context == context)
        && srq.is_none_or(|srq| srq.context == context)
}

/// As [`make`], of objects that belong together.
///
/// # Errors
///
/// What the kernel says; `ENOMEM`, `EIO`. `attr.cap` says nothing then.
///
/// # Safety
///
/// As [`make`].
unsafe fn make_of_these<D: Driver>(
    pd: *mut ibv_pd,
    attr: &mut ibv_qp_init_attr,
    has_drafts: bool,
) -> Result<*mut ibv_qp> {
    // SAFETY: a PD of ours, and so its context.
    let ours = unsafe { Context::of((*pd).context) };
    if attr.cap.max_send_wr == 1 {
        // A silent send leaves the ledger when the kernel has gone on to the one after it.
        attr.cap.max_send_wr = 2;
    }
    let mut qp: Unborn<D> = object::allocate()?;
    let base = qp.as_mut_ptr().cast::<ibv_qp>();
    let asked = attr.cap;
    if D::MARKS_AHEAD {
        // One entry more, for the mark.
        attr.cap.max_send_wr = asked.max_send_wr.saturating_add(1);
        attr.cap.max_recv_wr = asked.max_recv_wr.saturating_add(1);
    }
    let mut request = uverbs::Request::<uverbs::CreateQp>::zeroed();
    let mut answer = uverbs::Response::<uverbs::CreateQpResp, D::QpAnswer>::zeroed();
    // SAFETY: request and answer are as large as their sizes say; the QP is at its place.
    let created = Errno::check(unsafe {
        (ours.library.calls.ibv_cmd_create_qp)(
            pd,
            base,
            attr,
            (&raw mut request).cast(),
            size_of_val(&request),
            (&raw mut answer).cast(),
            size_of_val(&answer),
        )
    });
    attr.cap.max_send_wr = asked.max_send_wr;
    attr.cap.max_recv_wr = asked.max_recv_wr;
    created?;
    // SAFETY: the attributes name objects of ours, or NULL for no SRQ.
    let finished = unsafe { finish(&ours, base, attr, &answer.driver, has_drafts) };
    let (pair, draft) = finished.inspect_err(|_| {
        // SAFETY: the kernel's QP that was just made, known to nobody else. Its failure could
        // not be told: the other one is.
        let _ = unsafe { (ours.library.calls.ibv_cmd_destroy_qp)(base) };
    })?;
    // SAFETY: inside the allocation, whose other half is done; a PD of ours.
    unsafe {
        let qp = qp.as_mut_ptr();
        (&raw mut (*qp).pair).write(Held::new(pair));
        (&raw mut (*qp).cap).write(attr.cap);
        (&raw mut (*qp).draft).write(draft);
        (&raw mut (*qp)._domain).write(Domain::of(pd));
    }
    Ok(Box::into_raw(qp).cast())
}

/// Maps the rings and makes the ledgers; from now on completions find the QP.
///
/// # Safety
///
/// `base` is a QP that the kernel made. `attr` names CQs of ours, and an SRQ of ours or NULL.
unsafe fn finish<D: Driver>(
    context: &Arc<Context>,
    base: *mut ibv_qp,
    attr: &mut ibv_qp_init_attr,
    answer: &D::QpAnswer,
    has_drafts: bool,
) -> Result<(Arc<QueuePair<D>>, Draft)> {
    // SAFETY: the caller's promise.
    let (send_cq, recv_cq, srq) = unsafe {
        let cq = |cq| {
            Cq::<D>::of(cq)
                .map(|cq| cq.queue.arc())
                .ok_or(Errno::EINVAL)
        };
        (cq(attr.send_cq)?, cq(attr.recv_cq)?, Srq::<D>::of(attr.srq))
    };
    // SAFETY: the caller's promise.
    let (qp_handle, number) = unsafe { ((*base).handle, (*base).qp_num) };
    let cmd_fd = context.cmd_fd;
    let asked = attr.cap;
    let mut sends = D::map_sq(cmd_fd, answer, attr.qp_type, &mut attr.cap)?;
    let send_ledger = SendLedger::new(holds(sends.capacity(), asked.max_send_wr)?, D::CQE_ORDER)?;
    let draft = if has_drafts {
        Draft::new(sends.capacity(), &attr.cap)?
    } else {
        Draft::default()
    };
    let mut own = if srq.is_some() {
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
    if D::MARKS_AHEAD {
        sends.mark(Mark::first(Queue::Send, id));
        if let Some((ring, _)) = &mut own {
            ring.mark(Mark::first(Queue::Recv, id));
        }
    }
    let recv = match (srq, own) {
        (Some(srq), _) => Receiver::Shared(srq.queue.arc()),
        (None, Some((ring, ledger))) => {
            let cookies = CookieBase::new(Queue::Recv, id);
            Receiver::Own(OwnQueue::new(RecvQueue::new(ring, cookies), ledger))
        }
        (None, None) => Receiver::Nothing,
    };
    let send = SendQueue {
        ring: sends,
        ledger: send_ledger,
        cookies: CookieBase::new(Queue::Send, id),
        flags: if attr.sq_sig_all == 0 {
            0
        } else {
            IBV_SEND_SIGNALED
        },
        unproven: D::CONNECTS_UNSEEN,
        flushed: false,
        marks: 0,
        flushed_at: None,
    };
    let shared_from = srq.map_or(0, |srq| srq.queue.first_untaken());
    let pair = QueuePair::new(Parts {
        context: Arc::clone(context),
        id,
        number,
        base: Base(base),
        doorbell: Doorbell::new(cmd_fd, qp_handle),
        send,
        recv,
        send_cq,
        recv_cq,
        shared_from,
    });
    pair.send_cq.join(&pair);
    pair.recv_cq.join(&pair);
    if let Some(srq) = pair.srq() {
        srq.join(&pair);
    }
    context.enter(&pair);
    let at = NonNull::from(&*pair);
    let owner = Owner::qp(at, pair.send_cq.key(), pair.recv_cq.key());
    context.owners.publish(id, owner);
    Ok((pair, draft))
}

/// `ibv_destroy_qp`(3). No completion of the QP is seen any more.
///
/// # Safety
///
/// As the man page asks.
pub(crate) unsafe extern "C" fn destroy<D: Driver>(qp: *mut ibv_qp) -> c_int {
    status(|| {
        // SAFETY: a QP of ours.
        let pair = unsafe { Qp::<D>::of(qp) }.ok_or(Errno::EINVAL)?.pair.arc();
        let took = |cookie, qp_num| pair.took(cookie, qp_num);
        if D::REUSES_QP_NUMBERS && pair.srq().is_some() {
            // An SRQ's CQE tells its QP by the number alone. So it has to go while the number is
            // still this QP's, and none may follow: siw's move to ERROR flushes before it returns,
            // and destroy then flushes nothing more.
            let mut life = lock(&pair.life);
            if !life.dead {
                // Destruction will find out if the kernel refuses.
                let _ = pair.flush(&mut life, Cause::Modified);
            }
            drop(life);
            pair.recv_cq.lock().void_unread(took);
        }
        // libibverbs waits in there for events to be acknowledged, so without a lock.
        lock(&pair.life).gone = true;
        // SAFETY: as above.
        let destroyed =
            Errno::check(unsafe { (pair.context.library.calls.ibv_cmd_destroy_qp)(qp) });
        destroyed.inspect_err(|_| pair.stay())?;
        let is_own = |cookie| cookie::owner(cookie) == Some(pair.id);
        if let Some(srq) = pair.srq() {
            srq.leave(&pair);
        }
        pair.context.leave(pair.id);
        announcer::withdraw(&pair);
        pair.context.owners.release(pair.id);
        pair.send_cq.detach(&pair, |cookie, _| is_own(cookie));
        pair.recv_cq.detach(&pair, |cookie, qp_num| {
            is_own(cookie) || (!D::REUSES_QP_NUMBERS && took(cookie, qp_num))
        });
        let claimed = pair.withdraw_claim();
        if !D::FLUSHES_AT_ONCE && (claimed || !lock(&pair.life).dead) {
            pair.leave_orphan();
        }
        for cq in pair.cqs() {
            cq.wake_for_rest();
        }
        // SAFETY: `create` made it a box of `Qp`. The kernel has let go of it and the caller does;
        // whoever still has the pair finds it gone.
        drop(unsafe { Box::from_raw(qp.cast::<Qp<D>>()) });
        Ok(())
    })
}

impl<D: Driver> QueuePair<D> {
    /// The QP could not be destroyed, and lives on or is dead as before.
    fn stay(&self) {
        let mut life = lock(&self.life);
        life.gone = false;
        let missed = life.missed.take();
        drop(life);
        if let Some(cause) = missed {
            self.die(cause);
        }
    }

    /// Whether an unread CQE is for an SRQ's entry that this QP took; the entry is retired then.
    pub(crate) fn took(&self, cookie: u64, qp_num: u32) -> bool {
        let Some(srq) = self.srq() else {
            return false;
        };
        match Cookie::decode(cookie) {
            Some(c) if c.queue == Queue::Shared && c.owner == srq.id && qp_num == self.number => {
                srq.lock().ledger.complete(cookie);
                true
            }
            _ => false,
        }
    }
}
