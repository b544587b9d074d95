// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause

//! `ibv_create_srq_ex`: an SRQ like any other, as neither driver has XRC or tag matching.

use rdma_core_sys::{
    IBV_SRQ_INIT_ATTR_PD, IBV_SRQ_INIT_ATTR_RESERVED, IBV_SRQ_INIT_ATTR_TYPE, IBV_SRQT_BASIC,
    ibv_context, ibv_srq, ibv_srq_init_attr, ibv_srq_init_attr_ex,
};

use crate::boundary::pointer;
use crate::driver::Driver;
use crate::errno::{Errno, Result};
use crate::pd::Domain;
use crate::srq;

/// `ibv_create_srq_ex`(3), for which libibverbs calls `create` if a PD and the basic type are all that is added.
///
/// What only other types look at is ignored, as by the kernel.
///
/// # Safety
///
/// As the man page asks.
pub(crate) unsafe extern "C" fn create<D: Driver>(
    context: *mut ibv_context,
    attr: *mut ibv_srq_init_attr_ex,
) -> *mut ibv_srq {
    pointer(|| {
        // SAFETY: the caller's attributes, which nobody else uses meanwhile. The extended ones begin with
        // the others (asserted below).
        let (srq, attr) = unsafe {
            inspect(context, &*attr)?;
            let srq = srq::make::<D>((*attr).pd, attr.cast())?;
            (srq, &*attr)
        };
        // `ibv_create_srq`(3) does this behind our back, this one's wrapper does not.
        // SAFETY: the SRQ is ours, and nobody else knows it.
        unsafe {
            (*srq).srq_context = attr.srq_context;
            (*srq).pd = attr.pd;
        }
        Ok(srq)
    })
}

/// Whether such an SRQ can be had.
///
/// # Errors
///
/// `EINVAL` without a PD of this context; `EOPNOTSUPP` for an attribute or a type that the drivers do not
/// have (linux 6.1, 6.12 `rxe_verbs.c: rxe_create_srq`, `siw_verbs.c: siw_create_srq`).
///
/// # Safety
///
/// The PD is NULL or of ours.
unsafe fn inspect(context: *mut ibv_context, attr: &ibv_srq_init_attr_ex) -> Result<()> {
    let has = |attribute| attr.comp_mask & attribute != 0;
    if attr.comp_mask >= IBV_SRQ_INIT_ATTR_RESERVED {
        return Err(Errno::EOPNOTSUPP);
    }
    if !has(IBV_SRQ_INIT_ATTR_PD) {
        return Err(Errno::EINVAL);
    }
    // SAFETY: the caller's promise.
    drop(unsafe { Domain::named(attr.pd, context) }?);
    if has(IBV_SRQ_INIT_ATTR_TYPE) && attr.srq_type != IBV_SRQT_BASIC {
        return Err(Errno::EOPNOTSUPP);
    }
    Ok(())
}

const _: () = {
    use std::mem::offset_of;
    assert!(
        offset_of!(ibv_srq_init_attr_ex, srq_context) == offset_of!(ibv_srq_init_attr, srq_context)
    );
    assert!(offset_of!(ibv_srq_init_attr_ex, attr) == offset_of!(ibv_srq_init_attr, attr));
};
