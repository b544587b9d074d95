// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause

//! What the ledger of a send queue has of a send.

use rdma_core_sys::{IBV_WC_SUCCESS, IBV_WC_WR_FLUSH_ERR, ibv_wc_opcode};

/// What the library must remember of a send it accepted.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Posted {
    /// The caller's.
    pub(crate) wr_id: u64,
    /// `enum ibv_wc_opcode` of its completion.
    pub(crate) opcode: u8,
    /// The caller wants to see it succeed.
    pub(crate) signaled: bool,
    /// The kernel posts a CQE when it succeeds. Always true where `signaled` is.
    pub(crate) reported: bool,
}

/// How a send ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Outcome {
    /// `enum ibv_wc_status`; 0 is success.
    pub(crate) status: u8,
    /// Bytes read by an RDMA READ or atomic; without meaning otherwise.
    pub(crate) byte_len: u32,
}

impl Outcome {
    pub(super) const SUCCESS: u8 = small(IBV_WC_SUCCESS);
    /// What is assumed of a send that must have succeeded.
    pub(super) const DONE: Self = Self {
        status: Self::SUCCESS,
        byte_len: 0,
    };
    /// What the library itself makes of a send that the kernel will not complete.
    pub(crate) const FLUSHED: Self = Self {
        status: small(IBV_WC_WR_FLUSH_ERR),
        byte_len: 0,
    };
}

/// One of the verbs' small codes, an opcode or a status, as an entry stores it.
pub(crate) const fn small(code: u32) -> u8 {
    assert!(code <= 0xff);
    #[expect(clippy::cast_possible_truncation, reason = "asserted above")]
    {
        code as u8
    }
}

/// A send that is due to the application.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Sent {
    pub(crate) wr_id: u64,
    pub(crate) opcode: u8,
    pub(crate) outcome: Outcome,
}

/// An outstanding send.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Entry {
    pub(super) wr_id: u64,
    /// Of an [`Outcome`]; without meaning before it is [held](Stage::Held).
    pub(super) byte_len: u32,
    pub(super) opcode: u8,
    /// As `byte_len`.
    pub(super) status: u8,
    pub(super) signaled: bool,
    pub(super) progress: Stage,
}

impl Entry {
    /// Has a free one be that of this send.
    #[inline(always)]
    pub(super) fn enter(&mut self, posted: Posted) {
        debug_assert!(posted.reported || !posted.signaled);
        self.wr_id = posted.wr_id;
        self.opcode = posted.opcode;
        self.signaled = posted.signaled;
        self.progress = if posted.reported {
            Stage::Awaited
        } else {
            Stage::Silent
        };
    }

    /// What its completion says, if the application sees it succeed. It has a CQE then, which is awaited if the entry is
    /// not [held](Stage::Held).
    #[inline(always)]
    pub(crate) fn due(&self) -> Option<(u64, ibv_wc_opcode)> {
        debug_assert!(!self.signaled || self.progress == Stage::Awaited);
        self.signaled.then(|| self.wr_id_and_opcode())
    }

    /// What its completion says, whatever has become of it.
    #[inline(always)]
    pub(crate) fn wr_id_and_opcode(&self) -> (u64, ibv_wc_opcode) {
        (self.wr_id, self.opcode.into())
    }
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) enum Stage {
    /// Succeeds without a CQE: over as soon as a later send is.
    #[default]
    Silent,
    /// Its CQE is still to come.
    Awaited,
    /// Its outcome is known before its turn: the CQE came early, or the library made it.
    Held,
}
