// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause

//! `ibv_create_qp_ex`: a QP that can also post by `ibv_wr_post`(3).

use rdma_core_sys::provider::{VERBS_QP_EX, verbs_qp};
use rdma_core_sys::{
    IBV_QP_INIT_ATTR_CREATE_FLAGS, IBV_QP_INIT_ATTR_PD, IBV_QP_INIT_ATTR_SEND_OPS_FLAGS,
    ibv_context, ibv_qp, ibv_qp_init_attr, ibv_qp_init_attr_ex,
};

use crate::boundary::pointer;
use crate::context::Context;
use crate::driver::Driver;
use crate::errno::{Errno, Result};
use crate::pd::Domain;
use crate::{qp, wr_post};

/// The attributes that are looked at: those that librxe has too (rdma-core v44.0, v64.0 `rxe.c:
/// check_qp_init_attr`).
const ATTRIBUTES: u32 =
    IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_CREATE_FLAGS | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;

/// `ibv_create_qp_ex`(3), for which libibverbs calls `create` if a PD is all that is added.
///
/// # Safety
///
/// As the man page asks.
pub(crate) unsafe extern "C" fn create<D: Driver>(
    context: *mut ibv_context,
    attr: *mut ibv_qp_init_attr_ex,
) -> *mut ibv_qp {
    pointer(|| {
        // SAFETY: the caller's attributes, which nobody else uses meanwhile.
        let send_ops = unsafe { send_ops::<D>(context, &*attr) }?;
        // SAFETY: as above. The extended attributes begin with the others (asserted below), and the PD
        // is the caller's.
        let qp = unsafe { qp::make::<D>((*attr).pd, &mut *attr.cast(), send_ops.is_some()) }?;
        if let Some(ops) = send_ops {
            // SAFETY: the QP is ours, and nobody else knows it; its context is the caller's.
            unsafe {
                let library = Context::of(context).library;
                wr_post::install::<D>(qp.cast(), library, ops);
                verbs_qp::set_comp_mask(qp.cast(), library, VERBS_QP_EX);
            }
        }
        Ok(qp)
    })
}

/// What the QP is to post by `ibv_wr_post`(3), `IBV_QP_EX_WITH_*`, if it is to.
///
/// # Errors
///
/// `EINVAL` without a PD of this context; `EOPNOTSUPP` for an attribute, a flag, a type or an operation
/// that the driver does not have.
///
/// # Safety
///
/// An open context of the driver's, and a PD of ours or NULL.
unsafe fn send_ops<D: Driver>(
    context: *mut ibv_context,
    attr: &ibv_qp_init_attr_ex,
) -> Result<Option<u64>> {
    let has = |attribute| attr.comp_mask & attribute != 0;
    if attr.comp_mask & !ATTRIBUTES != 0
        || (has(IBV_QP_INIT_ATTR_CREATE_FLAGS) && attr.create_flags != 0)
    {
        return Err(Errno::EOPNOTSUPP);
    }
    if !has(IBV_QP_INIT_ATTR_PD) {
        return Err(Errno::EINVAL);
    }
    // SAFETY: NULL or the caller's PD.
    drop(unsafe { Domain::named(attr.pd, context) }?);
    if !has(IBV_QP_INIT_ATTR_SEND_OPS_FLAGS) {
        return Ok(None);
    }
    // SAFETY: the caller's context.
    if unsafe { D::has_send_ops(context, attr.qp_type, attr.send_ops_flags) } {
        Ok(Some(attr.send_ops_flags))
    } else {
        Err(Errno::EOPNOTSUPP)
    }
}

const _: () = {
    use std::mem::offset_of;
    assert!(offset_of!(ibv_qp_init_attr_ex, cap) == offset_of!(ibv_qp_init_attr, cap));
    assert!(offset_of!(ibv_qp_init_attr_ex, qp_type) == offset_of!(ibv_qp_init_attr, qp_type));
    assert!(
        offset_of!(ibv_qp_init_attr_ex, sq_sig_all) == offset_of!(ibv_qp_init_attr, sq_sig_all)
    );
};
