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

use crate::cookie::{Cookie, VOID};
use crate::driver::{CompletionRing, Front, Sight, Unread};
use crate::errno::Result;
use crate::ledger::small;
use crate::ring::valid_cq::{Found, Notify, ValidCq, Written};

/// A mapped CQ.
#[derive(Debug)]
pub(crate) struct Completions(ValidCq);

impl Completions {
    pub(super) fn map(cmd_fd: RawFd, key: u64, count: u32) -> Result<Self> {
        Ok(Self(ValidCq::map(cmd_fd, key, count)?))
    }

    pub(super) fn notify(&self) -> Notify {
        self.0.notify()
    }

    /// Takes CQEs of this status as long as there are entries and room, and `take` takes one; how many.
    #[inline(always)]
    fn take_while<E>(
        &mut self,
        status: u16,
        entries: &[E],
        wcs: &mut [MaybeUninit<ibv_wc>],
        mut take: impl FnMut(Written<'_>, &E, &mut MaybeUninit<ibv_wc>) -> Option<()>,
    ) -> u32 {
        let mut count = 0_u32;
        let mut next = self.0.next_ones();
        let most = wcs.len().min(next.left());
        let wcs = wcs.get_mut(..most).unwrap_or_default();
        for (entry, wc) in entries.iter().zip(wcs) {
            // SAFETY: there is not more room than that.
            let Some(cqe) = (unsafe { next.get(status) }) else {
                break;
            };
            if take(cqe, entry, wc).is_none() {
                break;
            }
            // SAFETY: as above.
            unsafe { next.give_back() };
            count = count.wrapping_add(1);
        }
        // SAFETY: counted.
        unsafe { next.end(count) };
        count
    }

    /// Takes CQEs as long as they are of this status, each of the entry behind that of the one before it, and
    /// `take` takes it; how many.
    #[inline(always)]
    fn take_like<E>(
        &mut self,
        first: u64,
        status: u16,
        entries: &[E],
        wcs: &mut [MaybeUninit<ibv_wc>],
        take: impl Fn(Written<'_>, &E, &mut MaybeUninit<ibv_wc>) -> Option<()>,
    ) -> u32 {
        let mut expected = first;
        self.take_while(status, entries, wcs, |cqe, entry, wc| {
            if id(cqe) != expected {
                return None;
            }
            expected = Cookie::next(expected);
            take(cqe, entry, wc)
        })
    }
}

impl CompletionRing for Completions {
    fn capacity(&self) -> u32 {
        self.0.capacity()
    }

    type Found = Found;

    #[inline(always)]
    fn glance(&mut self) -> Sight<Found> {
        let Some(cqe) = self.0.next() else {
            return Sight::Nothing;
        };
        if status_of(cqe) != status::SUCCESS || self.0.has_come_round() {
            return Sight::Unclear;
        }
        Sight::Success(id(cqe), self.0.found())
    }

    #[inline(always)]
    fn is_last(&self) -> bool {
        self.0.is_last()
    }

    #[inline(always)]
    unsafe fn take_only<const SEND: bool>(
        &mut self,
        found: Found,
        wc: &mut MaybeUninit<ibv_wc>,
        wr_id: u64,
        opcode: ibv_wc_opcode,
    ) {
        // SAFETY: the caller's promise.
        unsafe {
            write_wc(self.0.written_at(found), wr_id, IBV_WC_SUCCESS, opcode, wc);
            self.0.advance_alone(found);
        }
    }

    #[inline(always)]
    fn front(&mut self) -> Option<Front> {
        let cqe = self.0.next()?;
        let status = status_of(cqe);
        Some(Front {
            cookie: id(cqe),
            is_success: status == status::SUCCESS,
            is_flush: status == status::WR_FLUSH_ERR,
        })
    }

    #[inline(always)]
    fn take_run<const SENDS: bool, E>(
        &mut self,
        first: u64,
        entries: &[E],
        of: impl Fn(&E) -> Option<(u64, ibv_wc_opcode)>,
        wcs: &mut [MaybeUninit<ibv_wc>],
    ) -> u32 {
        self.take_like(first, status::SUCCESS, entries, wcs, |cqe, entry, wc| {
            let (wr_id, opcode) = of(entry)?;
            write_wc(cqe, wr_id, IBV_WC_SUCCESS, opcode, wc);
            Some(())
        })
    }

    #[inline(always)]
    fn take_each<E>(
        &mut self,
        entries: &[E],
        complete: impl Fn(&E, u64) -> Option<u64>,
        wcs: &mut [MaybeUninit<ibv_wc>],
    ) -> u32 {
        self.take_while(status::SUCCESS, entries, wcs, |cqe, entry, wc| {
            let wr_id = complete(entry, id(cqe))?;
            write_wc(cqe, wr_id, IBV_WC_SUCCESS, IBV_WC_RECV, wc);
            Some(())
        })
    }

    #[inline(always)]
    fn take_flushes<E>(
        &mut self,
        first: u64,
        entries: &[E],
        of: impl Fn(&E) -> (u64, ibv_wc_opcode),
        wcs: &mut [MaybeUninit<ibv_wc>],
    ) -> u32 {
        self.take_like(
            first,
            status::WR_FLUSH_ERR,
            entries,
            wcs,
            |cqe, entry, wc| {
                let (wr_id, opcode) = of(entry);
                write_wc(cqe, wr_id, IBV_WC_WR_FLUSH_ERR, opcode, wc);
                Some(())
            },
        )
    }

    #[inline(always)]
    fn take<'w>(&mut self, wc: &'w mut MaybeUninit<ibv_wc>, wr_id: u64) -> &'w mut ibv_wc {
        let cqe = self.0.written();
        let wc = to_wc(cqe, wr_id, wc);
        self.0.advance();
        wc
    }

    /// Each entry was given back when it was read.
    fn release(&mut self) {
        self.0.end_batch();
    }

    fn may_glance(&self) -> bool {
        self.0.may_advance_alone()
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
            qp_num: number(cqe.qp_id),
        })
    }

    fn void(&mut self, ahead: u32) {
        self.0.overwrite_id(ahead, VOID);
    }
}

#[inline(always)]
fn to_wc<'w>(cqe: Written<'_>, wr_id: u64, wc: &'w mut MaybeUninit<ibv_wc>) -> &'w mut ibv_wc {
    write_wc(cqe, wr_id, status(status_of(cqe)), opcode(cqe), wc)
}

#[inline(always)]
fn write_wc<'w>(
    cqe: Written<'_>,
    wr_id: u64,
    status: ibv_wc_status,
    opcode: ibv_wc_opcode,
    wc: &'w mut MaybeUninit<ibv_wc>,
) -> &'w mut ibv_wc {
    *wc = MaybeUninit::zeroed();
    // SAFETY: integers, each of which may be 0.
    let wc = unsafe { wc.assume_init_mut() };
    wc.wr_id = wr_id;
    wc.status = status;
    wc.opcode = opcode;
    wc.byte_len = cqe.read_part::<{ offset_of!(Cqe, bytes) }, _>();
    wc.qp_num = number(cqe.read_part::<{ offset_of!(Cqe, qp_id) }, _>());
    wc
}

/// The `id` of a CQE: the cookie.
#[inline(always)]
fn id(cqe: Written<'_>) -> u64 {
    cqe.read_part::<{ offset_of!(Cqe, id) }, _>()
}

/// The status of a CQE, as siw has it.
#[inline(always)]
fn status_of(cqe: Written<'_>) -> u16 {
    cqe.read_part::<{ offset_of!(Cqe, status) }, _>()
}

/// The QP number in a CQE: 32 bits of the field.
fn number(qp_id: u64) -> u32 {
    #[expect(
        clippy::cast_possible_truncation,
        reason = "the kernel stores a u32 there (linux 6.1 siw_qp.c: siw_sqe_complete)"
    )]
    {
        qp_id as u32
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

/// siw's opcodes as libibverbs' completions have them; all others are SENDs.
#[expect(
    clippy::indexing_slicing,
    reason = "all opcodes are below 256; evaluated at build time"
)]
const OPCODES: [u8; 256] = {
    let mut all = [small(IBV_WC_SEND); 256];
    all[opcode::WRITE as usize] = small(IBV_WC_RDMA_WRITE);
    all[opcode::READ as usize] = small(IBV_WC_RDMA_READ);
    all[opcode::READ_LOCAL_INV as usize] = small(IBV_WC_RDMA_READ);
    all[opcode::FETCH_AND_ADD as usize] = small(IBV_WC_FETCH_ADD);
    all[opcode::COMP_AND_SWAP as usize] = small(IBV_WC_COMP_SWAP);
    all[opcode::RECEIVE as usize] = small(IBV_WC_RECV);
    all[opcode::INVAL_STAG as usize] = small(IBV_WC_LOCAL_INV);
    all
};

#[inline(always)]
fn opcode(cqe: Written<'_>) -> ibv_wc_opcode {
    let siw: u8 = cqe.read_part::<{ offset_of!(Cqe, opcode) }, _>();
    #[expect(clippy::indexing_slicing, reason = "there is one for each byte")]
    u32::from(OPCODES[usize::from(siw)])
}
