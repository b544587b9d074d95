// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause

//! `ibv_create_srq`, `ibv_modify_srq`, `ibv_query_srq`, `ibv_destroy_srq`.

use std::cell::UnsafeCell;
use std::ffi::c_int;
use std::fmt;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};

use kernel_abi::uverbs;
use rdma_core_sys::provider::verbs_srq;
use rdma_core_sys::{
    IBV_SRQ_LIMIT, IBV_SRQ_MAX_WR, ibv_pd, ibv_srq, ibv_srq_attr, ibv_srq_init_attr,
};

use crate::boundary::{pointer, status};
use crate::claim::Claims;
use crate::context::Context;
use crate::cookie::{CookieBase, OwnerId, Queue};
use crate::death::Cause;
use crate::driver::{Driver, RecvRing, SrqResize, holds};
use crate::errno::{Errno, Result};
use crate::held::Held;
use crate::ledger::SharedLedger;
use crate::lock::{Mutex, MutexGuard, lock};
use crate::object;
use crate::owners::Owner;
use crate::pd::Domain;
use crate::post_recv::RecvQueue;
use crate::queue_pair::QueuePair;

/// An SRQ: libibverbs' half, then ours.
#[repr(C)]
pub(crate) struct Srq<D: Driver> {
    base: UnsafeCell<verbs_srq>,
    pub(crate) queue: Held<SharedQueue<D>>,
    _domain: Arc<Domain>,
}

/// The receives of an SRQ. Under its lock.
#[derive(Debug)]
pub(crate) struct SharedRecvs<R> {
    pub(crate) queue: RecvQueue<R>,
    pub(crate) ledger: SharedLedger,
}

/// What an SRQ's QPs share with it. They hold it too, so that it outlives them.
// The lock of the receives is in front, as that of a CQ.
#[derive(Debug)]
#[repr(C)]
pub(crate) struct SharedQueue<D: Driver> {
    recv: Mutex<SharedRecvs<D::Recvs>>,
    context: Arc<Context>,
    pub(crate) id: OwnerId,
    /// Elements that each receive has room for, as the creation answered.
    max_sge: u32,
    users: Mutex<Vec<Weak<QueuePair<D>>>>,
    /// The application was told that the limit was reached, which is then 0.
    pub(crate) limit_reached: AtomicBool,
    /// QPs of which it is not clear whether they died holding a receive.
    pub(crate) claims: Mutex<Claims<D>>,
    /// There are any.
    pub(crate) claimed: AtomicBool,
}

impl<D: Driver> fmt::Debug for Srq<D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Srq")
            .field("queue", &self.queue)
            .finish_non_exhaustive()
    }
}

impl<D: Driver> Srq<D> {
    /// The SRQ behind libibverbs' one.
    ///
    /// # Safety
    ///
    /// `srq` is NULL or an SRQ that [`create`] made for this driver, not yet destroyed.
    pub(crate) unsafe fn of<'a>(srq: *mut ibv_srq) -> Option<&'a Self> {
        // SAFETY: NULL or begins an `Srq`. libibverbs' half is behind an `UnsafeCell`.
        unsafe { srq.cast::<Self>().as_ref() }
    }

    /// As [`of`](Self::of), of one that is there.
    ///
    /// # Safety
    ///
    /// `srq` is an SRQ that [`create`] made for this driver, not yet destroyed.
    #[inline(always)]
    pub(crate) unsafe fn at<'a>(srq: *mut ibv_srq) -> &'a Self {
        // SAFETY: begins an `Srq`. libibverbs' half is behind an `UnsafeCell`.
        unsafe { &*srq.cast::<Self>() }
    }
}

impl<D: Driver> SharedQueue<D> {
    pub(crate) fn lock(&self) -> MutexGuard<'_, SharedRecvs<D::Recvs>> {
        lock(&self.recv)
    }

    /// The lock, if nobody has it.
    #[inline(always)]
    pub(crate) fn try_lock(&self) -> Option<MutexGuard<'_, SharedRecvs<D::Recvs>>> {
        self.recv.try_lock()
    }

    /// Whether it is of interest who completes which receive.
    #[inline(always)]
    pub(crate) fn is_claimed(&self) -> bool {
        // Relaxed: see `note_claimed`.
        self.claimed.load(Ordering::Relaxed)
    }

    /// Notes a QP that takes its receives from here.
    pub(crate) fn join(&self, pair: &Arc<QueuePair<D>>) {
        lock(&self.users).push(Arc::downgrade(pair));
    }

    /// Forgets a QP.
    pub(crate) fn leave(&self, pair: &QueuePair<D>) {
        lock(&self.users).retain(|user| !std::ptr::eq(user.as_ptr(), pair));
    }

    /// The SRQ has failed, and with it the QPs that use it. No lock is held.
    pub(crate) fn fail(&self, cause: Cause) {
        for pair in self.users() {
            pair.die(cause);
        }
    }

    /// The QPs that take their receives from here.
    pub(crate) fn users(&self) -> Vec<Arc<QueuePair<D>>> {
        lock(&self.users).iter().filter_map(Weak::upgrade).collect()
    }

    /// The sequence number of the first receive that the kernel has not taken.
    pub(crate) fn first_untaken(&self) -> u32 {
        let recv = self.lock();
        recv.ledger.first_untaken(recv.queue.ring.untaken())
    }
}

impl<D: Driver> Drop for SharedQueue<D> {
    /// The last holder may be a QP that is destroyed later: until then its CQEs find the ledger.
    fn drop(&mut self) {
        self.context.owners.release(self.id);
    }
}

/// `ibv_create_srq`(3).
///
/// # Safety
///
/// As the man page asks.
pub(crate) unsafe extern "C" fn create<D: Driver>(
    pd: *mut ibv_pd,
    attr: *mut ibv_srq_init_attr,
) -> *mut ibv_srq {
    // SAFETY: the caller's PD and attributes, which nobody else uses meanwhile.
    pointer(|| unsafe { make::<D>(pd, attr) })
}

/// Makes an SRQ.
///
/// # Errors
///
/// What the kernel says; `ENOMEM`, `EIO`.
///
/// # Safety
///
/// A PD of this driver's, and attributes that nobody else uses meanwhile.
pub(crate) unsafe fn make<D: Driver>(
    pd: *mut ibv_pd,
    attr: *mut ibv_srq_init_attr,
) -> Result<*mut ibv_srq> {
    // SAFETY: a PD of ours, and so its context.
    let ours = unsafe { Context::of((*pd).context) };
    let mut srq = object::allocate::<Srq<D>>()?;
    let base = srq.as_mut_ptr().cast::<ibv_srq>();
    let mut request = uverbs::Request::<uverbs::CreateSrq>::zeroed();
    let mut answer = uverbs::Response::<uverbs::CreateSrqResp, D::SrqAnswer>::zeroed();
    // SAFETY: request and answer are as large as their sizes say; the SRQ is at its place.
    Errno::check(unsafe {
        (ours.library.calls.ibv_cmd_create_srq)(
            pd,
            base,
            attr,
            (&raw mut request).cast(),
            size_of_val(&request),
            (&raw mut answer).cast(),
            size_of_val(&answer),
        )
    })?;
    let destroy = ours.library.calls.ibv_cmd_destroy_srq;
    // SAFETY: the caller's attributes, which the command has read and updated.
    let attr = unsafe { &mut (*attr).attr };
    let queue = SharedQueue::<D>::map(ours, &answer.driver, attr).inspect_err(|_| {
        // SAFETY: the kernel's SRQ that was just made, known to nobody else. Its failure
        // could not be told: the mapping's is.
        let _ = unsafe { destroy(base) };
    })?;
    // SAFETY: inside the allocation; a PD of ours.
    unsafe {
        (&raw mut (*srq.as_mut_ptr()).queue).write(Held::new(queue));
        (&raw mut (*srq.as_mut_ptr())._domain).write(Domain::of(pd));
    }
    Ok(Box::into_raw(srq).cast())
}

impl<D: Driver> SharedQueue<D> {
    fn map(
        context: Arc<Context>,
        answer: &D::SrqAnswer,
        attr: &mut ibv_srq_attr,
    ) -> Result<Arc<Self>> {
        let asked = attr.max_wr;
        let ring = D::map_srq(context.cmd_fd, answer, attr)?;
        let ledger = SharedLedger::new(holds(ring.capacity(), asked)?)?;
        let id = context.owners.reserve()?;
        let cookies = CookieBase::new(Queue::Shared, id);
        let queue = RecvQueue::new(ring, cookies);
        let recv = Mutex::new(SharedRecvs { queue, ledger });
        let users = Mutex::default();
        let queue = Arc::new(Self {
            context,
            id,
            recv,
            max_sge: attr.max_sge,
            users,
            limit_reached: AtomicBool::new(false),
            claims: Mutex::default(),
            claimed: AtomicBool::new(false),
        });
        queue
            .context
            .owners
            .publish(id, Owner::srq(NonNull::from(&*queue)));
        Ok(queue)
    }
}

/// `ibv_modify_srq`(3). The ring is replaced by a larger or smaller one where the driver can.
///
/// # Safety
///
/// As the man page asks.
pub(crate) unsafe extern "C" fn modify<D: Driver>(
    srq: *mut ibv_srq,
    attr: *mut ibv_srq_attr,
    mask: c_int,
) -> c_int {
    status(|| {
        // SAFETY: an SRQ of ours.
        let queue = &unsafe { Srq::<D>::of(srq) }.ok_or(Errno::EINVAL)?.queue;
        let modify = queue.context.library.calls.ibv_cmd_modify_srq;
        // Nobody may post between the kernel's copy of the ring and our mapping of it.
        let mut recv = queue.lock();
        let mut resized = D::Resize::default();
        let mut request = uverbs::Request::new(uverbs::ModifySrq::default(), resized.request());
        // SAFETY: the caller's attributes; the request is as large as its size says, and may name
        // `resized`, which outlives the call.
        Errno::check(unsafe {
            modify(
                srq,
                attr,
                mask,
                (&raw mut request).cast(),
                size_of_val(&request),
            )
        })?;
        let has = |flag| c_int::try_from(flag).is_ok_and(|flag| mask & flag != 0);
        if has(IBV_SRQ_LIMIT) {
            // Relaxed: an event that comes meanwhile is of the old limit or the new one.
            queue.limit_reached.store(false, Ordering::Relaxed);
        }
        if has(IBV_SRQ_MAX_WR) {
            let cmd_fd = queue.context.cmd_fd;
            let SharedRecvs { queue, ledger } = &mut *recv;
            let ring = &mut queue.ring;
            // SAFETY: the caller's attributes.
            let asked = unsafe { (*attr).max_wr };
            let replaced = resized
                .replace(cmd_fd, ring)
                .and_then(|()| holds(ring.capacity(), asked))
                .and_then(|capacity| ledger.resize(capacity));
            // The kernel has left the old ring: what would be posted there is lost.
            replaced.inspect_err(|_| ledger.close())?;
        }
        Ok(())
    })
}

/// `ibv_query_srq`(3).
///
/// # Safety
///
/// As the man page asks.
pub(crate) unsafe extern "C" fn query<D: Driver>(
    srq: *mut ibv_srq,
    attr: *mut ibv_srq_attr,
) -> c_int {
    status(|| {
        // SAFETY: an SRQ of ours.
        let queue = &unsafe { Srq::<D>::of(srq) }.ok_or(Errno::EINVAL)?.queue;
        let mut request = uverbs::Request::<uverbs::QuerySrq>::zeroed();
        // SAFETY: the caller's attributes; the request is as large as its size says.
        Errno::check(unsafe {
            (queue.context.library.calls.ibv_cmd_query_srq)(
                srq,
                attr,
                (&raw mut request).cast(),
                size_of_val(&request),
            )
        })?;
        // SAFETY: the caller's attributes.
        let attr = unsafe { &mut *attr };
        // siw's kernel knows what was asked for.
        attr.max_wr = queue.lock().queue.ring.capacity();
        attr.max_sge = queue.max_sge;
        // siw's kernel goes on to answer with it (linux 6.1, 6.12 `siw_verbs.c: siw_query_srq`).
        // Relaxed: as in `modify`.
        if queue.limit_reached.load(Ordering::Relaxed) {
            attr.srq_limit = 0;
        }
        Ok(())
    })
}

/// `ibv_destroy_srq`(3): `EBUSY` while a QP uses it, and the SRQ stays as it is.
///
/// # Safety
///
/// As the man page asks.
pub(crate) unsafe extern "C" fn destroy<D: Driver>(srq: *mut ibv_srq) -> c_int {
    status(|| {
        // SAFETY: an SRQ of ours.
        let ours = unsafe { Srq::<D>::of(srq) }.ok_or(Errno::EINVAL)?;
        // SAFETY: as above.
        Errno::check(unsafe { (ours.queue.context.library.calls.ibv_cmd_destroy_srq)(srq) })?;
        // SAFETY: `create` made it a box of `Srq`; the kernel has let go of it, and the caller does.
        drop(unsafe { Box::from_raw(srq.cast::<Srq<D>>()) });
        Ok(())
    })
}
