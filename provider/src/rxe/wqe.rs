// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause

//! How a send becomes a WQE, `struct rxe_send_wqe`.

use std::mem::offset_of;
use std::ptr;

use kernel_abi::rxe::{AtomicWr, DmaInfo, FlushWr, MwWr, RdmaWr, SendHead, SendWqe, UdWr};
use rdma_core_sys::{IBV_SEND_SIGNALED, IBV_WR_RDMA_READ, ibv_send_wr, ibv_sge};

use super::operations::{Operation, Operations, Own};
use super::send::write_sges;
use crate::ah::Ah;
use crate::errno::{Errno, Result};
use crate::ledger::Posted;
use crate::ring::index::OpenSlot;
use crate::wr::{Beyond, SendRequest, inline_bytes, is_inline, message_len, sges};

/// What a QP takes.
#[derive(Debug)]
pub(super) struct Terms {
    pub(super) operations: &'static Operations,
    pub(super) max_sge: u32,
    /// Bytes.
    pub(super) max_inline: u32,
}

impl Terms {
    /// What the ledger is to remember of a send that [`write`](Self::write) will write.
    ///
    /// # Errors
    ///
    /// `EINVAL` where that has it.
    pub(super) fn check<W: SendRequest>(&self, request: &W) -> Result<Posted> {
        let wr = request.wr();
        let operation = self.operations.get(request)?;
        let sges = sges(request, self.max_sge)?;
        let length = message_len(sges)?;
        if is_inline(wr) {
            self.check_inline(wr, length)?;
            sges.iter()
                .try_for_each(|sge| inline_bytes(sge).map(drop))?;
        }
        match operation.own {
            Own::Nothing | Own::Target => {}
            Own::Atomic => atomic(wr, length).map(drop)?,
            Own::Receiver => receiver(wr).map(drop)?,
            Own::Window => window(wr, sges).map(drop)?,
        }
        Ok(posted(wr, operation, 0))
    }

    /// # Errors
    ///
    /// `EINVAL` if the data is too long to be inline, or none: what is read has to be put somewhere.
    #[inline(always)]
    fn check_inline(&self, wr: &ibv_send_wr, length: u32) -> Result<()> {
        if length > self.max_inline || wr.opcode == IBV_WR_RDMA_READ {
            return Err(Errno::EINVAL);
        }
        Ok(())
    }

    /// Writes a WQE, and its `only` entry behind it, `INLINE` or not, if that is done quickly; the operation. It
    /// takes no call then, and nothing is wrong. If not, it is for [`write`](Self::write).
    ///
    /// The slot is not the kernel's before `publish`, so the parts may be written in any order, and some in vain.
    #[inline(always)]
    pub(super) fn write_quickly<W: SendRequest, const INLINE: bool>(
        &self,
        mut slot: OpenSlot<'_, SendWqe>,
        cookie: u64,
        request: &W,
        only: &ibv_sge,
    ) -> Option<&Operation> {
        let wr = request.wr();
        let operation = match self.operations.get(request) {
            Ok(known) if matches!(known.own, Own::Nothing | Own::Target) => known,
            _ => return None,
        };
        if request.beyond().is_some() || self.max_sge == 0 {
            return None;
        }
        if !INLINE {
            slot.write_tail_part(only).ok()?;
        } else {
            self.check_inline(wr, only.length).ok()?;
            if !slot.write_bytes_quickly(inline_bytes(only).ok()?) {
                return None;
            }
        }
        if operation.own == Own::Target {
            write_target(&mut slot, wr);
        } else {
            write_iova(&mut slot, 0);
        }
        write_parts(&mut slot, head(wr, cookie), dma(1, only.length));
        Some(operation)
    }

    /// Writes a WQE, and what stands behind it; the operation.
    ///
    /// # Errors
    ///
    /// `EINVAL` if the QP does not have the operation, or not this form of it.
    // Cold: the registers are for those that are written quickly.
    #[cold]
    #[inline(never)]
    pub(super) fn write<W: SendRequest>(
        &self,
        mut slot: OpenSlot<'_, SendWqe>,
        cookie: u64,
        request: &W,
    ) -> Result<&Operation> {
        let wr = request.wr();
        let operation = self.operations.get(request)?;
        let sges = sges(request, self.max_sge)?;
        if let Some(beyond) = request.beyond() {
            write_beyond(slot, cookie, wr, beyond)?;
            return Ok(operation);
        }
        let length = if !is_inline(wr) {
            write_sges(&mut slot, sges)?
        } else {
            self.write_inline(&mut slot, wr, sges)?
        };
        match operation.own {
            Own::Nothing => write_iova(&mut slot, 0),
            Own::Target => write_target(&mut slot, wr),
            Own::Atomic => {
                let own = atomic(wr, length)?;
                write_own(&mut slot, own);
                write_iova(&mut slot, own.remote_addr);
            }
            Own::Receiver => {
                write_own(&mut slot, receiver(wr)?);
                write_iova(&mut slot, 0);
            }
            Own::Window => {
                write_own(&mut slot, window(wr, sges)?);
                write_iova(&mut slot, 0);
            }
        }
        let dma = dma(wr.num_sge.cast_unsigned(), length);
        write_parts(&mut slot, head(wr, cookie), dma);
        Ok(operation)
    }

    /// Writes the bytes that a gather list names behind a WQE; how many.
    ///
    /// # Errors
    ///
    /// As [`write`](Self::write).
    fn write_inline(
        &self,
        slot: &mut OpenSlot<'_, SendWqe>,
        wr: &ibv_send_wr,
        sges: &[ibv_sge],
    ) -> Result<u32> {
        let length = message_len(sges)?;
        self.check_inline(wr, length)?;
        let mut at = 0_usize;
        for sge in sges {
            let bytes = inline_bytes(sge)?;
            slot.write_tail(at, bytes)?;
            at = at.wrapping_add(bytes.len());
        }
        Ok(length)
    }
}

/// Writes the WQE of an operation that linux 6.2 added.
///
/// The bytes of an atomic write stand where the first entry would (linux 6.12 `rxe_req.c:
/// finish_packet`); a flush has none, and its length is that of the data (`init_req_packet`).
///
/// # Errors
///
/// `EINVAL` if a slot has no room for them, which every one has.
fn write_beyond(
    mut slot: OpenSlot<'_, SendWqe>,
    cookie: u64,
    wr: &ibv_send_wr,
    beyond: Beyond,
) -> Result<()> {
    let to = target(wr);
    let length = match beyond {
        Beyond::AtomicWrite(bytes) => {
            slot.write_tail(0, &bytes)?;
            write_own(&mut slot, to);
            8
        }
        Beyond::Flush {
            length,
            placement,
            selectivity,
        } => {
            let own = FlushWr {
                remote_addr: to.remote_addr,
                length,
                rkey: to.rkey,
                placement_type: placement,
                level: selectivity,
                ..FlushWr::default()
            };
            write_own(&mut slot, own);
            length
        }
    };
    write_iova(&mut slot, to.remote_addr);
    write_parts(&mut slot, head(wr, cookie), dma(0, length));
    Ok(())
}

/// What the kernel starts from: a message of this length in so many entries.
#[inline(always)]
pub(super) fn dma(num_sge: u32, length: u32) -> DmaInfo {
    DmaInfo {
        length,
        resid: length,
        num_sge,
        ..DmaInfo::default()
    }
}

/// Writes what an operation has of its own into the union of the WQE.
#[inline(always)]
fn write_own<W: Copy>(slot: &mut OpenSlot<'_, SendWqe>, own: W) {
    slot.write_part::<{ SendWqe::<RdmaWr>::UNION_OFFSET }, _>(own);
}

/// Writes the target of an operation that has one in `wr.rdma`.
#[inline(always)]
fn write_target(slot: &mut OpenSlot<'_, SendWqe>, wr: &ibv_send_wr) {
    let to = target(wr);
    write_own(slot, to);
    write_iova(slot, to.remote_addr);
}

/// Writes the remote address where the kernel starts from; 0 if there is none.
#[inline(always)]
pub(super) fn write_iova(slot: &mut OpenSlot<'_, SendWqe>, iova: u64) {
    slot.write_part::<{ SendWqe::<RdmaWr>::IOVA_OFFSET }, _>(iova);
}

/// Writes the WQE but for the union and the remote address. Of the union the kernel reads what the operation has and
/// nothing else (linux 6.1, 6.12 `rxe_req.c`, `rxe_comp.c`, `rxe_mw.c`). It reads `has_rd_atomic`, `status` and
/// `state` of a slot that it used before, so these are zeroed.
#[inline(always)]
pub(super) fn write_parts(slot: &mut OpenSlot<'_, SendWqe>, head: SendHead, dma: DmaInfo) {
    slot.write_part::<0, _>(head);
    slot.reset_word::<{ SendWqe::<RdmaWr>::STATUS_OFFSET }>();
    slot.write_part::<{ SendWqe::<RdmaWr>::HAS_RD_ATOMIC_OFFSET }, _>(0_u32);
    slot.write_part::<{ SendWqe::<RdmaWr>::DMA_OFFSET }, _>(dma);
}

/// What a WQE begins with. The kernel does not look at what it calls `reserved`, in whose place the caller's
/// `num_sge` stands.
#[inline(always)]
fn head(wr: &ibv_send_wr, cookie: u64) -> SendHead {
    let words = ptr::from_ref(wr).wrapping_byte_add(offset_of!(ibv_send_wr, num_sge));
    // SAFETY: four members of 32 bits of plain data, one behind the other (asserted below).
    let [reserved, opcode, send_flags, ex] = unsafe { words.cast::<[u32; 4]>().read() };
    SendHead {
        wr_id: cookie,
        reserved,
        opcode,
        send_flags,
        ex,
    }
}

const _: () = {
    // All are as far from each other as here.
    let apart = offset_of!(ibv_send_wr, num_sge).wrapping_sub(offset_of!(SendHead, reserved));
    assert!(offset_of!(ibv_send_wr, opcode).wrapping_sub(offset_of!(SendHead, opcode)) == apart);
    assert!(
        offset_of!(ibv_send_wr, send_flags).wrapping_sub(offset_of!(SendHead, send_flags)) == apart
    );
    assert!(
        offset_of!(ibv_send_wr, __bindgen_anon_1).wrapping_sub(offset_of!(SendHead, ex)) == apart
    );
};

/// What the ledger is to remember of a send, if all have `flags`.
#[inline(always)]
pub(super) fn posted(wr: &ibv_send_wr, operation: &Operation, flags: u32) -> Posted {
    let is_signaled = (wr.send_flags | flags) & IBV_SEND_SIGNALED != 0;
    let [silent, signaled] = &operation.standing;
    Posted {
        wr_id: wr.wr_id,
        standing: if is_signaled { *signaled } else { *silent },
    }
}

/// What the kernel reads of an [`RdmaWr`].
#[derive(Clone, Copy)]
#[repr(C)]
struct Target {
    remote_addr: u64,
    rkey: u32,
    reserved: u32,
}

const _: () = assert!(
    offset_of!(Target, rkey) == offset_of!(RdmaWr, rkey)
        && size_of::<Target>() == offset_of!(RdmaWr, pad)
);

/// The target of an operation that has one in `wr.rdma`.
#[inline(always)]
fn target(wr: &ibv_send_wr) -> Target {
    // SAFETY: the member that these operations have; plain data.
    let rdma = unsafe { wr.wr.rdma };
    Target {
        remote_addr: rdma.remote_addr,
        rkey: rdma.rkey,
        reserved: 0,
    }
}

/// # Errors
///
/// `EINVAL` if the address is not a multiple of 8, or the answer has nowhere to go.
fn atomic(wr: &ibv_send_wr, length: u32) -> Result<AtomicWr> {
    // SAFETY: the member that these operations have; plain data.
    let atomic = unsafe { wr.wr.atomic };
    if length < 8 || atomic.remote_addr % 8 != 0 || is_inline(wr) {
        return Err(Errno::EINVAL);
    }
    Ok(AtomicWr {
        remote_addr: atomic.remote_addr,
        compare_add: atomic.compare_add,
        swap: atomic.swap,
        rkey: atomic.rkey,
        ..AtomicWr::default()
    })
}

/// The receiver of a datagram.
///
/// # Errors
///
/// `EINVAL` if there is no address handle.
fn receiver(wr: &ibv_send_wr) -> Result<UdWr> {
    // SAFETY: the member that a datagram has; plain data.
    let ud = unsafe { wr.wr.ud };
    // SAFETY: the caller's address handle, which is ours as its QP is.
    let ah_num = unsafe { Ah::number(ud.ah) }.ok_or(Errno::EINVAL)?;
    Ok(UdWr {
        remote_qpn: ud.remote_qpn,
        remote_qkey: ud.remote_qkey,
        ah_num,
        ..UdWr::default()
    })
}

/// The window that a bind is for.
///
/// # Errors
///
/// `EINVAL` if there is none, if the send has data, or if the window is to have bytes of no region. One
/// without bytes needs none (`ibv_alloc_mw`(3)), and the kernel does not look it up
/// (linux 6.1, 6.12 `rxe_mw.c: rxe_bind_mw`).
fn window(wr: &ibv_send_wr, sges: &[ibv_sge]) -> Result<MwWr> {
    // SAFETY: the member that this operation has; plain data.
    let bind = unsafe { wr.__bindgen_anon_2.bind_mw };
    // SAFETY: the caller's window and region, or NULL.
    let (mw, mr) = unsafe { (bind.mw.as_ref(), bind.bind_info.mr.as_ref()) };
    let mw = mw.filter(|_| sges.is_empty()).ok_or(Errno::EINVAL)?;
    let mr_lkey = match mr {
        Some(mr) => mr.lkey,
        None if bind.bind_info.length == 0 => 0,
        None => return Err(Errno::EINVAL),
    };
    Ok(MwWr {
        addr: bind.bind_info.addr,
        length: bind.bind_info.length,
        mr_lkey,
        mw_rkey: mw.rkey,
        rkey: bind.rkey,
        access: bind.bind_info.mw_access_flags,
        ..MwWr::default()
    })
}
