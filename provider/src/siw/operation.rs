// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause

//! The operations that siw has, and what each asks of a send.

use kernel_abi::siw::{flags, opcode};
use rdma_core_sys::{
    IBV_SEND_FENCE, IBV_SEND_INLINE, IBV_SEND_SIGNALED, IBV_SEND_SOLICITED, IBV_WC_LOCAL_INV,
    IBV_WC_RDMA_READ, IBV_WC_RDMA_WRITE, IBV_WC_SEND, IBV_WR_LOCAL_INV, IBV_WR_RDMA_READ,
    IBV_WR_RDMA_WRITE, IBV_WR_SEND, IBV_WR_SEND_WITH_INV, ibv_send_wr, ibv_sge,
};

use super::send::MAX_INLINE;
use crate::errno::{Errno, Result};
use crate::ledger::{Posted, small};
use crate::wr::SendRequest;

/// An operation of `enum ibv_wr_opcode`, which siw has or not.
#[derive(Debug, Clone, Copy)]
pub(super) struct Operation {
    pub(super) siw_opcode: u8,
    /// `enum ibv_wc_opcode` of its completion.
    completion: u8,
    /// Flags that its SQE always has.
    flags: u8,
    pub(super) own: Own,
}

/// What an operation has of its own in its SQE.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Own {
    Nothing,
    /// `wr.rdma`.
    Target,
    /// The key that it invalidates.
    Key,
    /// siw does not have the operation.
    Unknown,
}

/// By `enum ibv_wr_opcode`. iWARP has neither immediate data nor atomics.
#[expect(
    clippy::indexing_slicing,
    reason = "all opcodes are below 16; evaluated at build time"
)]
static OPERATIONS: [Operation; 16] = {
    const fn operation(siw_opcode: u8, completion: u32, own: Own) -> Operation {
        Operation {
            siw_opcode,
            completion: small(completion),
            // A READ completes late, and what is behind it must wait: its CQE is always needed.
            flags: if siw_opcode == opcode::READ {
                SIGNALLED
            } else {
                0
            },
            own,
        }
    }
    let mut all = [operation(0, 0, Own::Unknown); 16];
    all[IBV_WR_SEND as usize] = operation(opcode::SEND, IBV_WC_SEND, Own::Nothing);
    all[IBV_WR_SEND_WITH_INV as usize] = operation(opcode::SEND_REMOTE_INV, IBV_WC_SEND, Own::Key);
    all[IBV_WR_RDMA_WRITE as usize] = operation(opcode::WRITE, IBV_WC_RDMA_WRITE, Own::Target);
    all[IBV_WR_RDMA_READ as usize] = operation(opcode::READ, IBV_WC_RDMA_READ, Own::Target);
    // Of a region: siw has no windows (linux 6.1 `siw_qp_tx.c: siw_qp_sq_proc_local`).
    all[IBV_WR_LOCAL_INV as usize] = operation(opcode::INVAL_STAG, IBV_WC_LOCAL_INV, Own::Key);
    all
};

/// The flags of an SQE but for VALID, by those of `IBV_SEND_*` that siw has.
#[expect(clippy::indexing_slicing, reason = "evaluated at build time")]
static FLAGS: [u8; 16] = {
    const fn flag(asked: u32, send_flag: u32, flag: u16) -> u8 {
        if asked & send_flag == 0 {
            0
        } else {
            small(flag as u32)
        }
    }
    let mut all = [0; 16];
    let mut asked = 0_u32;
    while asked < 16 {
        all[asked as usize] = flag(asked, IBV_SEND_FENCE, flags::READ_FENCE)
            | flag(asked, IBV_SEND_SIGNALED, flags::SIGNALLED)
            | flag(asked, IBV_SEND_SOLICITED, flags::SOLICITED)
            | flag(asked, IBV_SEND_INLINE, flags::INLINE);
        asked = asked.wrapping_add(1);
    }
    all
};
const SIGNALLED: u8 = small(flags::SIGNALLED as u32);

impl Operation {
    /// # Errors
    ///
    /// `EINVAL` if siw does not have the operation.
    #[inline(always)]
    pub(super) fn of<W: SendRequest>(request: &W) -> Result<&'static Self> {
        // CAST: u32 fits usize on every target that libibverbs supports.
        let operation = OPERATIONS.get(request.wr().opcode as usize);
        match operation {
            Some(known) if known.own != Own::Unknown && request.beyond().is_none() => Ok(known),
            _ => Err(Errno::EINVAL),
        }
    }

    /// The flags of its SQE, but for VALID.
    #[inline(always)]
    #[expect(clippy::indexing_slicing, reason = "masked")]
    pub(super) fn flags(&self, send_flags: u32) -> u8 {
        // CAST: below 16.
        FLAGS[(send_flags & 15) as usize] | self.flags
    }

    #[inline(always)]
    pub(super) fn posted(&self, wr: &ibv_send_wr, send_flags: u32) -> Posted {
        Posted {
            wr_id: wr.wr_id,
            opcode: self.completion,
            signaled: send_flags & IBV_SEND_SIGNALED != 0,
            reported: self.flags(send_flags) & SIGNALLED != 0,
        }
    }

    pub(super) fn is_read(&self) -> bool {
        self.siw_opcode == opcode::READ
    }

    /// Whether the operation can be posted with these entries, not inline.
    ///
    /// # Errors
    ///
    /// `EINVAL` if not: siw does not take a fenced READ, and would leave it at the head of the queue for
    /// ever (linux 6.1 `siw_qp.c: siw_activate_tx_from_sq`).
    #[inline(always)]
    pub(super) fn check(&self, send_flags: u32, sges: &[ibv_sge]) -> Result<()> {
        let fits = match self.siw_opcode {
            opcode::READ => sges.len() == 1 && send_flags & IBV_SEND_FENCE == 0,
            opcode::INVAL_STAG => sges.is_empty(),
            _ => true,
        };
        if fits { Ok(()) } else { Err(Errno::EINVAL) }
    }

    /// The same for inline data, `length` bytes of it: what siw would not take, it leaves there likewise.
    ///
    /// # Errors
    ///
    /// `EINVAL` if the operation has none, or not as much.
    #[inline(always)]
    pub(super) fn check_inline(&self, length: u32) -> Result<()> {
        let has_data = matches!(self.siw_opcode, opcode::SEND | opcode::WRITE);
        if length > MAX_INLINE || !has_data {
            return Err(Errno::EINVAL);
        }
        Ok(())
    }
}
