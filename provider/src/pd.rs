// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause

//! `ibv_alloc_pd`, `ibv_alloc_parent_domain`, `ibv_dealloc_pd`.
//!
//! A parent domain is a PD and a thread domain by one name. It has the PD's handle, so that every
//! command says the same to the kernel, whichever of the two a verb is given.

use std::ffi::c_int;
use std::sync::Arc;

use kernel_abi::uverbs;
use rdma_core_sys::{
    IBV_PARENT_DOMAIN_INIT_ATTR_PD_CONTEXT, ibv_context, ibv_parent_domain_init_attr, ibv_pd,
};

use crate::boundary::{pointer, status};
use crate::context::Context;
use crate::errno::{Errno, Result};
use crate::object;
use crate::td::{Td, Thread};

/// A PD, or a parent domain: libibverbs' half, then ours.
#[repr(C)]
#[derive(Debug)]
struct Pd {
    base: ibv_pd,
    domain: Arc<Domain>,
}

/// What the objects hold that were made with a PD or a parent domain: it is in use while they do.
///
/// The kernel knows the users of a PD, but neither a parent domain nor who was made with one.
#[derive(Debug, Default)]
pub(crate) struct Domain {
    /// The domain that it is a parent of.
    parent_of: Option<Arc<Domain>>,
    thread: Option<Arc<Thread>>,
}

impl Domain {
    /// The domain of a PD or a parent domain.
    ///
    /// # Safety
    ///
    /// `pd` is of ours, and not yet deallocated.
    pub(crate) unsafe fn of(pd: *mut ibv_pd) -> Arc<Self> {
        // SAFETY: the caller's promise.
        Arc::clone(unsafe { &(*pd.cast::<Pd>()).domain })
    }

    /// That of an attribute, if it is not NULL and of this context.
    ///
    /// # Errors
    ///
    /// `EINVAL` else.
    ///
    /// # Safety
    ///
    /// `pd` is NULL or as for [`Domain::of`].
    pub(crate) unsafe fn named(pd: *mut ibv_pd, context: *mut ibv_context) -> Result<Arc<Self>> {
        // SAFETY: the caller's promise.
        if pd.is_null() || unsafe { (*pd).context } != context {
            return Err(Errno::EINVAL);
        }
        // SAFETY: not NULL, so one of ours.
        Ok(unsafe { Self::of(pd) })
    }

    /// Whether the application uses what is made with it in one thread at a time.
    pub(crate) fn is_single_threaded(&self) -> bool {
        self.thread.is_some()
    }
}

/// `ibv_alloc_pd`(3).
///
/// # Safety
///
/// As the man page asks.
pub(crate) unsafe extern "C" fn alloc(context: *mut ibv_context) -> *mut ibv_pd {
    pointer(|| {
        // SAFETY: a context of ours.
        let ours = unsafe { Context::of(context) };
        let mut pd = object::allocate::<Pd>()?;
        let mut request = uverbs::Request::<uverbs::AllocPd>::zeroed();
        let mut answer = uverbs::Response::<uverbs::AllocPdResp>::zeroed();
        // SAFETY: request and answer are as large as their sizes say; the PD is at its place.
        Errno::check(unsafe {
            (ours.library.calls.ibv_cmd_alloc_pd)(
                context,
                pd.as_mut_ptr().cast(),
                (&raw mut request).cast(),
                size_of_val(&request),
                (&raw mut answer).cast(),
                size_of_val(&answer),
            )
        })?;
        // SAFETY: inside the allocation, whose other half is done.
        unsafe { (&raw mut (*pd.as_mut_ptr()).domain).write(Arc::default()) };
        Ok(Box::into_raw(pd).cast())
    })
}

/// `ibv_alloc_parent_domain`(3).
///
/// # Errors
///
/// `EINVAL` without a PD, or with one of another context, or such a thread domain. `EOPNOTSUPP` for
/// attributes that are not known, and for allocators: they would place the queues, which are the
/// kernel's memory here. `pd_context` is theirs, and means nothing without them.
///
/// # Safety
///
/// As the man page asks.
pub(crate) unsafe extern "C" fn alloc_parent_domain(
    context: *mut ibv_context,
    attr: *mut ibv_parent_domain_init_attr,
) -> *mut ibv_pd {
    pointer(|| {
        // SAFETY: NULL or the caller's attributes.
        let attr = unsafe { attr.as_ref() }.ok_or(Errno::EINVAL)?;
        if attr.comp_mask & !IBV_PARENT_DOMAIN_INIT_ATTR_PD_CONTEXT != 0 {
            return Err(Errno::EOPNOTSUPP);
        }
        // SAFETY: each NULL or of ours.
        let domain = Arc::new(unsafe {
            Domain {
                parent_of: Some(Domain::named(attr.pd, context)?),
                thread: Td::named(attr.td, context)?,
            }
        });
        // SAFETY: not NULL, as it was named. libibverbs' half is plain data.
        let base = unsafe { *attr.pd };
        Ok(Box::into_raw(Box::new(Pd { base, domain })).cast())
    })
}

/// `ibv_dealloc_pd`(3).
///
/// # Errors
///
/// `EBUSY` while something that was made with it is there, and it stays as it is; else what the kernel says.
///
/// # Safety
///
/// As the man page asks.
pub(crate) unsafe extern "C" fn dealloc(pd: *mut ibv_pd) -> c_int {
    status(|| {
        // SAFETY: a PD of ours, and so its context.
        let (domain, ours) = unsafe {
            let domain = &(*pd.cast::<Pd>()).domain;
            (domain, Context::of((*pd).context))
        };
        // Whoever was the last to let go of it does nothing more with it.
        if Arc::strong_count(domain) > 1 {
            return Err(Errno::EBUSY);
        }
        if domain.parent_of.is_none() {
            // SAFETY: the kernel's PD.
            Errno::check(unsafe { (ours.library.calls.ibv_cmd_dealloc_pd)(pd) })?;
        }
        // SAFETY: it was made a box of `Pd`; the kernel has let go of it, and the caller does.
        drop(unsafe { Box::from_raw(pd.cast::<Pd>()) });
        Ok(())
    })
}
