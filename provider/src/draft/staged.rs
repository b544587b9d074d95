// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause

//! The work requests of a draft, and how they are posted.

use std::ffi::c_int;

use rdma_core_sys::provider::WR_FLUSH;
use rdma_core_sys::{IBV_WR_ATOMIC_WRITE, ibv_send_wr, ibv_sge};

use crate::wr::{Beyond, Requests, SendRequest, WorkRequest};

/// A work request under construction, or done. Zeroes are one.
#[repr(C)]
pub(crate) struct Staged {
    pub(super) wr: ibv_send_wr,
    /// Its data, if that is in one piece.
    only: ibv_sge,
    /// What the operations have that are [`Beyond`] the others.
    bytes: [u8; 8],
    length: u32,
    placement: u8,
    selectivity: u8,
}

impl Staged {
    /// What its operation has of its own, which is all to be set: an earlier draft may have left something.
    #[inline(always)]
    pub(crate) fn own(&mut self) -> &mut ibv_send_wr {
        &mut self.wr
    }

    /// Sets what belongs to an operation that `struct ibv_send_wr` does not have.
    pub(crate) fn go_beyond(&mut self, beyond: Beyond) {
        match beyond {
            Beyond::AtomicWrite(bytes) => self.bytes = bytes,
            Beyond::Flush {
                length,
                placement,
                selectivity,
            } => {
                (self.length, self.placement, self.selectivity) = (length, placement, selectivity);
            }
        }
    }

    /// Gives it data in one piece.
    #[inline(always)]
    pub(super) fn set_only(&mut self, sge: ibv_sge) {
        self.only = sge;
        self.wr.num_sge = 1;
        self.wr.sg_list = &raw mut self.only;
    }
}

impl WorkRequest for Staged {
    fn sg_list(&self) -> (*const ibv_sge, c_int) {
        self.wr.sg_list()
    }
}

impl SendRequest for Staged {
    fn wr(&self) -> &ibv_send_wr {
        &self.wr
    }

    fn beyond(&self) -> Option<Beyond> {
        match self.wr.opcode {
            IBV_WR_ATOMIC_WRITE => Some(Beyond::AtomicWrite(self.bytes)),
            WR_FLUSH => Some(Beyond::Flush {
                length: self.length,
                placement: self.placement,
                selectivity: self.selectivity,
            }),
            _ => None,
        }
    }
}

/// A whole draft, of work requests that `struct ibv_send_wr` can describe: so what most drafts are is posted no other
/// way than a list.
#[derive(Clone, Copy)]
pub(crate) struct Whole<'d> {
    pub(super) all: &'d [Staged],
    pub(super) are_simple: bool,
}

impl Requests for Whole<'_> {
    type One = ibv_send_wr;

    #[inline(always)]
    fn peek(&self) -> Option<&ibv_send_wr> {
        self.all.first().map(|staged| &staged.wr)
    }

    #[inline(always)]
    fn pass(&mut self) {
        self.all.pass();
    }

    #[inline(always)]
    fn are_simple(&self) -> bool {
        self.are_simple
    }
}
