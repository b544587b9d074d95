// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause

//! How a send becomes a WQE, `struct rxe_send_wqe`.

use kernel_abi::rxe::{AtomicWr, DmaInfo, FlushWr, MwWr, RdmaWr, SendWqe, SendWr, UdWr};
use rdma_core_sys::provider::WC_FLUSH;
use rdma_core_sys::{
    IBV_QPT_RC, IBV_QPT_UC, IBV_QPT_UD, IBV_SEND_INLINE, IBV_SEND_SIGNALED, IBV_WC_ATOMIC_WRITE,
    IBV_WC_BIND_MW, IBV_WC_COMP_SWAP, IBV_WC_FETCH_ADD, IBV_WC_LOCAL_INV, IBV_WC_RDMA_READ,
    IBV_WC_RDMA_WRITE, IBV_WC_SEND, IBV_WR_ATOMIC_CMP_AND_SWP, IBV_WR_ATOMIC_FETCH_AND_ADD,
    IBV_WR_BIND_MW, IBV_WR_LOCAL_INV, IBV_WR_RDMA_READ, IBV_WR_RDMA_WRITE,
    IBV_WR_RDMA_WRITE_WITH_IMM, IBV_WR_SEND, IBV_WR_SEND_WITH_IMM, IBV_WR_SEND_WITH_INV,
    ibv_qp_type, ibv_send_wr, ibv_sge,
};
use zerocopy::FromZeros;

use super::send::{Sends, write_sges};
use crate::ah::Ah;
use crate::errno::{Errno, Result};
use crate::ledger::{Posted, small};
use crate::ring::index::IndexRing;
use crate::wr::{Beyond, SendRequest, inline_bytes, message_len, sges};

/// A send, checked as far as all operations have it in common.
struct Checked<'w> {
    sges: &'w [ibv_sge],
    length: u32,
    is_inline: bool,
    posted: Posted,
}

impl Sends {
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
            IBV_WR_LOCAL_INV => (IBV_WC_LOCAL_INV, &[IBV_QPT_RC]),
            IBV_WR_BIND_MW => (IBV_WC_BIND_MW, &[IBV_QPT_RC, IBV_QPT_UC]),
            _ => return Err(Errno::EINVAL),
        };
        if types.contains(&self.qp_type) {
            Ok(small(completion))
        } else {
            Err(Errno::EINVAL)
        }
    }

    /// # Errors
    ///
    /// `EINVAL` if the QP does not have the operation, or not this form of it.
    fn check<'w, W: SendRequest>(&self, request: &'w W, signal_all: bool) -> Result<Checked<'w>> {
        let wr = request.wr();
        let opcode = match request.beyond() {
            None => self.completion_opcode(wr.opcode)?,
            Some(_) if self.qp_type != IBV_QPT_RC => return Err(Errno::EINVAL),
            Some(Beyond::AtomicWrite(_)) => small(IBV_WC_ATOMIC_WRITE),
            Some(Beyond::Flush { .. }) => small(WC_FLUSH),
        };
        let sges = sges(request, self.max_sge)?;
        let length = message_len(sges)?;
        let is_inline = wr.send_flags & IBV_SEND_INLINE != 0;
        // What is read has to be put somewhere.
        if is_inline && (length > self.max_inline || wr.opcode == IBV_WR_RDMA_READ) {
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

    /// What the ledger is to remember of a send that [`write_wqe`](Self::write_wqe) will write.
    ///
    /// # Errors
    ///
    /// `EINVAL` where that has it.
    pub(super) fn check_all<W: SendRequest>(
        &self,
        request: &W,
        signal_all: bool,
    ) -> Result<Posted> {
        let Checked {
            sges,
            is_inline,
            posted,
            ..
        } = self.check(request, signal_all)?;
        if is_inline {
            sges.iter()
                .try_for_each(|sge| inline_bytes(sge).map(drop))?;
        }
        let wr = request.wr();
        match wr.opcode {
            IBV_WR_BIND_MW => window(wr, sges).map(drop)?,
            IBV_WR_SEND | IBV_WR_SEND_WITH_IMM if self.qp_type == IBV_QPT_UD => {
                receiver(wr).map(drop)?;
            }
            _ => {}
        }
        Ok(posted)
    }

    /// Writes a WQE and what stands behind it.
    ///
    /// # Errors
    ///
    /// `EINVAL` if the QP does not have the operation, or not this form of it.
    pub(super) fn write_wqe<W: SendRequest>(
        &mut self,
        name: u32,
        cookie: u64,
        request: &W,
        signal_all: bool,
    ) -> Result<Posted> {
        let Checked {
            sges,
            length,
            is_inline,
            posted,
        } = self.check(request, signal_all)?;
        let wr = request.wr();
        if let Some(beyond) = request.beyond() {
            self.write_beyond(name, cookie, wr, beyond)?;
            return Ok(posted);
        }
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
                let own = target(wr);
                self.write_head(name, cookie, wr, own, own.remote_addr, dma);
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
                let own = window(wr, sges)?;
                self.write_head(name, cookie, wr, own, 0, dma);
            }
            IBV_WR_SEND | IBV_WR_SEND_WITH_IMM if self.qp_type == IBV_QPT_UD => {
                let own = receiver(wr)?;
                self.write_head(name, cookie, wr, own, 0, dma);
            }
            _ => self.write_head(name, cookie, wr, RdmaWr::default(), 0, dma),
        }
        Ok(posted)
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
        &mut self,
        name: u32,
        cookie: u64,
        wr: &ibv_send_wr,
        beyond: Beyond,
    ) -> Result<()> {
        let of_length = |length| DmaInfo {
            length,
            resid: length,
            ..DmaInfo::default()
        };
        let to = target(wr);
        match beyond {
            Beyond::AtomicWrite(bytes) => {
                self.ring.write_tail(name, 0, &bytes)?;
                self.write_head(name, cookie, wr, to, to.remote_addr, of_length(8));
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
                self.write_head(name, cookie, wr, own, to.remote_addr, of_length(length));
            }
        }
        Ok(())
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

/// The target of an operation that has one in `wr.rdma`.
fn target(wr: &ibv_send_wr) -> RdmaWr {
    // SAFETY: the member that these operations have; plain data.
    let rdma = unsafe { wr.wr.rdma };
    RdmaWr {
        remote_addr: rdma.remote_addr,
        rkey: rdma.rkey,
        ..RdmaWr::default()
    }
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
