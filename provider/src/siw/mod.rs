// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause

//! Soft-iWARP: `drivers/infiniband/sw/siw`, user ABI `rdma/siw-abi.h`.

mod cqe;
mod recv;
mod send;

use std::ffi::CStr;
use std::ops::RangeInclusive;
use std::os::fd::RawFd;

use kernel_abi::siw;
use rdma_core_sys::{RDMA_DRIVER_SIW, ibv_qp_cap, ibv_qp_type, ibv_srq_attr};

use crate::cq::Cq;
use crate::driver::{Driver, RecvRing, SendRing};
use crate::errno::{Errno, Result};
use crate::ledger::CqeOrder;

/// `siw`.
#[derive(Debug)]
pub(crate) struct Siw;

impl Driver for Siw {
    const NAME: &'static CStr = c"lastwqe-siw";
    const ID: u32 = RDMA_DRIVER_SIW;
    const ABI: RangeInclusive<u32> = siw::ABI_VERSION..=siw::ABI_VERSION;
    const CQE_ORDER: CqeOrder = CqeOrder::ReadsLate;
    const CONNECTS_UNSEEN: bool = true;
    /// The lowest free number is given out (linux 6.1 `siw_qp.c: siw_qp_add`).
    const REUSES_QP_NUMBERS: bool = true;

    type ContextAnswer = siw::AllocCtxResp;
    type MrRequest = siw::RegMrCmd;
    type MrAnswer = siw::RegMrResp;
    type CqAnswer = siw::CreateCqResp;
    type QpAnswer = siw::CreateQpResp;
    type SrqAnswer = siw::CreateSrqResp;
    type Completions = cqe::Completions;
    type Sends = send::Sends;
    type Recvs = recv::Recvs;
    type Resize = recv::Resize;

    fn map_cq(cmd_fd: RawFd, answer: &siw::CreateCqResp) -> Result<cqe::Completions> {
        cqe::Completions::map(cmd_fd, offered(answer.cq_key)?, answer.num_cqe)
    }

    fn map_sq(
        cmd_fd: RawFd,
        answer: &siw::CreateQpResp,
        _: ibv_qp_type,
        cap: &mut ibv_qp_cap,
    ) -> Result<send::Sends> {
        let sends = send::Sends::map(cmd_fd, offered(answer.sq_key)?, answer.num_sqe)?;
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
        let recvs = recv::Recvs::map(cmd_fd, offered(answer.rq_key)?, answer.num_rqe)?;
        cap.max_recv_wr = recvs.capacity();
        cap.max_recv_sge = send::MAX_SGE;
        Ok(Some(recvs))
    }

    fn map_srq(
        cmd_fd: RawFd,
        answer: &siw::CreateSrqResp,
        attr: &mut ibv_srq_attr,
    ) -> Result<recv::Recvs> {
        let recvs = recv::Recvs::map(cmd_fd, offered(answer.srq_key)?, answer.num_rqe)?;
        attr.max_wr = recvs.capacity();
        attr.max_sge = send::MAX_SGE;
        Ok(recvs)
    }

    /// A store into the mapped CQ, for any completion: siw never raises the event for a solicited
    /// receive (linux 6.1, 6.12 `siw_qp.c: siw_rqe_complete` passes SIGNALLED), and its CQE does not
    /// tell. A waiter that is woken too often polls in vain; one that is not sleeps for ever.
    fn arm(cq: &Cq<Self>, _solicited_only: bool) -> Result<()> {
        cq.queue.lock().ring.arm();
        Ok(())
    }
}

/// The key of a ring, if the kernel could offer it.
fn offered(key: u64) -> Result<u64> {
    if key == siw::INVAL_UOBJ_KEY {
        Err(Errno::ENOMEM)
    } else {
        Ok(key)
    }
}
