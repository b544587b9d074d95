// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause

//! What the ledger of a send queue has of a send.

use rdma_core_sys::{IBV_WC_SUCCESS, IBV_WC_WR_FLUSH_ERR, ibv_wc_opcode};

/// What the library must remember of a send it accepted.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Posted {
    /// The caller's.
    pub(crate) wr_id: u64,
    pub(crate) standing: Standing,
}

/// How a send stands with the kernel: one word, so that a driver can have those of its operations ready. In its bytes
///
/// | | |
/// |---|---|
/// | 0 | `enum ibv_wc_opcode` of its completion |
/// | 1 | the status of an [`Outcome`]; without meaning before it is [held](Stage::Held) |
/// | 2 | 1 if the caller wants to see it succeed |
/// | 3 | its [`Stage`] |
// A structure of these would have bytes that are never 2, by which the compiler would tell an `Option`.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Standing(u32);

impl Standing {
    /// That of a send which is posted. If it is `reported`, the kernel posts a CQE when it succeeds: always true where
    /// it is `signaled`.
    pub(crate) const fn posted(opcode: u8, signaled: bool, reported: bool) -> Self {
        debug_assert!(reported || !signaled);
        let stage = if reported {
            Stage::Awaited
        } else {
            Stage::Silent
        };
        Self::of(opcode, Outcome::SUCCESS, signaled, stage)
    }

    const fn of(opcode: u8, status: u8, signaled: bool, stage: Stage) -> Self {
        Self(u32::from_ne_bytes([
            opcode,
            status,
            signaled as u8,
            stage as u8,
        ]))
    }

    /// The same of a send that is signaled.
    pub(super) const fn signaled(self) -> Self {
        Self::posted(self.opcode(), true, true)
    }

    /// The same of a send whose outcome is known, with its status.
    pub(super) const fn held(self, status: u8) -> Self {
        Self::of(self.opcode(), status, self.is_signaled(), Stage::Held)
    }

    #[inline(always)]
    pub(super) const fn opcode(self) -> u8 {
        let [opcode, ..] = self.0.to_ne_bytes();
        opcode
    }

    pub(super) const fn status(self) -> u8 {
        let [_, status, ..] = self.0.to_ne_bytes();
        status
    }

    #[inline(always)]
    pub(super) const fn is_signaled(self) -> bool {
        let [_, _, signaled, _] = self.0.to_ne_bytes();
        signaled != 0
    }

    pub(super) const fn stage(self) -> Stage {
        let [.., stage] = self.0.to_ne_bytes();
        match stage {
            0 => Stage::Silent,
            1 => Stage::Awaited,
            _ => Stage::Held,
        }
    }
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
    pub(super) standing: Standing,
}

impl Entry {
    /// Has a free one be that of this send.
    #[inline(always)]
    pub(super) fn enter(&mut self, posted: Posted) {
        self.wr_id = posted.wr_id;
        self.standing = posted.standing;
    }

    /// What the completion says of one that has succeeded by its CQE, if the application is to see that. Only where the
    /// CQE `may_be_unasked` for, it may be one of a send that is not signaled.
    #[inline(always)]
    pub(crate) fn due(&self, may_be_unasked: bool) -> Option<(u64, ibv_wc_opcode)> {
        debug_assert!(self.standing.stage() == Stage::Awaited || !self.standing.is_signaled());
        (!may_be_unasked || self.standing.is_signaled()).then(|| self.wr_id_and_opcode())
    }

    /// What its completion says, whatever has become of it.
    #[inline(always)]
    pub(crate) fn wr_id_and_opcode(&self) -> (u64, ibv_wc_opcode) {
        (self.wr_id, self.standing.opcode().into())
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum Stage {
    /// Succeeds without a CQE: over as soon as a later send is.
    Silent = 0,
    /// Its CQE is still to come.
    Awaited = 1,
    /// Its outcome is known before its turn: the CQE came early, or the library made it.
    Held,
}
