// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause

//! `ibv_attach_mcast`, `ibv_detach_mcast`: rxe only, as iWARP has no datagrams.
//!
//! A group is its GID alone: RoCE has no LIDs, and rxe ignores them (linux 6.1, 6.12 `rxe_mcast.c:
//! rxe_attach_mcast`). uverbs does not: it knows a membership by GID and LID (`uverbs_cmd.c:
//! ib_uverbs_attach_mcast`), so a QP that is attached by two LIDs is counted twice, detached once, and
//! can never be destroyed. So the kernel is told the same LID each time.

use std::ffi::c_int;

use rdma_core_sys::{ibv_gid, ibv_qp};

use crate::boundary::status;
use crate::errno::{Errno, Result};
use crate::qp::Qp;
use crate::rxe::Rxe;

/// The LID of every group.
const LID: u16 = 0;

/// The command of libibverbs for either verb.
type Command = unsafe extern "C" fn(*mut ibv_qp, *const ibv_gid, u16) -> c_int;

/// `ibv_attach_mcast`(3).
///
/// # Errors
///
/// `EINVAL` for a QP that is not UD, or a GID that is no group's; `ENOMEM` beyond the device's limits
/// (linux 6.1, 6.12 `core/verbs.c: ib_attach_mcast`, `rxe_mcast.c: __rxe_init_mca`).
///
/// # Safety
///
/// As the man page asks.
pub(crate) unsafe extern "C" fn attach(qp: *mut ibv_qp, gid: *const ibv_gid, _lid: u16) -> c_int {
    // SAFETY: the caller's QP and GID.
    status(|| unsafe {
        ask(qp, gid, |qp| {
            qp.pair.context.library.calls.ibv_cmd_attach_mcast
        })
    })
}

/// `ibv_detach_mcast`(3).
///
/// # Errors
///
/// `EINVAL` if the QP is not attached.
///
/// # Safety
///
/// As the man page asks.
pub(crate) unsafe extern "C" fn detach(qp: *mut ibv_qp, gid: *const ibv_gid, _lid: u16) -> c_int {
    // SAFETY: the caller's QP and GID.
    status(|| unsafe {
        ask(qp, gid, |qp| {
            qp.pair.context.library.calls.ibv_cmd_detach_mcast
        })
    })
}

/// Gives the kernel the command that `choose` names.
///
/// # Safety
///
/// `qp` is NULL or a QP of ours, `gid` NULL or valid.
unsafe fn ask(qp: *mut ibv_qp, gid: *const ibv_gid, choose: fn(&Qp<Rxe>) -> Command) -> Result<()> {
    // SAFETY: the caller's promise.
    let (ours, gid) = unsafe { (Qp::<Rxe>::of(qp), gid.as_ref()) };
    let (ours, gid) = (ours.ok_or(Errno::EINVAL)?, gid.ok_or(Errno::EINVAL)?);
    // SAFETY: both are there; the command only reads them.
    Errno::check(unsafe { choose(ours)(qp, gid, LID) })
}
