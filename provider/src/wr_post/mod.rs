// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause

//! `ibv_wr_start`, `ibv_wr_complete`, `ibv_wr_abort`, and what comes between: `ibv_wr_post`(3).
//!
//! The builders and setters gather work requests in the QP's [`draft`](crate::draft), and return
//! nothing: a mistake is `ibv_wr_complete`'s to tell. That posts all or nothing.
//!
//! libibverbs calls these through the members of `struct ibv_qp_ex`, of which none is left NULL: an
//! operation that the QP was not created for is a mistake like others. One that is called outside of
//! a draft does nothing.

mod builders;
mod setters;

use std::ffi::{c_int, c_void};

use rdma_core_sys::provider::{QP_EX_WITH_FLUSH, verbs_qp};
use rdma_core_sys::{
    IBV_QP_EX_WITH_ATOMIC_CMP_AND_SWP, IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD,
    IBV_QP_EX_WITH_ATOMIC_WRITE, IBV_QP_EX_WITH_BIND_MW, IBV_QP_EX_WITH_LOCAL_INV,
    IBV_QP_EX_WITH_RDMA_READ, IBV_QP_EX_WITH_RDMA_WRITE, IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM,
    IBV_QP_EX_WITH_SEND, IBV_QP_EX_WITH_SEND_WITH_IMM, IBV_QP_EX_WITH_SEND_WITH_INV, Library,
    ibv_mw, ibv_mw_bind_info, ibv_qp_ex,
};

use crate::boundary::{guard, status};
use crate::draft::{Built, Draft, Open, Staged};
use crate::driver::Driver;
use crate::errno::{Errno, Result};
use crate::qp::Qp;
use crate::wr::Requests;

/// What stands in the place of an operation that the QP cannot do, and takes these arguments: a mistake.
macro_rules! mistake {
    ($($argument:ty),*) => {{
        unsafe extern "C" fn mistake<D: Driver>(qp: *mut ibv_qp_ex, $(_: $argument),*) {
            // SAFETY: the caller's QP.
            unsafe { draft::<D>(qp) }.fail(Errno::EINVAL);
        }
        mistake::<D>
    }};
}

/// Gives a new QP that was created to post `ops` its operations. So no builder need ask whether it was for its own.
///
/// # Safety
///
/// `qp` is a QP of this driver's that nobody else knows yet.
pub(crate) unsafe fn install<D: Driver>(qp: *mut ibv_qp_ex, library: &Library, ops: u64) {
    let has = |op: u32| ops & u64::from(op) != 0;
    macro_rules! builder {
        ($op:expr, $name:ident($($argument:ty),*)) => {
            if has($op) { builders::$name::<D> } else { mistake!($($argument),*) }
        };
    }
    // SAFETY: the caller's QP, whose memory is that of a `verbs_qp` in front of ours.
    unsafe {
        (*qp).wr_start = Some(start::<D>);
        (*qp).wr_complete = Some(complete::<D>);
        (*qp).wr_abort = Some(abort::<D>);
        (*qp).wr_send = Some(builder!(IBV_QP_EX_WITH_SEND, send()));
        (*qp).wr_send_imm = Some(builder!(IBV_QP_EX_WITH_SEND_WITH_IMM, send_imm(u32)));
        (*qp).wr_send_inv = Some(builder!(IBV_QP_EX_WITH_SEND_WITH_INV, send_inv(u32)));
        // No driver of ours segments.
        (*qp).wr_send_tso = Some(mistake!(*mut c_void, u16, u16));
        (*qp).wr_rdma_write = Some(builder!(IBV_QP_EX_WITH_RDMA_WRITE, rdma_write(u32, u64)));
        (*qp).wr_rdma_write_imm = Some(builder!(
            IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM,
            rdma_write_imm(u32, u64, u32)
        ));
        (*qp).wr_rdma_read = Some(builder!(IBV_QP_EX_WITH_RDMA_READ, rdma_read(u32, u64)));
        (*qp).wr_atomic_cmp_swp = Some(builder!(
            IBV_QP_EX_WITH_ATOMIC_CMP_AND_SWP,
            atomic_cmp_swp(u32, u64, u64, u64)
        ));
        (*qp).wr_atomic_fetch_add = Some(builder!(
            IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD,
            atomic_fetch_add(u32, u64, u64)
        ));
        (*qp).wr_atomic_write = Some(builder!(
            IBV_QP_EX_WITH_ATOMIC_WRITE,
            atomic_write(u32, u64, *const c_void)
        ));
        (*qp).wr_local_inv = Some(builder!(IBV_QP_EX_WITH_LOCAL_INV, local_inv(u32)));
        (*qp).wr_bind_mw = Some(builder!(
            IBV_QP_EX_WITH_BIND_MW,
            bind_mw(*mut ibv_mw, u32, *const ibv_mw_bind_info)
        ));
        (*qp).wr_set_sge = Some(if (*qp.cast::<Qp<D>>()).cap.max_send_sge == 0 {
            mistake!(u32, u64, u32)
        } else {
            setters::set_sge::<D>
        });
        (*qp).wr_set_sge_list = Some(setters::set_sge_list::<D>);
        (*qp).wr_set_inline_data = Some(setters::set_inline_data::<D>);
        (*qp).wr_set_inline_data_list = Some(setters::set_inline_data_list::<D>);
        (*qp).wr_set_ud_addr = Some(setters::set_ud_addr::<D>);
        // No driver of ours has XRC.
        (*qp).wr_set_xrc_srqn = Some(mistake!(u32));
        let flush = builder!(QP_EX_WITH_FLUSH, flush(u32, u64, usize, u8, u8));
        verbs_qp::set_wr_flush(qp.cast(), library, flush);
    }
}

/// The draft of a QP.
///
/// # Safety
///
/// A QP of this driver's, one of whose operations libibverbs has called.
#[inline(always)]
unsafe fn draft<'q, D: Driver>(qp: *mut ibv_qp_ex) -> &'q Draft {
    // SAFETY: the caller's QP, not NULL: the operation was found in it.
    unsafe { &(*qp.cast::<Qp<D>>()).draft }
}

/// Does a step of the draft that the calling thread builds. Its failure is the draft's, and a panic in it, too.
///
/// # Safety
///
/// As [`draft`], and what `ibv_wr_post`(3) asks.
unsafe fn go_on<D: Driver>(qp: *mut ibv_qp_ex, step: impl FnOnce(&mut Open) -> Result<()>) {
    // SAFETY: the caller's QP.
    let draft = unsafe { draft::<D>(qp) };
    // SAFETY: the caller builds, or finds nothing.
    if let Err(errno) = guard(|| step(unsafe { draft.open() })) {
        draft.fail(errno);
    }
}

/// `ibv_wr_start`(3).
///
/// # Safety
///
/// This and those below: as [`draft`], and what the man page asks.
unsafe extern "C" fn start<D: Driver>(qp: *mut ibv_qp_ex) {
    // SAFETY: the caller's QP.
    unsafe { draft::<D>(qp) }.start();
}

/// `ibv_wr_complete`(3): 0, or a positive errno and nothing is posted.
unsafe extern "C" fn complete<D: Driver>(qp: *mut ibv_qp_ex) -> c_int {
    status(|| {
        // SAFETY: the caller's QP, as in `draft`.
        let qp = unsafe { &*qp.cast::<Qp<D>>() };
        qp.draft.end(|built| {
            if let Built::Plain(whole) = &built
                && whole.is_empty()
            {
                return Ok(());
            }
            if qp.is_before_rts() {
                return Err(Errno::EINVAL);
            }
            match built {
                Built::Plain(whole) => qp.pair.post_whole(whole),
                Built::Beyond(all) => post_beyond(qp, all),
            }
        })
    })
}

/// Posts a draft that has operations of which `ibv_post_send` has none.
#[cold]
#[inline(never)]
fn post_beyond<D: Driver>(qp: &Qp<D>, all: &[Staged]) -> Result<()> {
    qp.pair.post_whole(all)
}

/// `ibv_wr_abort`(3).
unsafe extern "C" fn abort<D: Driver>(qp: *mut ibv_qp_ex) {
    // SAFETY: the caller's QP.
    // Why there is none to abort, or what was wrong with it, nobody asks.
    let _ = unsafe { draft::<D>(qp) }.end(|_| Ok(()));
}
