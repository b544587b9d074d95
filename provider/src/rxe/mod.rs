// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause

//! Soft-RoCE: `drivers/infiniband/sw/rxe`, user ABI `rdma/rdma_user_rxe.h`.

mod cqe;
mod operations;
mod recv;
mod send;
mod wqe;

use std::ffi::{CStr, c_int};
use std::ops::RangeInclusive;
use std::os::fd::RawFd;
use std::ptr;

use kernel_abi::rxe;
use rdma_core_sys::provider::{QP_EX_WITH_FLUSH, verbs_qp};
use rdma_core_sys::{
    IBV_QP_EX_WITH_ATOMIC_CMP_AND_SWP, IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD,
    IBV_QP_EX_WITH_ATOMIC_WRITE, IBV_QP_EX_WITH_BIND_MW, IBV_QP_EX_WITH_LOCAL_INV,
    IBV_QP_EX_WITH_RDMA_READ, IBV_QP_EX_WITH_RDMA_WRITE, IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM,
    IBV_QP_EX_WITH_SEND, IBV_QP_EX_WITH_SEND_WITH_IMM, IBV_QP_EX_WITH_SEND_WITH_INV, IBV_QPT_RC,
    IBV_QPT_UC, IBV_QPT_UD, RDMA_DRIVER_RXE, ibv_context, ibv_device_attr_ex, ibv_qp_cap,
    ibv_qp_state, ibv_qp_type, ibv_srq_attr,
};

use crate::context::{self, Context};
use crate::cookie::Queue;
use crate::cq::Cq;
use crate::driver::{Driver, RecvRing, SendRing};
use crate::errno::{Errno, Result};
use crate::ledger::CqeOrder;
use crate::queue_pair::QueuePair;

/// `IB_UVERBS_DEVICE_ATOMIC_WRITE` of `rdma/ib_user_verbs.h`; rxe has it from linux 6.2 on
/// (`rxe_param.h: RXE_DEVICE_CAP_FLAGS`).
const DEVICE_ATOMIC_WRITE: u64 = 1 << 40;

/// What each type of QP can post by `ibv_wr_post`(3), `enum ibv_qp_create_send_ops_flags`.
const DATAGRAM_OPS: u32 = IBV_QP_EX_WITH_SEND | IBV_QP_EX_WITH_SEND_WITH_IMM;
const CONNECTED_OPS: u32 = DATAGRAM_OPS
    | IBV_QP_EX_WITH_SEND_WITH_INV
    | IBV_QP_EX_WITH_RDMA_WRITE
    | IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM
    | IBV_QP_EX_WITH_BIND_MW;
const RELIABLE_OPS: u32 = IBV_QP_EX_WITH_RDMA_READ
    | IBV_QP_EX_WITH_LOCAL_INV
    | IBV_QP_EX_WITH_ATOMIC_CMP_AND_SWP
    | IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD;
/// The same of RC QPs, on kernels that have them.
const YOUNG_OPS: u32 = IBV_QP_EX_WITH_ATOMIC_WRITE | QP_EX_WITH_FLUSH;

/// Whether the kernel's rxe has atomic writes.
///
/// # Safety
///
/// An open context of this driver's.
unsafe fn has_atomic_write(context: *mut ibv_context) -> bool {
    let mut attributes = ibv_device_attr_ex::default();
    let size = size_of_val(&attributes);
    // SAFETY: the caller's context, and attributes of that size.
    let answer =
        unsafe { context::query_device_ex::<Rxe>(context, ptr::null(), &raw mut attributes, size) };
    answer == 0 && attributes.device_cap_flags_ex & DEVICE_ATOMIC_WRITE != 0
}

/// Whether libibverbs has `ibv_wr_flush`, if it is among `send_ops`.
///
/// # Safety
///
/// An open context of this driver's.
unsafe fn has_flush(context: *mut ibv_context, send_ops: u64) -> bool {
    send_ops & u64::from(QP_EX_WITH_FLUSH) == 0
        // SAFETY: the caller's context.
        || verbs_qp::has_wr_flush(unsafe { Context::of(context) }.library)
}

/// `rdma_rxe`.
#[derive(Debug)]
pub(crate) struct Rxe;

impl Driver for Rxe {
    const NAME: &'static CStr = c"lastwqe-rxe";
    const ID: u32 = RDMA_DRIVER_RXE;
    /// On 64-bit machines, version 1 has the same layouts.
    const ABI: RangeInclusive<u32> = 1..=rxe::ABI_VERSION;
    const CQE_ORDER: CqeOrder = CqeOrder::Posting;
    /// linux 6.1, 6.12 `rxe_comp.c: do_complete`.
    const REPORTS_UNASKED: bool = false;
    const CONNECTS_UNSEEN: bool = false;
    /// `RXE_MAX_CQE` (linux 6.1, 6.12 `rxe_param.h`).
    const MAX_CQE: c_int = (1 << 15) - 1;
    /// linux 6.1, 6.12 `rxe_queue.c: rxe_queue_resize`.
    const RESIZES_CQS: bool = true;
    /// Numbers are given out cyclically (linux 6.1 `rxe_pool.c: rxe_alloc`).
    const REUSES_QP_NUMBERS: bool = false;
    /// Tasks flush (linux 6.1, 6.12 `rxe_qp.c: rxe_qp_error`).
    const FLUSHES_AT_ONCE: bool = false;
    const MARKS_AHEAD: bool = false;
    /// A receive queue has no doorbell, and a responder that fails with nothing posted says nothing.
    const DIES_UNSEEN: bool = true;
    const MAY_STICK: bool = true;
    const CLOSES_BY: Option<ibv_qp_state> = None;
    const RESETS: bool = true;

    type ContextAnswer = ();
    type MrRequest = ();
    type MrAnswer = ();
    /// `rxe::ResizeCqResp` is the same.
    type CqAnswer = rxe::CreateCqResp;
    type QpAnswer = rxe::CreateQpResp;
    type SrqAnswer = rxe::CreateSrqResp;
    type Completions = cqe::Completions;
    type Notify = ();
    type Sends = send::Sends;
    type Recvs = recv::Recvs;
    type Resize = recv::Resize;

    fn map_cq(cmd_fd: RawFd, answer: &rxe::CreateCqResp) -> Result<cqe::Completions> {
        cqe::Completions::map(cmd_fd, &answer.mi)
    }

    fn map_sq(
        cmd_fd: RawFd,
        answer: &rxe::CreateQpResp,
        qp_type: ibv_qp_type,
        cap: &mut ibv_qp_cap,
    ) -> Result<send::Sends> {
        let sends = send::Sends::map(cmd_fd, &answer.sq_mi, qp_type, cap)?;
        cap.max_send_wr = sends.capacity();
        Ok(sends)
    }

    fn map_rq(
        cmd_fd: RawFd,
        answer: &rxe::CreateQpResp,
        cap: &mut ibv_qp_cap,
    ) -> Result<Option<recv::Recvs>> {
        let recvs = recv::Recvs::map(cmd_fd, &answer.rq_mi, cap.max_recv_sge)?;
        cap.max_recv_wr = recvs.capacity();
        Ok(Some(recvs))
    }

    fn map_srq(
        cmd_fd: RawFd,
        answer: &rxe::CreateSrqResp,
        attr: &mut ibv_srq_attr,
    ) -> Result<recv::Recvs> {
        let recvs = recv::Recvs::map(cmd_fd, &answer.mi, attr.max_sge)?;
        attr.max_wr = recvs.capacity();
        Ok(recvs)
    }

    /// A system call: the kernel keeps the CQ's notify state to itself.
    fn arm(cq: &Cq<Self>) -> Result<()> {
        let notify = cq.queue.context.library.calls.ibv_cmd_req_notify_cq;
        // SAFETY: libibverbs' half of a living CQ.
        Errno::check(unsafe { notify(cq.base(), 0) })
    }

    fn notify(_: &cqe::Completions) {}

    /// From linux 6.3 on, which can be told by what came just before it: atomic writes.
    unsafe fn raises_last_wqe(context: *mut ibv_context) -> bool {
        // SAFETY: the caller's context.
        unsafe { has_atomic_write(context) }
    }

    /// What the kernel has for each type (linux 6.1, 6.12 `rxe_opcode.c: rxe_wr_opcode_info`); linux
    /// 6.2 brought both atomic writes and flushes.
    unsafe fn has_send_ops(context: *mut ibv_context, qp_type: ibv_qp_type, send_ops: u64) -> bool {
        let own = match qp_type {
            IBV_QPT_RC => CONNECTED_OPS | RELIABLE_OPS,
            IBV_QPT_UC => CONNECTED_OPS,
            IBV_QPT_UD => DATAGRAM_OPS,
            _ => return false,
        };
        let young = if qp_type == IBV_QPT_RC { YOUNG_OPS } else { 0 };
        let asked = send_ops & !u64::from(own);
        asked == 0
            || (asked & !u64::from(young) == 0
                // SAFETY: the caller's context.
                && unsafe { has_atomic_write(context) && has_flush(context, asked) })
    }

    /// The dead QP's own ring takes a mark more, which the kernel flushes; if it has that ring.
    fn ring_bell(pair: &QueuePair<Self>, queue: Queue) {
        if queue == Queue::Send || pair.srq().is_none() {
            pair.mark_end(queue);
        } else {
            pair.ring_by_clapper(queue);
        }
    }
}
