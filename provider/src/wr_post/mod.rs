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

use std::ffi::c_int;

use rdma_core_sys::provider::verbs_qp;
use rdma_core_sys::{Library, ibv_qp_ex};

use crate::boundary::{guard, status};
use crate::draft::Staging;
use crate::driver::Driver;
use crate::errno::{Errno, Result};
use crate::qp::Qp;

/// Gives a new QP all operations.
///
/// # Safety
///
/// `qp` is a QP of this driver's that has a draft, and that nobody else knows yet.
pub(crate) unsafe fn install<D: Driver>(qp: *mut ibv_qp_ex, library: &Library) {
    // SAFETY: the caller's QP, whose memory is that of a `verbs_qp`.
    unsafe {
        (*qp).wr_start = Some(start::<D>);
        (*qp).wr_complete = Some(complete::<D>);
        (*qp).wr_abort = Some(abort::<D>);
        (*qp).wr_send = Some(builders::send::<D>);
        (*qp).wr_send_imm = Some(builders::send_imm::<D>);
        (*qp).wr_send_inv = Some(builders::send_inv::<D>);
        (*qp).wr_send_tso = Some(builders::send_tso::<D>);
        (*qp).wr_rdma_write = Some(builders::rdma_write::<D>);
        (*qp).wr_rdma_write_imm = Some(builders::rdma_write_imm::<D>);
        (*qp).wr_rdma_read = Some(builders::rdma_read::<D>);
        (*qp).wr_atomic_cmp_swp = Some(builders::atomic_cmp_swp::<D>);
        (*qp).wr_atomic_fetch_add = Some(builders::atomic_fetch_add::<D>);
        (*qp).wr_atomic_write = Some(builders::atomic_write::<D>);
        (*qp).wr_local_inv = Some(builders::local_inv::<D>);
        (*qp).wr_bind_mw = Some(builders::bind_mw::<D>);
        (*qp).wr_set_sge = Some(setters::set_sge::<D>);
        (*qp).wr_set_sge_list = Some(setters::set_sge_list::<D>);
        (*qp).wr_set_inline_data = Some(setters::set_inline_data::<D>);
        (*qp).wr_set_inline_data_list = Some(setters::set_inline_data_list::<D>);
        (*qp).wr_set_ud_addr = Some(setters::set_ud_addr::<D>);
        (*qp).wr_set_xrc_srqn = Some(setters::set_xrc_srqn::<D>);
        verbs_qp::set_wr_flush(qp.cast(), library, builders::flush::<D>);
    }
}

/// Does the next step of the draft that the calling thread builds. A panic in it is a mistake, too.
///
/// # Safety
///
/// `qp` is NULL or a QP of this driver's.
unsafe fn go_on<D: Driver>(qp: *mut ibv_qp_ex, step: impl FnOnce(&mut Staging) -> Result<()>) {
    // SAFETY: the caller's QP.
    if let Some(draft) = unsafe { Qp::<D>::of(qp.cast()) }.and_then(|qp| qp.draft.as_ref()) {
        draft.go_on(|staging| guard(|| step(staging)));
    }
}

/// `ibv_wr_start`(3).
///
/// # Safety
///
/// This and those below: a QP of this driver's that has a draft, and what the man page asks.
unsafe extern "C" fn start<D: Driver>(qp: *mut ibv_qp_ex) {
    let _ = guard(|| {
        // SAFETY: the caller's QP.
        if let Some(draft) = unsafe { Qp::<D>::of(qp.cast()) }.and_then(|qp| qp.draft.as_ref()) {
            draft.start();
        }
        Ok(())
    });
}

/// `ibv_wr_complete`(3): 0, or a positive errno and nothing is posted.
unsafe extern "C" fn complete<D: Driver>(qp: *mut ibv_qp_ex) -> c_int {
    status(|| {
        // SAFETY: the caller's QP.
        let qp = unsafe { Qp::<D>::of(qp.cast()) }.ok_or(Errno::EINVAL)?;
        let draft = qp.draft.as_ref().ok_or(Errno::EINVAL)?;
        draft.end(|all| {
            if all.is_empty() {
                return Ok(());
            }
            if qp.is_before_rts() {
                return Err(Errno::EINVAL);
            }
            qp.pair.post_whole(all)
        })
    })
}

/// `ibv_wr_abort`(3).
unsafe extern "C" fn abort<D: Driver>(qp: *mut ibv_qp_ex) {
    let _ = guard(|| {
        // SAFETY: the caller's QP.
        if let Some(draft) = unsafe { Qp::<D>::of(qp.cast()) }.and_then(|qp| qp.draft.as_ref()) {
            // Why there is none to abort, or what was wrong with it, nobody asks.
            let _ = draft.end(|_| Ok(()));
        }
        Ok(())
    });
}
