// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
//! Twins of functions that `infiniband/verbs.h` defines in the header.
//!
//! No symbol stands for these, so bindgen cannot declare them. Most dispatch through the context's
//! table of operations; two are macros over exported functions.

use std::ffi::{c_int, c_uint, c_void};

use crate::public::{
    _compat_ibv_port_attr, ibv_context, ibv_cq, ibv_mr, ibv_pd, ibv_port_attr, ibv_qp,
    ibv_query_port, ibv_recv_wr, ibv_reg_mr_iova2, ibv_send_wr, ibv_srq, ibv_wc,
};

/// What a missing operation answers, as libibverbs' own stubs do.
const MISSING: c_int = libc::EOPNOTSUPP;

/// Posts a list of work requests to a send queue (`ibv_post_send`(3)).
///
/// # Safety
///
/// * `qp` is a live queue pair, `wr` a list of work requests whose buffers stay valid until they
///   complete, `bad_wr` is writable.
#[inline]
pub unsafe fn post_send(
    qp: *mut ibv_qp,
    wr: *mut ibv_send_wr,
    bad_wr: *mut *mut ibv_send_wr,
) -> c_int {
    // SAFETY: the caller's queue pair is live, and so is its context.
    match unsafe { (*(*qp).context).ops.post_send } {
        // SAFETY: the caller's arguments are what the operation asks for.
        Some(op) => unsafe { op(qp, wr, bad_wr) },
        None => MISSING,
    }
}

/// Posts a list of work requests to a receive queue (`ibv_post_recv`(3)).
///
/// # Safety
///
/// * As [`post_send`].
#[inline]
pub unsafe fn post_recv(
    qp: *mut ibv_qp,
    wr: *mut ibv_recv_wr,
    bad_wr: *mut *mut ibv_recv_wr,
) -> c_int {
    // SAFETY: the caller's queue pair is live, and so is its context.
    match unsafe { (*(*qp).context).ops.post_recv } {
        // SAFETY: the caller's arguments are what the operation asks for.
        Some(op) => unsafe { op(qp, wr, bad_wr) },
        None => MISSING,
    }
}

/// Posts a list of work requests to a shared receive queue (`ibv_post_srq_recv`(3)).
///
/// # Safety
///
/// * As [`post_send`], with a live shared receive queue.
#[inline]
pub unsafe fn post_srq_recv(
    srq: *mut ibv_srq,
    wr: *mut ibv_recv_wr,
    bad_wr: *mut *mut ibv_recv_wr,
) -> c_int {
    // SAFETY: the caller's queue is live, and so is its context.
    match unsafe { (*(*srq).context).ops.post_srq_recv } {
        // SAFETY: the caller's arguments are what the operation asks for.
        Some(op) => unsafe { op(srq, wr, bad_wr) },
        None => MISSING,
    }
}

/// Takes up to `entries` completions from a completion queue (`ibv_poll_cq`(3)).
///
/// # Safety
///
/// * `cq` is live and `wc` has room for `entries` completions.
#[inline]
pub unsafe fn poll_cq(cq: *mut ibv_cq, entries: c_int, wc: *mut ibv_wc) -> c_int {
    // SAFETY: the caller's queue is live, and so is its context.
    match unsafe { (*(*cq).context).ops.poll_cq } {
        // SAFETY: the caller's arguments are what the operation asks for.
        Some(op) => unsafe { op(cq, entries, wc) },
        None => -MISSING,
    }
}

/// Asks for an event at the next completion (`ibv_req_notify_cq`(3)).
///
/// # Safety
///
/// * `cq` is live.
#[inline]
pub unsafe fn req_notify_cq(cq: *mut ibv_cq, solicited_only: c_int) -> c_int {
    // SAFETY: the caller's queue is live, and so is its context.
    match unsafe { (*(*cq).context).ops.req_notify_cq } {
        // SAFETY: the caller's argument is what the operation asks for.
        Some(op) => unsafe { op(cq, solicited_only) },
        None => MISSING,
    }
}

/// Asks for a port's attributes (`ibv_query_port`(3)).
///
/// The exported function fills what its first release had; the younger fields at the end, of
/// which v44 has `port_cap_flags2`, stay zero.
///
/// # Safety
///
/// * `context` is open.
#[inline]
pub unsafe fn query_port(
    context: *mut ibv_context,
    port: u8,
    attributes: &mut ibv_port_attr,
) -> c_int {
    *attributes = ibv_port_attr::default();
    let compatible = std::ptr::from_mut(attributes).cast::<_compat_ibv_port_attr>();
    // SAFETY: the context is the caller's; the compatible struct is a prefix of the full one.
    unsafe { ibv_query_port(context, port, compatible) }
}

/// Registers memory with any access flags (`ibv_reg_mr`(3)).
///
/// # Safety
///
/// * `pd` is live, and the memory stays mapped while the region lives.
#[inline]
pub unsafe fn reg_mr(
    pd: *mut ibv_pd,
    address: *mut c_void,
    length_bytes: usize,
    access: c_uint,
) -> *mut ibv_mr {
    // CAST: an address is an I/O virtual address of the same value; LP64.
    let iova = address.addr() as u64;
    // SAFETY: the arguments are the caller's.
    unsafe { ibv_reg_mr_iova2(pd, address, length_bytes, iova, access) }
}
