// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause

//! The element of a receive queue.

use super::send::DmaInfo;
use crate::layout::assert_layout;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// Element of a receive queue or shared receive queue (`struct rxe_recv_wqe`).
///
/// The user writes all of it; [`dma`](Self::dma)'s `num_sge` scatter entries follow at
/// [`SGE_OFFSET`](Self::SGE_OFFSET).
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
#[repr(C)]
#[derive(FromBytes, Immutable, IntoBytes, KnownLayout)]
pub struct RecvWqe {
    /// Returned in the completion.
    pub wr_id: u64,
    /// Zero.
    pub reserved: u32,
    /// Zero.
    pub padding: u32,
    /// The buffer, and how far the kernel has filled it.
    pub dma: DmaInfo,
}

assert_layout!(RecvWqe, size 40, align 8, { wr_id: 0, reserved: 8, padding: 12, dma: 16 });

impl RecvWqe {
    /// Offset of the first [`Sge`](super::Sge).
    pub const SGE_OFFSET: usize = size_of::<Self>();
}
