// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
//! Twins of the functions of `infiniband/verbs.h` that dispatch through `verbs_context`.
//!
//! As with [`inline`](crate::inline), no symbol stands for them. A context of libibverbs is the last
//! member of a `verbs_context`, which has these operations at places that no release moves.

use std::ffi::c_int;
use std::ptr::{null, null_mut};

use crate::ops::Op;
use crate::places::{BEFORE, CREATE_CQ_EX, SIZE};
use crate::public::{
    IBV_QP_INIT_ATTR_PD, IBV_SRQ_INIT_ATTR_PD, IBV_SRQ_INIT_ATTR_TYPE, IBV_SRQT_BASIC, ibv_context,
    ibv_cq_ex, ibv_cq_init_attr_ex, ibv_create_qp, ibv_create_srq, ibv_device_attr_ex,
    ibv_parent_domain_init_attr, ibv_pd, ibv_qp, ibv_qp_init_attr_ex, ibv_query_device_ex_input,
    ibv_sge, ibv_srq, ibv_srq_init_attr_ex, ibv_td, ibv_td_init_attr, ibv_values_ex,
};

/// `ibv_context.abi_compat` of a context that is part of a `verbs_context`.
const IS_EXTENDED: usize = usize::MAX;

/// The operation that stands `back` words before an open context, if its `verbs_context` reaches so far.
///
/// # Safety
///
/// * `context` is open, and `F` the type of a pointer to what stands there.
unsafe fn at<F>(context: *mut ibv_context, back: usize) -> Option<F> {
    const { assert!(size_of::<Option<F>>() == size_of::<usize>()) };
    // SAFETY: the caller's context.
    if unsafe { (*context).abi_compat }.addr() != IS_EXTENDED {
        return None;
    }
    let words = context.cast::<usize>();
    // SAFETY: an extended context has its size in front.
    let size = unsafe { words.sub(SIZE).read() };
    let needed = back
        .saturating_mul(size_of::<usize>())
        .saturating_add(size_of::<ibv_context>());
    if needed > size {
        return None;
    }
    // SAFETY: inside the `verbs_context`, where NULL or a pointer of this type stands.
    unsafe { words.sub(back).cast::<Option<F>>().read() }
}

/// An operation of an open context, if it has it.
///
/// # Safety
///
/// * As [`at`].
unsafe fn operation<F>(context: *mut ibv_context, op: Op) -> Option<F> {
    let (_, back) = BEFORE.iter().find(|(shown, _)| *shown == op)?;
    // SAFETY: the caller's promise.
    unsafe { at(context, *back) }
}

/// What a function returns that has no operation to call, and makes an object.
fn none<T>() -> *mut T {
    // SAFETY: the calling thread's own errno.
    unsafe { *libc::__errno_location() = libc::EOPNOTSUPP };
    null_mut()
}

/// Creates an extended completion queue (`ibv_create_cq_ex`(3)); null with `errno` set on failure.
///
/// # Safety
///
/// * `context` is open, `attributes` are valid.
pub unsafe fn create_cq_ex(
    context: *mut ibv_context,
    attributes: *mut ibv_cq_init_attr_ex,
) -> *mut ibv_cq_ex {
    type Create =
        unsafe extern "C" fn(*mut ibv_context, *mut ibv_cq_init_attr_ex) -> *mut ibv_cq_ex;
    // SAFETY: what stands there has this type, and the caller's arguments.
    unsafe { at::<Create>(context, CREATE_CQ_EX).map_or_else(none, |op| op(context, attributes)) }
}

/// Makes a queue pair from extended attributes (`ibv_create_qp_ex`(3)); null with `errno` set on failure.
///
/// # Safety
///
/// * `context` is open, `attributes` are filled in as far as their mask says.
pub unsafe fn create_qp_ex(
    context: *mut ibv_context,
    attributes: *mut ibv_qp_init_attr_ex,
) -> *mut ibv_qp {
    type Create = unsafe extern "C" fn(*mut ibv_context, *mut ibv_qp_init_attr_ex) -> *mut ibv_qp;
    // SAFETY: what stands there has this type, and the caller's arguments. The extended attributes begin
    // with the others.
    unsafe {
        if (*attributes).comp_mask == IBV_QP_INIT_ATTR_PD {
            return ibv_create_qp((*attributes).pd, attributes.cast());
        }
        operation::<Create>(context, Op::create_qp_ex)
            .map_or_else(none, |op| op(context, attributes))
    }
}

/// Makes a shared receive queue from extended attributes (`ibv_create_srq_ex`(3)); null with `errno` set on
/// failure.
///
/// # Safety
///
/// * `context` is open, `attributes` are filled in as far as their mask says.
pub unsafe fn create_srq_ex(
    context: *mut ibv_context,
    attributes: *mut ibv_srq_init_attr_ex,
) -> *mut ibv_srq {
    type Create = unsafe extern "C" fn(*mut ibv_context, *mut ibv_srq_init_attr_ex) -> *mut ibv_srq;
    // SAFETY: what stands there has this type, and the caller's arguments. The extended attributes begin
    // with the others.
    unsafe {
        let (mask, kind) = ((*attributes).comp_mask, (*attributes).srq_type);
        if mask & !IBV_SRQ_INIT_ATTR_TYPE == IBV_SRQ_INIT_ATTR_PD
            && (mask & IBV_SRQ_INIT_ATTR_TYPE == 0 || kind == IBV_SRQT_BASIC)
        {
            return ibv_create_srq((*attributes).pd, attributes.cast());
        }
        operation::<Create>(context, Op::create_srq_ex)
            .map_or_else(none, |op| op(context, attributes))
    }
}

/// Allocates a thread domain (`ibv_alloc_td`(3)); null with `errno` set on failure.
///
/// # Safety
///
/// * `context` is open, `attributes` are valid.
pub unsafe fn alloc_td(
    context: *mut ibv_context,
    attributes: *mut ibv_td_init_attr,
) -> *mut ibv_td {
    type Alloc = unsafe extern "C" fn(*mut ibv_context, *mut ibv_td_init_attr) -> *mut ibv_td;
    // SAFETY: what stands there has this type, and the caller's arguments.
    unsafe {
        operation::<Alloc>(context, Op::alloc_td).map_or_else(none, |op| op(context, attributes))
    }
}

/// Deallocates a thread domain (`ibv_dealloc_td`(3)).
///
/// # Safety
///
/// * `td` is a thread domain that nobody uses afterwards.
pub unsafe fn dealloc_td(td: *mut ibv_td) -> c_int {
    type Dealloc = unsafe extern "C" fn(*mut ibv_td) -> c_int;
    // SAFETY: what stands there has this type, and the caller's argument, whose context is open.
    unsafe {
        operation::<Dealloc>((*td).context, Op::dealloc_td).map_or(libc::EOPNOTSUPP, |op| op(td))
    }
}

/// Allocates a parent domain (`ibv_alloc_parent_domain`(3)); null with `errno` set on failure.
///
/// # Safety
///
/// * `context` is open, `attributes` are filled in as far as their mask says.
pub unsafe fn alloc_parent_domain(
    context: *mut ibv_context,
    attributes: *mut ibv_parent_domain_init_attr,
) -> *mut ibv_pd {
    type Alloc =
        unsafe extern "C" fn(*mut ibv_context, *mut ibv_parent_domain_init_attr) -> *mut ibv_pd;
    // SAFETY: what stands there has this type, and the caller's arguments.
    unsafe {
        operation::<Alloc>(context, Op::alloc_parent_domain)
            .map_or_else(none, |op| op(context, attributes))
    }
}

/// Gives the kernel advice about memory (`ibv_advise_mr`(3)).
///
/// # Safety
///
/// * `pd` is live, `list` has that many `entries`.
pub unsafe fn advise_mr(
    pd: *mut ibv_pd,
    advice: u32,
    flags: u32,
    list: *mut ibv_sge,
    entries: u32,
) -> c_int {
    type Advise = unsafe extern "C" fn(*mut ibv_pd, u32, u32, *mut ibv_sge, u32) -> c_int;
    // SAFETY: what stands there has this type, and the caller's arguments.
    unsafe {
        operation::<Advise>((*pd).context, Op::advise_mr)
            .map_or(libc::EOPNOTSUPP, |op| op(pd, advice, flags, list, entries))
    }
}

/// Asks for a device's attributes (`ibv_query_device_ex`(3)).
///
/// # Safety
///
/// * `context` is open.
pub unsafe fn query_device_ex(
    context: *mut ibv_context,
    attributes: &mut ibv_device_attr_ex,
) -> c_int {
    type Query = unsafe extern "C" fn(
        *mut ibv_context,
        *const ibv_query_device_ex_input,
        *mut ibv_device_attr_ex,
        usize,
    ) -> c_int;
    let size = size_of_val(attributes);
    // SAFETY: what stands there has this type; the attributes have that size.
    unsafe {
        operation::<Query>(context, Op::query_device_ex)
            .map_or(libc::EOPNOTSUPP, |op| op(context, null(), attributes, size))
    }
}

/// Asks for what changes while a device runs (`ibv_query_rt_values_ex`(3)).
///
/// # Safety
///
/// * `context` is open.
pub unsafe fn query_rt_values_ex(context: *mut ibv_context, values: &mut ibv_values_ex) -> c_int {
    type Query = unsafe extern "C" fn(*mut ibv_context, *mut ibv_values_ex) -> c_int;
    // SAFETY: what stands there has this type.
    unsafe {
        operation::<Query>(context, Op::query_rt_values)
            .map_or(libc::EOPNOTSUPP, |op| op(context, values))
    }
}
