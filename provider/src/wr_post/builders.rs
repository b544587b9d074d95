// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause

//! The builders: each begins a work request.
//!
//! # Safety
//!
//! Of each: a QP of the driver's that has a draft, and what `ibv_wr_post`(3) asks.

use std::ffi::c_void;

use rdma_core_sys::provider::{QP_EX_WITH_FLUSH, WR_FLUSH};
use rdma_core_sys::{
    IBV_QP_EX_WITH_ATOMIC_CMP_AND_SWP, IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD,
    IBV_QP_EX_WITH_ATOMIC_WRITE, IBV_QP_EX_WITH_BIND_MW, IBV_QP_EX_WITH_LOCAL_INV,
    IBV_QP_EX_WITH_RDMA_READ, IBV_QP_EX_WITH_RDMA_WRITE, IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM,
    IBV_QP_EX_WITH_SEND, IBV_QP_EX_WITH_SEND_WITH_IMM, IBV_QP_EX_WITH_SEND_WITH_INV,
    IBV_WR_ATOMIC_CMP_AND_SWP, IBV_WR_ATOMIC_FETCH_AND_ADD, IBV_WR_ATOMIC_WRITE, IBV_WR_BIND_MW,
    IBV_WR_LOCAL_INV, IBV_WR_RDMA_READ, IBV_WR_RDMA_WRITE, IBV_WR_RDMA_WRITE_WITH_IMM, IBV_WR_SEND,
    IBV_WR_SEND_WITH_IMM, IBV_WR_SEND_WITH_INV, ibv_mw, ibv_mw_bind_info, ibv_qp_ex,
    ibv_send_wr__bindgen_ty_2__bindgen_ty_1 as Rdma,
    ibv_send_wr__bindgen_ty_2__bindgen_ty_2 as Atomic,
    ibv_send_wr__bindgen_ty_4__bindgen_ty_1 as Bind, ibv_wr_opcode,
};

use super::go_on;
use crate::boundary::guard;
use crate::draft::Staged;
use crate::driver::Driver;
use crate::errno::{Errno, Result};
use crate::qp::Qp;
use crate::wr::Beyond;

/// Begins a work request of one of `ops`, to which `own` adds what belongs to the operation.
///
/// # Safety
///
/// `qp` is NULL or a QP of this driver's.
unsafe fn build<D: Driver>(
    qp: *mut ibv_qp_ex,
    op: u32,
    opcode: ibv_wr_opcode,
    takes_data: bool,
    own: impl FnOnce(&mut Staged) -> Result<()>,
) {
    // SAFETY: the caller's QP.
    let Some(ours) = (unsafe { Qp::<D>::of(qp.cast()) }) else {
        return;
    };
    let Some(draft) = &ours.draft else { return };
    draft.go_on(|staging| {
        guard(|| {
            if !draft.has(op) {
                return Err(Errno::EINVAL);
            }
            // SAFETY: the application sets these members before it calls, in the same thread.
            let (wr_id, send_flags) = unsafe { ((*qp).wr_id, (*qp).wr_flags) };
            own(staging.begin(wr_id, opcode, send_flags, takes_data)?)
        })
    });
}

pub(super) unsafe extern "C" fn send<D: Driver>(qp: *mut ibv_qp_ex) {
    // SAFETY: the caller's QP.
    unsafe { build::<D>(qp, IBV_QP_EX_WITH_SEND, IBV_WR_SEND, true, |_| Ok(())) }
}

pub(super) unsafe extern "C" fn send_imm<D: Driver>(qp: *mut ibv_qp_ex, imm_data: u32) {
    let op = IBV_QP_EX_WITH_SEND_WITH_IMM;
    // SAFETY: the caller's QP.
    unsafe {
        build::<D>(qp, op, IBV_WR_SEND_WITH_IMM, true, |staged| {
            staged.own().__bindgen_anon_1.imm_data = imm_data;
            Ok(())
        });
    }
}

pub(super) unsafe extern "C" fn send_inv<D: Driver>(qp: *mut ibv_qp_ex, invalidate_rkey: u32) {
    let op = IBV_QP_EX_WITH_SEND_WITH_INV;
    // SAFETY: the caller's QP.
    unsafe {
        build::<D>(qp, op, IBV_WR_SEND_WITH_INV, true, |staged| {
            staged.own().__bindgen_anon_1.invalidate_rkey = invalidate_rkey;
            Ok(())
        });
    }
}

/// No driver of ours segments.
pub(super) unsafe extern "C" fn send_tso<D: Driver>(
    qp: *mut ibv_qp_ex,
    _header: *mut c_void,
    _header_size: u16,
    _mss: u16,
) {
    // SAFETY: the caller's QP.
    unsafe { go_on::<D>(qp, |_| Err(Errno::EINVAL)) }
}

pub(super) unsafe extern "C" fn rdma_write<D: Driver>(
    qp: *mut ibv_qp_ex,
    rkey: u32,
    remote_addr: u64,
) {
    // SAFETY: the caller's QP.
    unsafe {
        build::<D>(
            qp,
            IBV_QP_EX_WITH_RDMA_WRITE,
            IBV_WR_RDMA_WRITE,
            true,
            |staged| {
                staged.own().wr.rdma = Rdma { remote_addr, rkey };
                Ok(())
            },
        );
    }
}

pub(super) unsafe extern "C" fn rdma_write_imm<D: Driver>(
    qp: *mut ibv_qp_ex,
    rkey: u32,
    remote_addr: u64,
    imm_data: u32,
) {
    let op = IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM;
    // SAFETY: the caller's QP.
    unsafe {
        build::<D>(qp, op, IBV_WR_RDMA_WRITE_WITH_IMM, true, |staged| {
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
        build::<D>(
            qp,
            IBV_QP_EX_WITH_RDMA_READ,
            IBV_WR_RDMA_READ,
            true,
            |staged| {
                staged.own().wr.rdma = Rdma { remote_addr, rkey };
                Ok(())
            },
        );
    }
}

pub(super) unsafe extern "C" fn atomic_cmp_swp<D: Driver>(
    qp: *mut ibv_qp_ex,
    rkey: u32,
    remote_addr: u64,
    compare: u64,
    swap: u64,
) {
    let op = IBV_QP_EX_WITH_ATOMIC_CMP_AND_SWP;
    // SAFETY: the caller's QP.
    unsafe {
        build::<D>(qp, op, IBV_WR_ATOMIC_CMP_AND_SWP, true, |staged| {
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
    let op = IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD;
    // SAFETY: the caller's QP.
    unsafe {
        build::<D>(qp, op, IBV_WR_ATOMIC_FETCH_AND_ADD, true, |staged| {
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
        build::<D>(
            qp,
            IBV_QP_EX_WITH_ATOMIC_WRITE,
            IBV_WR_ATOMIC_WRITE,
            false,
            |staged| {
                staged.own().wr.rdma = Rdma { remote_addr, rkey };
                if value.is_null() || !remote_addr.is_multiple_of(8) {
                    return Err(Errno::EINVAL);
                }
                // SAFETY: the caller has 8 bytes there, not NULL.
                let value = value.cast::<[u8; 8]>().read_unaligned();
                staged.go_beyond(Beyond::AtomicWrite(value));
                Ok(())
            },
        );
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
        build::<D>(qp, QP_EX_WITH_FLUSH, WR_FLUSH, false, |staged| {
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
        build::<D>(
            qp,
            IBV_QP_EX_WITH_LOCAL_INV,
            IBV_WR_LOCAL_INV,
            false,
            |staged| {
                staged.own().__bindgen_anon_1.invalidate_rkey = invalidate_rkey;
                Ok(())
            },
        );
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
        build::<D>(
            qp,
            IBV_QP_EX_WITH_BIND_MW,
            IBV_WR_BIND_MW,
            false,
            |staged| {
                // SAFETY: NULL or the caller's.
                let bind_info = *bind_info.as_ref().ok_or(Errno::EINVAL)?;
                staged.own().__bindgen_anon_2.bind_mw = Bind {
                    mw,
                    rkey,
                    bind_info,
                };
                Ok(())
            },
        );
    }
}
