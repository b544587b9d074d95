// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause

//! `ibv_create_cq_ex`: a CQ that can be polled in batches.
//!
//! It is an ordinary one with more functions: `ibv_poll_cq`, `ibv_resize_cq` and the rest go on to work
//! (`ibv_cq_ex_to_cq`), and it is destroyed like one.

use std::ffi::c_int;
use std::sync::Arc;

use rdma_core_sys::{
    IBV_CQ_INIT_ATTR_MASK_FLAGS, IBV_CQ_INIT_ATTR_MASK_PD, IBV_CREATE_CQ_ATTR_SINGLE_THREADED,
    ibv_context, ibv_cq, ibv_cq_ex, ibv_cq_init_attr_ex,
};

use crate::boundary::pointer;
use crate::cq::{self, Cq};
use crate::driver::Driver;
use crate::errno::{Errno, Result};
use crate::overrun::room;
use crate::pd::Domain;
use crate::read_wc::{READABLE, install};
use crate::start_poll::{end_poll, next_poll, start_poll};

/// `ibv_create_cq_ex`(3).
///
/// # Errors
///
/// `EINVAL` for a parent domain that is NULL or of another context; `EOPNOTSUPP` for fields, attributes or
/// flags that these drivers do not have, above all `IBV_CREATE_CQ_ATTR_IGNORE_OVERRUN`; else as
/// `ibv_create_cq`(3).
///
/// # Safety
///
/// As the man page asks.
pub(crate) unsafe extern "C" fn create<D: Driver>(
    context: *mut ibv_context,
    attr: *mut ibv_cq_init_attr_ex,
) -> *mut ibv_cq_ex {
    pointer(|| {
        // SAFETY: NULL or the caller's.
        let attr = unsafe { attr.as_ref() }.ok_or(Errno::EINVAL)?;
        let single_threaded = is_single_threaded(attr)?;
        // SAFETY: NULL or of ours.
        let domain = unsafe { domain(context, attr) }?;
        let is_in_thread = domain.as_ref().is_some_and(|it| it.is_single_threaded());
        let number = |value: u32| c_int::try_from(value).map_err(|_| Errno::EINVAL);
        let (cqe, vector) = (number(attr.cqe)?, number(attr.comp_vector)?);
        // Nothing of this is the kernel's business: it makes an ordinary one. It would refuse a CQ with
        // timestamps (linux 6.1, 6.12 `rxe_verbs.c: rxe_create_cq`, `siw_verbs.c: siw_create_cq`).
        // SAFETY: the caller's promise.
        let cq = unsafe {
            cq::create_with_room::<D>(context, cqe, room::<D>(cqe), attr.channel, vector)
        };
        if cq.is_null() {
            return Err(Errno::last());
        }
        // SAFETY: just created, known to nobody else.
        unsafe {
            extend::<D>(cq, attr.wc_flags, single_threaded || is_in_thread);
            (*cq.cast::<Cq<D>>()).domain = domain;
        }
        Ok(cq.cast())
    })
}

/// What the attributes say of threads, if they can be had.
fn is_single_threaded(attr: &ibv_cq_init_attr_ex) -> Result<bool> {
    const MASK: u32 = IBV_CQ_INIT_ATTR_MASK_FLAGS | IBV_CQ_INIT_ATTR_MASK_PD;
    let flags = if attr.comp_mask & IBV_CQ_INIT_ATTR_MASK_FLAGS == 0 {
        0
    } else {
        attr.flags
    };
    if attr.comp_mask & !MASK != 0
        || attr.wc_flags & !u64::from(READABLE) != 0
        || flags & !IBV_CREATE_CQ_ATTR_SINGLE_THREADED != 0
    {
        return Err(Errno::EOPNOTSUPP);
    }
    Ok(flags != 0)
}

/// The parent domain that the attributes name, if they do.
///
/// # Safety
///
/// The domain is NULL or of ours.
unsafe fn domain(
    context: *mut ibv_context,
    attr: &ibv_cq_init_attr_ex,
) -> Result<Option<Arc<Domain>>> {
    if attr.comp_mask & IBV_CQ_INIT_ATTR_MASK_PD == 0 {
        return Ok(None);
    }
    // SAFETY: the caller's promise.
    unsafe { Domain::named(attr.parent_domain, context) }.map(Some)
}

/// Makes an ordinary CQ an extended one.
///
/// # Safety
///
/// A new CQ of ours that nobody else knows.
pub(crate) unsafe fn extend<D: Driver>(cq: *mut ibv_cq, wc_flags: u64, single_threaded: bool) {
    let ours = cq.cast::<Cq<D>>();
    // SAFETY: a `Cq` that nobody else uses, which begins with libibverbs' half.
    let (batch, base) = unsafe { (&mut (*ours).batch, &mut *cq.cast::<ibv_cq_ex>()) };
    batch.begin_with(wc_flags, single_threaded);
    base.start_poll = Some(start_poll::<D>);
    base.next_poll = Some(if batch.is_timed() {
        next_poll::<D, true>
    } else {
        next_poll::<D, false>
    });
    base.end_poll = Some(end_poll::<D>);
    install::<D>(base, wc_flags);
}
