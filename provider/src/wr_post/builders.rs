// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause

//! The builders: each begins a work request.
//!
//! # Safety
//!
//! Of each: a QP of the driver's, and what `ibv_wr_post`(3) asks.

use std::ffi::c_void;

use rdma_core_sys::provider::WR_FLUSH;
use rdma_core_sys::{
    IBV_WR_ATOMIC_CMP_AND_SWP, IBV_WR_ATOMIC_FETCH_AND_ADD, IBV_WR_ATOMIC_WRITE, IBV_WR_BIND_MW,
    IBV_WR_LOCAL_INV, IBV_WR_RDMA_READ, IBV_WR_RDMA_WRITE, IBV_WR_RDMA_WRITE_WITH_IMM, IBV_WR_SEND,
    IBV_WR_SEND_WITH_IMM, IBV_WR_SEND_WITH_INV, ibv_mw, ibv_mw_bind_info, ibv_qp_ex,
    ibv_send_wr__bindgen_ty_2__bindgen_ty_1 as Rdma,
    ibv_send_wr__bindgen_ty_2__bindgen_ty_2 as Atomic,
    ibv_send_wr__bindgen_ty_4__bindgen_ty_1 as Bind, ibv_wr_opcode,
};

use super::draft;
use crate::draft::Staged;
use crate::driver::Driver;
use crate::errno::{Errno, Result};
use crate::wr::Beyond;

/// Begins a work request, to which `own` adds what belongs to it. Nothing here can panic, and `own`
/// must not.
///
/// # Safety
///
/// A QP of this driver's, and what `ibv_wr_post`(3) asks.
#[inline(always)]
unsafe fn build<D: Driver>(
    qp: *mut ibv_qp_ex,
    opcode: ibv_wr_opcode,
    own: impl FnOnce(&mut Staged) -> Result<()>,
) {
    // SAFETY: the caller's QP, whose draft the caller builds, or finds no room. The application sets these members
    // before it calls, in the same thread.
    let (draft, open, wr_id, send_flags) = unsafe {
        let draft = draft::<D>(qp);
        (draft, draft.open(), (*qp).wr_id, (*qp).wr_flags)
    };
    match open.begin(wr_id, opcode, send_flags) {
        Some(staged) => {
            if let Err(errno) = own(staged) {
                draft.fail(errno);
            }
        }
        None => draft.fail(Errno::ENOMEM),
    }
}

pub(super) unsafe extern "C" fn send<D: Driver>(qp: *mut ibv_qp_ex) {
    // SAFETY: the caller's QP.
    unsafe { build::<D>(qp, IBV_WR_SEND, |_| Ok(())) }
}

pub(super) unsafe extern "C" fn send_imm<D: Driver>(qp: *mut ibv_qp_ex, imm_data: u32) {
    // SAFETY: the caller's QP.
    unsafe {
        build::<D>(qp, IBV_WR_SEND_WITH_IMM, |staged| {
            staged.own().__bindgen_anon_1.imm_data = imm_data;
            Ok(())
        });
    }
}

pub(super) unsafe extern "C" fn send_inv<D: Driver>(qp: *mut ibv_qp_ex, invalidate_rkey: u32) {
    // SAFETY: the caller's QP.
    unsafe {
        build::<D>(qp, IBV_WR_SEND_WITH_INV, |staged| {
            staged.own().__bindgen_anon_1.invalidate_rkey = invalidate_rkey;
            Ok(())
        });
    }
}

pub(super) unsafe extern "C" fn rdma_write<D: Driver>(
    qp: *mut ibv_qp_ex,
    rkey: u32,
    remote_addr: u64,
) {
    // SAFETY: the caller's QP.
    unsafe {
        build::<D>(qp, IBV_WR_RDMA_WRITE, |staged| {
            staged.own().wr.rdma = Rdma { remote_addr, rkey };
            Ok(())
        });
    }
}

pub(super) unsafe extern "C" fn rdma_write_imm<D: Driver>(
    qp: *mut ibv_qp_ex,
    rkey: u32,
    remote_addr: u64,
    imm_data: u32,
) {
    // SAFETY: the caller's QP.
    unsafe {
        build::<D>(qp, IBV_WR_RDMA_WRITE_WITH_IMM, |staged| {
            staged.own().wr.rdma = Rdma { remote_addr, rkey };
            staged.own().__bindgen_anon_1.imm_data = imm_data;
            Ok(())
        });
    }
}

pub(super) unsafe extern "C" fn rdma_read<D: Driver>(
    qp: *mut ibv_qp_ex,
    rkey: u32,
    remote_addr: u64,
) {
    // SAFETY: the caller's QP.
    unsafe {
        build::<D>(qp, IBV_WR_RDMA_READ, |staged| {
            staged.own().wr.rdma = Rdma { remote_addr, rkey };
            Ok(())
        });
    }
}

pub(super) unsafe extern "C" fn atomic_cmp_swp<D: Driver>(
    qp: *mut ibv_qp_ex,
    rkey: u32,
    remote_addr: u64,
    compare: u64,
    swap: u64,
) {
    // SAFETY: the caller's QP.
    unsafe {
        build::<D>(qp, IBV_WR_ATOMIC_CMP_AND_SWP, |staged| {
            staged.own().wr.atomic = Atomic {
                remote_addr,
                compare_add: compare,
                swap,
                rkey,
            };
            Ok(())
        });
    }
}

pub(super) unsafe extern "C" fn atomic_fetch_add<D: Driver>(
    qp: *mut ibv_qp_ex,
    rkey: u32,
    remote_addr: u64,
    add: u64,
) {
    // SAFETY: the caller's QP.
    unsafe {
        build::<D>(qp, IBV_WR_ATOMIC_FETCH_AND_ADD, |staged| {
            staged.own().wr.atomic = Atomic {
                remote_addr,
                compare_add: add,
                swap: 0,
                rkey,
            };
            Ok(())
        });
    }
}

pub(super) unsafe extern "C" fn atomic_write<D: Driver>(
    qp: *mut ibv_qp_ex,
    rkey: u32,
    remote_addr: u64,
    value: *const c_void,
) {
    // SAFETY: the caller's QP.
    unsafe {
        build::<D>(qp, IBV_WR_ATOMIC_WRITE, |staged| {
            staged.own().wr.rdma = Rdma { remote_addr, rkey };
            if value.is_null() || !remote_addr.is_multiple_of(8) {
                return Err(Errno::EINVAL);
            }
            // SAFETY: the caller has 8 bytes there, not NULL.
            let value = value.cast::<[u8; 8]>().read_unaligned();
            staged.go_beyond(Beyond::AtomicWrite(value));
            Ok(())
        });
    }
}

pub(super) unsafe extern "C" fn flush<D: Driver>(
    qp: *mut ibv_qp_ex,
    rkey: u32,
    remote_addr: u64,
    length: usize,
    placement: u8,
    selectivity: u8,
) {
    // SAFETY: the caller's QP.
    unsafe {
        build::<D>(qp, WR_FLUSH, |staged| {
            staged.own().wr.rdma = Rdma { remote_addr, rkey };
            staged.go_beyond(Beyond::Flush {
                length: u32::try_from(length).map_err(|_| Errno::EINVAL)?,
                placement,
                selectivity,
            });
            Ok(())
        });
    }
}

pub(super) unsafe extern "C" fn local_inv<D: Driver>(qp: *mut ibv_qp_ex, invalidate_rkey: u32) {
    // SAFETY: the caller's QP.
    unsafe {
        build::<D>(qp, IBV_WR_LOCAL_INV, |staged| {
            staged.own().__bindgen_anon_1.invalidate_rkey = invalidate_rkey;
            Ok(())
        });
    }
}

pub(super) unsafe extern "C" fn bind_mw<D: Driver>(
    qp: *mut ibv_qp_ex,
    mw: *mut ibv_mw,
    rkey: u32,
    bind_info: *const ibv_mw_bind_info,
) {
    // SAFETY: the caller's QP.
    unsafe {
        build::<D>(qp, IBV_WR_BIND_MW, |staged| {
            // SAFETY: NULL or the caller's.
            let bind_info = *bind_info.as_ref().ok_or(Errno::EINVAL)?;
            staged.own().__bindgen_anon_2.bind_mw = Bind {
                mw,
                rkey,
                bind_info,
            };
            Ok(())
        });
    }
}
