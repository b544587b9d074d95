// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause

//! Soft-iWARP: `drivers/infiniband/sw/siw`, user ABI `rdma/siw-abi.h`.

mod cqe;
mod operation;
mod recv;
mod send;

use std::ffi::{CStr, c_int};
use std::ops::RangeInclusive;
use std::os::fd::RawFd;

use kernel_abi::siw;
use rdma_core_sys::{
    IBV_QP_EX_WITH_LOCAL_INV, IBV_QP_EX_WITH_RDMA_READ, IBV_QP_EX_WITH_RDMA_WRITE,
    IBV_QP_EX_WITH_SEND, IBV_QP_EX_WITH_SEND_WITH_INV, IBV_QPS_SQD, IBV_QPT_RC, RDMA_DRIVER_SIW,
    ibv_context, ibv_qp_cap, ibv_qp_state, ibv_qp_type, ibv_srq_attr,
};

use crate::cookie::Queue;
use crate::cq::Cq;
use crate::driver::{Driver, RecvRing, SendRing};
use crate::errno::Result;
use crate::ledger::CqeOrder;
use crate::queue_pair::QueuePair;
use crate::ring::valid_cq::Notify;

/// `siw`.
#[derive(Debug)]
pub(crate) struct Siw;

impl Driver for Siw {
    const NAME: &'static CStr = c"lastwqe-siw";
    const ID: u32 = RDMA_DRIVER_SIW;
    const ABI: RangeInclusive<u32> = siw::ABI_VERSION..=siw::ABI_VERSION;
    const CQE_ORDER: CqeOrder = CqeOrder::ReadsLate;
    /// That of each READ: we ask for it.
    const REPORTS_UNASKED: bool = true;
    const CONNECTS_UNSEEN: bool = true;
    /// `SIW_MAX_CQ` entries (linux 6.1, 6.12 `siw.h`, `siw_main.c`).
    const MAX_CQE: c_int = 100 << 15;
    /// linux 6.1, 6.12 `siw_main.c: siw_device_ops` has no `resize_cq`.
    const RESIZES_CQS: bool = false;
    /// The lowest free number is given out (linux 6.1 `siw_qp.c: siw_qp_add`).
    const REUSES_QP_NUMBERS: bool = true;
    /// Under the state lock (linux 6.1, 6.12 `siw_verbs.c: siw_verbs_modify_qp`).
    const FLUSHES_AT_ONCE: bool = true;
    const MARKS_AHEAD: bool = true;
    const DIES_UNSEEN: bool = false;
    const MAY_STICK: bool = false;
    /// CLOSING, which ends as ERROR does for the peer, but forgets the READs that are outstanding
    /// (linux 6.1, 6.12 `siw_qp.c: siw_qp_nextstate_from_rts, siw_qp_nextstate_from_close`).
    const CLOSES_BY: Option<ibv_qp_state> = Some(IBV_QPS_SQD);
    /// ERROR is final, and RESET ignored (linux 6.1, 6.12 `siw_qp.c: siw_qp_modify`).
    const RESETS: bool = false;

    type ContextAnswer = siw::AllocCtxResp;
    type MrRequest = siw::RegMrCmd;
    type MrAnswer = siw::RegMrResp;
    type CqAnswer = siw::CreateCqResp;
    type QpAnswer = siw::CreateQpResp;
    type SrqAnswer = siw::CreateSrqResp;
    type Completions = cqe::Completions;
    type Notify = Notify;
    type Sends = send::Sends;
    type Recvs = recv::Recvs;
    type Resize = recv::Resize;

    fn map_cq(cmd_fd: RawFd, answer: &siw::CreateCqResp) -> Result<cqe::Completions> {
        cqe::Completions::map(cmd_fd, answer.cq_key, answer.num_cqe)
    }

    fn map_sq(
        cmd_fd: RawFd,
        answer: &siw::CreateQpResp,
        _: ibv_qp_type,
        cap: &mut ibv_qp_cap,
    ) -> Result<send::Sends> {
        let sends = send::Sends::map(cmd_fd, answer.sq_key, answer.num_sqe)?;
        cap.max_send_wr = sends.capacity();
        // Every SQE has room for these, whatever was asked for.
        cap.max_send_sge = send::MAX_SGE;
        cap.max_inline_data = send::MAX_INLINE;
        Ok(sends)
    }

    fn map_rq(
        cmd_fd: RawFd,
        answer: &siw::CreateQpResp,
        cap: &mut ibv_qp_cap,
    ) -> Result<Option<recv::Recvs>> {
        if answer.num_rqe == 0 {
            return Ok(None);
        }
        let recvs = recv::Recvs::map(cmd_fd, answer.rq_key, answer.num_rqe, 1)?;
        cap.max_recv_wr = recvs.capacity();
        cap.max_recv_sge = send::MAX_SGE;
        Ok(Some(recvs))
    }

    fn map_srq(
        cmd_fd: RawFd,
        answer: &siw::CreateSrqResp,
        attr: &mut ibv_srq_attr,
    ) -> Result<recv::Recvs> {
        let recvs = recv::Recvs::map(cmd_fd, answer.srq_key, answer.num_rqe, 0)?;
        attr.max_wr = recvs.capacity();
        attr.max_sge = send::MAX_SGE;
        Ok(recvs)
    }

    /// A store into the mapped CQ. Solicited receives could not be told either: siw never raises the
    /// event for them (linux 6.1, 6.12 `siw_qp.c: siw_rqe_complete` passes SIGNALLED).
    #[inline(always)]
    fn arm(cq: &Cq<Self>) -> Result<()> {
        cq.queue.notify.arm();
        Ok(())
    }

    fn notify(ring: &cqe::Completions) -> Notify {
        ring.notify()
    }

    /// It never does.
    unsafe fn raises_last_wqe(_context: *mut ibv_context) -> bool {
        false
    }

    /// iWARP has neither immediate data nor atomics, and siw no windows.
    unsafe fn has_send_ops(_: *mut ibv_context, qp_type: ibv_qp_type, send_ops: u64) -> bool {
        const OPS: u32 = IBV_QP_EX_WITH_SEND
            | IBV_QP_EX_WITH_SEND_WITH_INV
            | IBV_QP_EX_WITH_RDMA_WRITE
            | IBV_QP_EX_WITH_RDMA_READ
            | IBV_QP_EX_WITH_LOCAL_INV;
        qp_type == IBV_QPT_RC && send_ops & !u64::from(OPS) == 0
    }

    /// A QP that is destroyed at once: its mark in the receive queue is flushed
    /// (linux 6.1, 6.12 `siw_verbs.c: siw_destroy_qp`). The dead one's rings are not looked at again.
    fn ring_bell(pair: &QueuePair<Self>, queue: Queue) {
        pair.ring_by_another(queue);
    }
}
