// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
//! Twins of the functions of `infiniband/verbs.h` that dispatch through `verbs_context`.
//!
//! As with [`inline`](crate::inline), no symbol stands for them. A context of libibverbs is the last
//! member of a `verbs_context`, which has these operations at places that no release moves.

use std::ffi::c_int;
use std::mem::transmute;

use crate::places::{CREATE_CQ_EX, QUERY_DEVICE_EX, QUERY_RT_VALUES, SIZE};
use crate::public::{
    ibv_context, ibv_cq_ex, ibv_cq_init_attr_ex, ibv_device_attr_ex, ibv_query_device_ex_input,
    ibv_values_ex,
};

type CreateCqEx =
    unsafe extern "C" fn(*mut ibv_context, *mut ibv_cq_init_attr_ex) -> *mut ibv_cq_ex;
type QueryDeviceEx = unsafe extern "C" fn(
    *mut ibv_context,
    *const ibv_query_device_ex_input,
    *mut ibv_device_attr_ex,
    usize,
) -> c_int;
type QueryRtValues = unsafe extern "C" fn(*mut ibv_context, *mut ibv_values_ex) -> c_int;

/// `ibv_context.abi_compat` of a context that is part of a `verbs_context`.
const IS_EXTENDED: usize = usize::MAX;

/// The word that is `back` words before an open context, if its `verbs_context` reaches so far.
///
/// # Safety
///
/// * `context` is open.
unsafe fn word(context: *mut ibv_context, back: usize) -> Option<usize> {
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
    // SAFETY: inside the `verbs_context`.
    (needed <= size)
        .then(|| unsafe { words.sub(back).read() })
        .filter(|word| *word != 0)
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
    // SAFETY: the caller's context.
    let Some(op) = (unsafe { word(context, CREATE_CQ_EX) }) else {
        // SAFETY: the calling thread's own errno.
        unsafe { *libc::__errno_location() = libc::EOPNOTSUPP };
        return std::ptr::null_mut();
    };
    // SAFETY: what stands there has this type, and the caller's arguments.
    unsafe { transmute::<usize, CreateCqEx>(op)(context, attributes) }
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
    let size = size_of_val(attributes);
    // SAFETY: the caller's context.
    match unsafe { word(context, QUERY_DEVICE_EX) } {
        // SAFETY: what stands there has this type; the attributes have that size.
        Some(op) => unsafe {
            transmute::<usize, QueryDeviceEx>(op)(context, std::ptr::null(), attributes, size)
        },
        None => libc::EOPNOTSUPP,
    }
}

/// Asks for what changes while a device runs (`ibv_query_rt_values_ex`(3)).
///
/// # Safety
///
/// * `context` is open.
pub unsafe fn query_rt_values_ex(context: *mut ibv_context, values: &mut ibv_values_ex) -> c_int {
    // SAFETY: the caller's context.
    match unsafe { word(context, QUERY_RT_VALUES) } {
        // SAFETY: what stands there has this type.
        Some(op) => unsafe { transmute::<usize, QueryRtValues>(op)(context, values) },
        None => libc::EOPNOTSUPP,
    }
}
