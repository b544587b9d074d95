// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause

//! The setters: each adds to the work request that was begun last.
//!
//! # Safety
//!
//! Of each: a QP of the driver's, and what `ibv_wr_post`(3) asks.

use std::ffi::c_void;
use std::slice;

use rdma_core_sys::{
    IBV_QPT_UD, ibv_ah, ibv_data_buf, ibv_qp_ex,
    ibv_send_wr__bindgen_ty_2__bindgen_ty_3 as Receiver, ibv_sge,
};

use super::{draft, go_on};
use crate::driver::Driver;
use crate::errno::{Errno, Result};

pub(super) unsafe extern "C" fn set_sge<D: Driver>(
    qp: *mut ibv_qp_ex,
    lkey: u32,
    addr: u64,
    length: u32,
) {
    let sge = ibv_sge { addr, length, lkey };
    // SAFETY: the caller's QP, whose draft the caller builds, or finds nothing in it.
    let (draft, open) = unsafe {
        let draft = draft::<D>(qp);
        (draft, draft.open())
    };
    // Not `go_on`: there is nothing that could panic.
    if let Err(errno) = open.set_sge(sge) {
        draft.fail(errno);
    }
}

pub(super) unsafe extern "C" fn set_sge_list<D: Driver>(
    qp: *mut ibv_qp_ex,
    count: usize,
    list: *const ibv_sge,
) {
    // SAFETY: the caller's QP and list.
    unsafe { go_on::<D>(qp, |open| open.set_sges(array(list, count)?)) }
}

pub(super) unsafe extern "C" fn set_inline_data<D: Driver>(
    qp: *mut ibv_qp_ex,
    addr: *mut c_void,
    length: usize,
) {
    let buf = ibv_data_buf { addr, length };
    // SAFETY: the caller's QP and memory.
    unsafe { go_on::<D>(qp, |open| open.set_inline([bytes(&buf)].into_iter())) }
}

pub(super) unsafe extern "C" fn set_inline_data_list<D: Driver>(
    qp: *mut ibv_qp_ex,
    count: usize,
    list: *const ibv_data_buf,
) {
    // SAFETY: the caller's QP, list and memory.
    unsafe {
        go_on::<D>(qp, |open| {
            open.set_inline(array(list, count)?.iter().map(|buf| bytes(buf)))
        });
    }
}

pub(super) unsafe extern "C" fn set_ud_addr<D: Driver>(
    qp: *mut ibv_qp_ex,
    ah: *mut ibv_ah,
    remote_qpn: u32,
    remote_qkey: u32,
) {
    // SAFETY: the caller's QP.
    unsafe {
        go_on::<D>(qp, |open| {
            // The type of a QP does not change.
            if (*qp).qp_base.qp_type != IBV_QPT_UD {
                return Err(Errno::EINVAL);
            }
            open.set_receiver(Receiver {
                ah,
                remote_qpn,
                remote_qkey,
            })
        });
    }
}

/// An array of the caller's.
///
/// # Errors
///
/// `EINVAL` if its entries are nowhere.
///
/// # Safety
///
/// `list` is NULL or has `count` entries, which stay as they are while the reference is used.
unsafe fn array<'a, T>(list: *const T, count: usize) -> Result<&'a [T]> {
    if count == 0 {
        Ok(&[])
    } else if list.is_null() {
        Err(Errno::EINVAL)
    } else {
        // SAFETY: the caller's promise.
        Ok(unsafe { slice::from_raw_parts(list, count) })
    }
}

/// The bytes of a part of inline data.
///
/// # Errors
///
/// `EINVAL` if there are bytes at address 0, or more than any message has.
///
/// # Safety
///
/// They are readable, and stay as they are while the reference is used.
unsafe fn bytes<'a>(buf: &ibv_data_buf) -> Result<&'a [u8]> {
    // SAFETY: the caller's promise.
    unsafe { array(buf.addr.cast::<u8>(), buf.length) }
}
