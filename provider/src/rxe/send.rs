// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause

//! rxe's SQ: `struct rxe_send_wqe`, the gather list or the inline data behind it.

use std::os::fd::RawFd;

use kernel_abi::rxe::{
    AtomicWr, DmaInfo, MmapInfo, MwWr, RdmaWr, SendWqe, SendWr, Sge, UdWr, wqe_state,
};
use rdma_core_sys::{
    IBV_QPT_RC, IBV_QPT_UC, IBV_QPT_UD, IBV_SEND_INLINE, IBV_SEND_SIGNALED, IBV_WC_BIND_MW,
    IBV_WC_COMP_SWAP, IBV_WC_FETCH_ADD, IBV_WC_LOCAL_INV, IBV_WC_RDMA_READ, IBV_WC_RDMA_WRITE,
    IBV_WC_SEND, IBV_WR_ATOMIC_CMP_AND_SWP, IBV_WR_ATOMIC_FETCH_AND_ADD, IBV_WR_BIND_MW,
    IBV_WR_LOCAL_INV, IBV_WR_RDMA_READ, IBV_WR_RDMA_WRITE, IBV_WR_RDMA_WRITE_WITH_IMM, IBV_WR_SEND,
    IBV_WR_SEND_WITH_IMM, IBV_WR_SEND_WITH_INV, ibv_qp_cap, ibv_qp_type, ibv_send_wr, ibv_sge,
};
use zerocopy::FromZeros;

use crate::ah::Ah;
use crate::driver::{Published, SendRing};
use crate::errno::{Errno, Result};
use crate::ledger::{Posted, small};
use crate::ring::index::IndexRing;
use crate::wr::{inline_bytes, message_len, sges};

/// Bytes of a gather list's entry.
#[expect(clippy::cast_possible_truncation, reason = "16")]
const SGE_BYTES: u32 = size_of::<Sge>() as u32;

/// A mapped SQ.
#[derive(Debug)]
pub(crate) struct Sends {
    ring: IndexRing<SendWqe>,
    qp_type: ibv_qp_type,
    max_sge: u32,
    /// Bytes.
    max_inline: u32,
}

impl Sends {
    /// # Errors
    ///
    /// `EIO` if a slot has no room for what `cap` promises; else what mapping says.
    pub(super) fn map(
        cmd_fd: RawFd,
        info: &MmapInfo,
        qp_type: ibv_qp_type,
        cap: &ibv_qp_cap,
    ) -> Result<Self> {
        let ring = IndexRing::<SendWqe>::map(cmd_fd, info)?;
        let sge_bytes = cap.max_send_sge.checked_mul(SGE_BYTES);
        let needed = sge_bytes.map(|bytes| bytes.max(cap.max_inline_data));
        let fits = needed
            .and_then(|n| usize::try_from(n).ok())
            .is_some_and(|n| n <= ring.tail_bytes());
        if !fits {
            return Err(Errno::EIO);
        }
        Ok(Self {
            ring,
            qp_type,
            max_sge: cap.max_send_sge,
            max_inline: cap.max_inline_data,
        })
    }

    /// `enum ibv_wc_opcode` of an operation that this type of QP has.
    fn completion_opcode(&self, opcode: u32) -> Result<u8> {
        let (completion, types): (u32, &[ibv_qp_type]) = match opcode {
            IBV_WR_SEND | IBV_WR_SEND_WITH_IMM => {
                (IBV_WC_SEND, &[IBV_QPT_RC, IBV_QPT_UC, IBV_QPT_UD])
            }
            IBV_WR_SEND_WITH_INV => (IBV_WC_SEND, &[IBV_QPT_RC, IBV_QPT_UC]),
            IBV_WR_RDMA_WRITE | IBV_WR_RDMA_WRITE_WITH_IMM => {
                (IBV_WC_RDMA_WRITE, &[IBV_QPT_RC, IBV_QPT_UC])
            }
            IBV_WR_RDMA_READ => (IBV_WC_RDMA_READ, &[IBV_QPT_RC]),
            IBV_WR_ATOMIC_CMP_AND_SWP => (IBV_WC_COMP_SWAP, &[IBV_QPT_RC]),
            IBV_WR_ATOMIC_FETCH_AND_ADD => (IBV_WC_FETCH_ADD, &[IBV_QPT_RC]),
            IBV_WR_LOCAL_INV => (IBV_WC_LOCAL_INV, &[IBV_QPT_RC, IBV_QPT_UC]),
            IBV_WR_BIND_MW => (IBV_WC_BIND_MW, &[IBV_QPT_RC, IBV_QPT_UC]),
            _ => return Err(Errno::EINVAL),
        };
        if types.contains(&self.qp_type) {
            Ok(small(completion))
        } else {
            Err(Errno::EINVAL)
        }
    }

    /// Writes the WQE's head with `wr` as its operation's own part.
    fn write_head<W: Copy + FromZeros>(
        &mut self,
        name: u32,
        cookie: u64,
        from: &ibv_send_wr,
        wr: W,
        remote_addr: u64,
        dma: DmaInfo,
    ) {
        // Zeroed as a whole: the kernel reads `has_rd_atomic`, `status` and `state` of a slot that
        // it used before.
        let mut wqe = SendWqe::<W>::zeroed();
        wqe.wr = SendWr {
            wr_id: cookie,
            reserved: 0,
            opcode: from.opcode,
            send_flags: from.send_flags,
            // SAFETY: both members of the union are 32 bits of plain data.
            ex: unsafe { from.__bindgen_anon_1.invalidate_rkey },
            wr,
        };
        wqe.iova = remote_addr;
        wqe.dma = dma;
        self.ring.write(name, &wqe);
    }
}

/// A send, checked.
struct Checked<'w> {
    sges: &'w [ibv_sge],
    length: u32,
    is_inline: bool,
    posted: Posted,
}

impl Sends {
    /// # Errors
    ///
    /// `EINVAL` if the QP does not have the operation, or not this form of it.
    fn check<'w>(&self, wr: &'w ibv_send_wr, signal_all: bool) -> Result<Checked<'w>> {
        let opcode = self.completion_opcode(wr.opcode)?;
        let sges = sges(wr, self.max_sge)?;
        let length = message_len(sges)?;
        let is_inline = wr.send_flags & IBV_SEND_INLINE != 0;
        if is_inline && length > self.max_inline {
            return Err(Errno::EINVAL);
        }
        if matches!(
            wr.opcode,
            IBV_WR_ATOMIC_CMP_AND_SWP | IBV_WR_ATOMIC_FETCH_AND_ADD
        ) {
            // SAFETY: the member that these operations have; plain data.
            let atomic = unsafe { wr.wr.atomic };
            if length < 8 || atomic.remote_addr % 8 != 0 || is_inline {
                return Err(Errno::EINVAL);
            }
        }
        let signaled = signal_all || wr.send_flags & IBV_SEND_SIGNALED != 0;
        Ok(Checked {
            sges,
            length,
            is_inline,
            posted: Posted {
                wr_id: wr.wr_id,
                opcode,
                signaled,
                reported: signaled,
            },
        })
    }
}

impl SendRing for Sends {
    fn capacity(&self) -> u32 {
        self.ring.capacity()
    }

    fn inspect(&self, wr: &ibv_send_wr, signal_all: bool) -> Result<Posted> {
        Ok(self.check(wr, signal_all)?.posted)
    }

    fn write(
        &mut self,
        name: u32,
        cookie: u64,
        wr: &ibv_send_wr,
        signal_all: bool,
    ) -> Result<Posted> {
        let Checked {
            sges,
            length,
            is_inline,
            posted,
        } = self.check(wr, signal_all)?;
        // The slot is not the kernel's before `publish`, so the tail may be written first.
        if is_inline {
            write_inline(&mut self.ring, name, sges)?;
        } else {
            write_sges(&mut self.ring, name, sges)?;
        }
        let dma = DmaInfo {
            length,
            resid: length,
            num_sge: wr.num_sge.unsigned_abs(),
            ..DmaInfo::default()
        };
        match wr.opcode {
            IBV_WR_RDMA_WRITE | IBV_WR_RDMA_WRITE_WITH_IMM | IBV_WR_RDMA_READ => {
                // SAFETY: the member that these operations have; plain data.
                let rdma = unsafe { wr.wr.rdma };
                let own = RdmaWr {
                    remote_addr: rdma.remote_addr,
                    rkey: rdma.rkey,
                    ..RdmaWr::default()
                };
                self.write_head(name, cookie, wr, own, rdma.remote_addr, dma);
            }
            IBV_WR_ATOMIC_CMP_AND_SWP | IBV_WR_ATOMIC_FETCH_AND_ADD => {
                // SAFETY: the member that these operations have; plain data.
                let atomic = unsafe { wr.wr.atomic };
                let own = AtomicWr {
                    remote_addr: atomic.remote_addr,
                    compare_add: atomic.compare_add,
                    swap: atomic.swap,
                    rkey: atomic.rkey,
                    ..AtomicWr::default()
                };
                self.write_head(name, cookie, wr, own, atomic.remote_addr, dma);
            }
            IBV_WR_BIND_MW => {
                // SAFETY: the member that this operation has; plain data.
                let bind = unsafe { wr.__bindgen_anon_2.bind_mw };
                if !sges.is_empty() || bind.mw.is_null() || bind.bind_info.mr.is_null() {
                    return Err(Errno::EINVAL);
                }
                // SAFETY: the caller's window and region, not NULL.
                let (mw_rkey, mr_lkey) = unsafe { ((*bind.mw).rkey, (*bind.bind_info.mr).lkey) };
                let own = MwWr {
                    addr: bind.bind_info.addr,
                    length: bind.bind_info.length,
                    mr_lkey,
                    mw_rkey,
                    rkey: bind.rkey,
                    access: bind.bind_info.mw_access_flags,
                    ..MwWr::default()
                };
                self.write_head(name, cookie, wr, own, 0, dma);
            }
            IBV_WR_SEND | IBV_WR_SEND_WITH_IMM if self.qp_type == IBV_QPT_UD => {
                // SAFETY: the member that a datagram has; plain data.
                let ud = unsafe { wr.wr.ud };
                // SAFETY: the caller's address handle, which is ours as its QP is.
                let ah_num = unsafe { Ah::number(ud.ah) }.ok_or(Errno::EINVAL)?;
                let own = UdWr {
                    remote_qpn: ud.remote_qpn,
                    remote_qkey: ud.remote_qkey,
                    ah_num,
                    ..UdWr::default()
                };
                self.write_head(name, cookie, wr, own, 0, dma);
            }
            _ => self.write_head(name, cookie, wr, RdmaWr::default(), 0, dma),
        }
        Ok(posted)
    }

    fn publish(&mut self, _first: u32, end: u32) -> Published {
        self.ring.publish_producer(end);
        // The requester runs for a doorbell alone (linux 6.1 `rxe_verbs.c: rxe_post_send`).
        Published::Unseen
    }

    /// Never: rxe refuses a doorbell by the state, which is looked at before the ring is written.
    fn take_back(&mut self, _first: u32, _end: u32) -> bool {
        false
    }

    /// An empty SEND, which in ERR is flushed as any other.
    fn mark(&mut self, id: u64) -> bool {
        if self.ring.is_full() {
            return false;
        }
        let at = self.ring.producer();
        let mut wqe = SendWqe::<RdmaWr>::zeroed();
        wqe.wr.wr_id = id;
        wqe.wr.opcode = IBV_WR_SEND;
        wqe.wr.send_flags = IBV_SEND_SIGNALED;
        self.ring.write(at, &wqe);
        self.ring.publish_producer(at.wrapping_add(1));
        true
    }

    /// There is none ahead of death.
    fn unmark(&mut self) {}

    fn is_marked(&self) -> bool {
        false
    }

    /// A flush leaves nothing in the ring.
    fn is_untouched(&self, _name: u32) -> bool {
        false
    }

    fn is_drained(&self) -> bool {
        self.ring.is_empty()
    }

    /// The requester stops at a WQE that it cannot send, and linux 6.1 leaves it at that until the
    /// sends before it complete, which they may never do (`rxe_req.c: rxe_requester`,
    /// `rxe_comp.c: rxe_completer` with `need_retry`).
    fn has_failed(&self, first: u32, end: u32) -> bool {
        let mut name = first;
        while name != end {
            match self
                .ring
                .read_u32::<{ SendWqe::<RdmaWr>::STATE_OFFSET }>(name)
            {
                wqe_state::POSTED => return false,
                wqe_state::ERROR => return true,
                _ => name = name.wrapping_add(1),
            }
        }
        false
    }

    fn position(&self) -> (u32, u32) {
        (self.ring.producer(), self.ring.capacity())
    }

    /// The consumer index moves when a WQE completes, just before its CQE is posted
    /// (linux 6.1 `rxe_comp.c: do_complete`).
    fn is_past(&self, name: u32, end: u32) -> bool {
        let waiting = end.wrapping_sub(self.ring.consumer()) & self.ring.capacity();
        end.wrapping_sub(name) > waiting.wrapping_add(1)
    }
}

/// Writes a scatter/gather list behind a WQE.
pub(super) fn write_sges<T: Copy + zerocopy::FromBytes>(
    ring: &mut IndexRing<T>,
    index: u32,
    sges: &[ibv_sge],
) -> Result<()> {
    // `struct ibv_sge` is `struct rxe_sge`, member by member.
    const { assert!(size_of::<ibv_sge>() == size_of::<Sge>()) };
    // SAFETY: `ibv_sge` is three integers without padding, and so bytes.
    let bytes = unsafe { std::slice::from_raw_parts(sges.as_ptr().cast(), size_of_val(sges)) };
    ring.write_tail(index, 0, bytes)
}

/// Writes the bytes that a gather list names behind a WQE.
fn write_inline(ring: &mut IndexRing<SendWqe>, index: u32, sges: &[ibv_sge]) -> Result<()> {
    let mut at = 0_usize;
    for sge in sges {
        let bytes = inline_bytes(sge)?;
        ring.write_tail(index, at, bytes)?;
        at = at.saturating_add(bytes.len());
    }
    Ok(())
}
