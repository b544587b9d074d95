// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause

//! `ibv_create_cq`, `ibv_req_notify_cq`, `ibv_destroy_cq`.

use std::cell::UnsafeCell;
use std::ffi::c_int;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard};

use kernel_abi::uverbs;
use rdma_core_sys::provider::verbs_cq;
use rdma_core_sys::{ibv_comp_channel, ibv_context, ibv_cq};

use crate::boundary::{pointer, status};
use crate::context::Context;
use crate::cookie::OwnerId;
use crate::driver::{CompletionRing, Driver, holds};
use crate::errno::{Errno, Result};
use crate::lock::lock;
use crate::object;

/// A CQ: libibverbs' half, then ours.
#[repr(C)]
pub(crate) struct Cq<D: Driver> {
    base: UnsafeCell<verbs_cq>,
    pub(crate) queue: Arc<CompletionQueue<D>>,
}

/// What a CQ's QPs share with it. They hold it too, so that it outlives them.
#[derive(Debug)]
pub(crate) struct CompletionQueue<D: Driver> {
    pub(crate) context: Arc<Context>,
    state: Mutex<Completions<D>>,
}

/// Under the lock of the CQ.
#[derive(Debug)]
pub(crate) struct Completions<D: Driver> {
    pub(crate) ring: D::Completions,
    /// QPs that have sends due whose CQEs came earlier. Room for every attached QP.
    pub(crate) held: Vec<OwnerId>,
    attached: usize,
}

impl<D: Driver> fmt::Debug for Cq<D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Cq")
            .field("queue", &self.queue)
            .finish_non_exhaustive()
    }
}

impl<D: Driver> Cq<D> {
    /// The CQ behind libibverbs' one.
    ///
    /// # Safety
    ///
    /// `cq` is NULL or a CQ that [`create`] made for this driver, not yet destroyed.
    pub(crate) unsafe fn of<'a>(cq: *mut ibv_cq) -> Option<&'a Self> {
        // SAFETY: NULL or begins a `Cq`. libibverbs' half is behind an `UnsafeCell`.
        unsafe { cq.cast::<Self>().as_ref() }
    }

    pub(crate) fn base(&self) -> *mut ibv_cq {
        self.base.get().cast()
    }
}

impl<D: Driver> CompletionQueue<D> {
    pub(crate) fn lock(&self) -> MutexGuard<'_, Completions<D>> {
        lock(&self.state)
    }

    /// What tells this CQ from every other of the context.
    pub(crate) fn key(&self) -> usize {
        std::ptr::from_ref(self).addr()
    }

    /// Makes room for the completions of one more QP.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(crate) fn attach(&self) -> Result<()> {
        let mut state = self.lock();
        let attached = state.attached.saturating_add(1);
        let missing = attached.saturating_sub(state.held.len());
        state.held.try_reserve(missing)?;
        state.attached = attached;
        Ok(())
    }

    /// Undoes [`attach`](Self::attach) for a QP that came to nothing.
    pub(crate) fn give_up_attach(&self) {
        let mut state = self.lock();
        state.attached = state.attached.saturating_sub(1);
    }

    /// Forgets a QP and every unread CQE for which `is_its` holds.
    pub(crate) fn detach(&self, id: OwnerId, is_its: impl FnMut(u64, u32) -> bool) {
        let mut state = self.lock();
        state.attached = state.attached.saturating_sub(1);
        state.held.retain(|held| *held != id);
        state.void_unread(is_its);
    }
}

impl<D: Driver> Completions<D> {
    /// Voids the unread CQEs whose cookie and QP number `is_its` recognises: they never surface.
    pub(crate) fn void_unread(&mut self, mut is_its: impl FnMut(u64, u32) -> bool) {
        for ahead in 0..self.ring.capacity() {
            let Some(cqe) = self.ring.peek(ahead) else {
                return;
            };
            if is_its(cqe.cookie, cqe.qp_num) {
                self.ring.void(ahead);
            }
        }
    }
}

/// `ibv_create_cq`(3).
///
/// # Safety
///
/// As the man page asks.
pub(crate) unsafe extern "C" fn create<D: Driver>(
    context: *mut ibv_context,
    cqe: c_int,
    channel: *mut ibv_comp_channel,
    comp_vector: c_int,
) -> *mut ibv_cq {
    pointer(|| {
        // SAFETY: a context of ours.
        let ours = unsafe { Context::of(context) };
        let mut cq = object::allocate::<Cq<D>>()?;
        let base = cq.as_mut_ptr().cast::<ibv_cq>();
        let mut request = uverbs::Request::<uverbs::CreateCq>::zeroed();
        let mut answer = uverbs::Response::<uverbs::CreateCqResp, D::CqAnswer>::zeroed();
        // SAFETY: request and answer are as large as their sizes say; the CQ is at its place.
        Errno::check(unsafe {
            (ours.library.calls.ibv_cmd_create_cq)(
                context,
                cqe,
                channel,
                comp_vector,
                base,
                (&raw mut request).cast(),
                size_of_val(&request),
                (&raw mut answer).cast(),
                size_of_val(&answer),
            )
        })?;
        let asked = u32::try_from(cqe).map_err(|_| Errno::EIO);
        let mapped = D::map_cq(ours.cmd_fd, &answer.driver)
            .and_then(|ring| holds(ring.capacity(), asked?).map(|_| ring));
        let ring = mapped.inspect_err(|_| {
            // SAFETY: the kernel's CQ that was just made, known to nobody else. Its failure
            // could not be told: the mapping's is.
            let _ = unsafe { (ours.library.calls.ibv_cmd_destroy_cq)(base) };
        })?;
        let queue = Arc::new(CompletionQueue {
            context: ours,
            state: Mutex::new(Completions {
                ring,
                held: Vec::new(),
                attached: 0,
            }),
        });
        // SAFETY: inside the allocation.
        unsafe { (&raw mut (*cq.as_mut_ptr()).queue).write(queue) };
        Ok(Box::into_raw(cq).cast())
    })
}

/// `ibv_req_notify_cq`(3).
///
/// # Safety
///
/// As the man page asks.
pub(crate) unsafe extern "C" fn req_notify<D: Driver>(
    cq: *mut ibv_cq,
    solicited_only: c_int,
) -> c_int {
    status(|| {
        // SAFETY: a CQ of ours.
        let cq = unsafe { Cq::<D>::of(cq) }.ok_or(Errno::EINVAL)?;
        D::arm(cq, solicited_only != 0)
    })
}

/// `ibv_destroy_cq`(3): `EBUSY` while a QP uses it, and the CQ stays as it is.
///
/// # Safety
///
/// As the man page asks.
pub(crate) unsafe extern "C" fn destroy<D: Driver>(cq: *mut ibv_cq) -> c_int {
    status(|| {
        // SAFETY: a CQ of ours.
        let ours = unsafe { Cq::<D>::of(cq) }.ok_or(Errno::EINVAL)?;
        // SAFETY: as above.
        Errno::check(unsafe { (ours.queue.context.library.calls.ibv_cmd_destroy_cq)(cq) })?;
        // SAFETY: `create` made it a box of `Cq`; the kernel has let go of it, and the caller does.
        drop(unsafe { Box::from_raw(cq.cast::<Cq<D>>()) });
        Ok(())
    })
}
