// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause

//! siw's CQ: `struct siw_cqe`.

use std::mem::{MaybeUninit, offset_of};
use std::os::fd::RawFd;

use kernel_abi::siw::{Cqe, opcode, status};
use rdma_core_sys::{
    IBV_WC_BAD_RESP_ERR, IBV_WC_COMP_SWAP, IBV_WC_FETCH_ADD, IBV_WC_GENERAL_ERR,
    IBV_WC_LOC_ACCESS_ERR, IBV_WC_LOC_LEN_ERR, IBV_WC_LOC_PROT_ERR, IBV_WC_LOC_QP_OP_ERR,
    IBV_WC_LOCAL_INV, IBV_WC_RDMA_READ, IBV_WC_RDMA_WRITE, IBV_WC_RECV, IBV_WC_REM_ACCESS_ERR,
    IBV_WC_REM_INV_REQ_ERR, IBV_WC_SEND, IBV_WC_SUCCESS, IBV_WC_WR_FLUSH_ERR, ibv_wc,
    ibv_wc_opcode, ibv_wc_status,
};

use crate::cookie::VOID;
use crate::driver::{CompletionRing, Front, Unread};
use crate::errno::Result;
use crate::ring::valid_cq::ValidCq;

/// A mapped CQ.
#[derive(Debug)]
pub(crate) struct Completions(ValidCq);

impl Completions {
    pub(super) fn map(cmd_fd: RawFd, key: u64, count: u32) -> Result<Self> {
        Ok(Self(ValidCq::map(cmd_fd, key, count)?))
    }

    pub(super) fn arm(&self) {
        self.0.arm();
    }
}

impl CompletionRing for Completions {
    fn capacity(&self) -> u32 {
        self.0.capacity()
    }

    #[inline(always)]
    fn front(&mut self) -> Option<Front> {
        self.0.is_next_valid().then(|| Front {
            cookie: self.0.read_part::<{ offset_of!(Cqe, id) }, _>(),
            is_success: self.0.read_part::<{ offset_of!(Cqe, status) }, u16>() == status::SUCCESS,
        })
    }

    #[inline(always)]
    fn take_run<E>(
        &mut self,
        first: u64,
        entries: &[E],
        wr_id: impl Fn(&E) -> Option<u64>,
        wcs: &mut [MaybeUninit<ibv_wc>],
    ) -> u32 {
        let mut count = 0_u32;
        let mut next = self.0.valid();
        for (entry, wc) in entries.iter().zip(wcs) {
            let Some(cqe) = next.get() else { break };
            if cqe.id != first.wrapping_add(count.into()) || cqe.status != status::SUCCESS {
                break;
            }
            let Some(wr_id) = wr_id(entry) else { break };
            to_wc(&cqe, wr_id, wc);
            next.advance();
            count = count.wrapping_add(1);
        }
        self.0.have_advanced(count);
        count
    }

    #[inline(always)]
    fn take<'w>(&mut self, wc: &'w mut MaybeUninit<ibv_wc>, wr_id: u64) -> &'w mut ibv_wc {
        let cqe: Cqe = self.0.read_part::<0, _>();
        self.0.advance();
        to_wc(&cqe, wr_id, wc)
    }

    /// Each entry was given back when it was read.
    fn release(&mut self) {
        self.0.end_batch();
    }

    fn was_full(&self) -> bool {
        self.0.was_full()
    }

    fn forget_full(&mut self) {
        self.0.forget_full();
    }

    fn peek(&self, ahead: u32) -> Option<Unread> {
        let cqe = self.0.peek(ahead)?;
        Some(Unread {
            cookie: cqe.id,
            qp_num: number(&cqe),
        })
    }

    fn void(&mut self, ahead: u32) {
        self.0.overwrite_id(ahead, VOID);
    }
}

#[inline(always)]
fn to_wc<'w>(cqe: &Cqe, wr_id: u64, wc: &'w mut MaybeUninit<ibv_wc>) -> &'w mut ibv_wc {
    wc.write(ibv_wc {
        wr_id,
        status: status(cqe.status),
        opcode: opcode(cqe.opcode),
        byte_len: cqe.bytes,
        qp_num: number(cqe),
        ..Default::default()
    })
}

/// The QP number in a CQE: 32 bits of the field.
fn number(cqe: &Cqe) -> u32 {
    #[expect(
        clippy::cast_possible_truncation,
        reason = "the kernel stores a u32 there (linux 6.1 siw_qp.c: siw_sqe_complete)"
    )]
    {
        cqe.qp_id as u32
    }
}

fn status(siw: u16) -> ibv_wc_status {
    match siw {
        status::SUCCESS => IBV_WC_SUCCESS,
        status::LOC_LEN_ERR => IBV_WC_LOC_LEN_ERR,
        status::LOC_PROT_ERR => IBV_WC_LOC_PROT_ERR,
        status::LOC_QP_OP_ERR => IBV_WC_LOC_QP_OP_ERR,
        status::WR_FLUSH_ERR => IBV_WC_WR_FLUSH_ERR,
        status::BAD_RESP_ERR => IBV_WC_BAD_RESP_ERR,
        status::LOC_ACCESS_ERR => IBV_WC_LOC_ACCESS_ERR,
        status::REM_ACCESS_ERR => IBV_WC_REM_ACCESS_ERR,
        status::REM_INV_REQ_ERR => IBV_WC_REM_INV_REQ_ERR,
        _ => IBV_WC_GENERAL_ERR,
    }
}

fn opcode(siw: u8) -> ibv_wc_opcode {
    match siw {
        opcode::WRITE => IBV_WC_RDMA_WRITE,
        opcode::READ | opcode::READ_LOCAL_INV => IBV_WC_RDMA_READ,
        opcode::FETCH_AND_ADD => IBV_WC_FETCH_ADD,
        opcode::COMP_AND_SWAP => IBV_WC_COMP_SWAP,
        opcode::RECEIVE => IBV_WC_RECV,
        opcode::INVAL_STAG => IBV_WC_LOCAL_INV,
        _ => IBV_WC_SEND,
    }
}
