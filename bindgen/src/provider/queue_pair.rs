// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
//! The one shared struct whose layout moved: `verbs_qp`.

use std::fmt;

use crate::{
    Library,
    public::{ibv_qp, ibv_qp_ex},
};

/// Bit of a QP's `comp_mask`: the `xrcd` member is valid.
pub const VERBS_QP_XRCD: u32 = 1 << 0;
/// Bit of a QP's `comp_mask`: the QP may be used as an [`ibv_qp_ex`].
pub const VERBS_QP_EX: u32 = 1 << 1;

/// `IBV_QP_EX_WITH_FLUSH`: v45 brought it, so the header of v44 does not have it, nor those below.
pub const QP_EX_WITH_FLUSH: u32 = 1 << 11;
/// `IBV_WR_FLUSH`, the work request's opcode.
pub const WR_FLUSH: u32 = 14;
/// `IBV_WC_FLUSH`, its completion's.
pub const WC_FLUSH: u32 = 8;

/// The type of `ibv_qp_ex.wr_flush`, which serves `ibv_wr_flush`(3).
pub type WrFlush = unsafe extern "C" fn(
    qp: *mut ibv_qp_ex,
    rkey: u32,
    remote_address: u64,
    length_bytes: usize,
    placement: u8,
    selectivity: u8,
);

/// A queue pair, with room for the largest known one (376 bytes) and two words more.
///
/// `ibv_qp_ex` grew in v44 and v45, which moved the `comp_mask` behind it; hence
/// [`set_comp_mask`](Self::set_comp_mask). What stands behind the mask is libibverbs' own.
#[repr(C)]
pub union verbs_qp {
    /// The plain queue pair.
    pub qp: ibv_qp,
    /// The extended queue pair, which begins with the plain one.
    pub qp_ex: ibv_qp_ex,
    reserved: [u64; 49],
}

impl verbs_qp {
    /// Writes the mask that tells libibverbs which parts of the QP are valid.
    ///
    /// # Safety
    ///
    /// * `qp` points to a `verbs_qp` that no other thread uses.
    pub unsafe fn set_comp_mask(qp: *mut Self, library: &Library, mask: u32) {
        let offset = library.generation.sizes.qp_comp_mask;
        // SAFETY: every known generation has the mask within the reserved size, at a multiple of
        // 4 (asserted in `generation`).
        unsafe { qp.cast::<u32>().byte_add(offset).write(mask) }
    }

    /// Whether this libibverbs has `ibv_qp_ex.wr_flush`, as v45 and later do.
    ///
    /// v44 has the mask in its place, and the header of v44 no such member.
    #[must_use]
    pub fn has_wr_flush(library: &Library) -> bool {
        library.generation.sizes.qp_comp_mask > WR_FLUSH_OFFSET
    }

    /// Installs `ibv_qp_ex.wr_flush`, the last operation, if this libibverbs has it.
    ///
    /// # Safety
    ///
    /// * `qp` points to a `verbs_qp` that no other thread uses.
    pub unsafe fn set_wr_flush(qp: *mut Self, library: &Library, op: WrFlush) {
        if Self::has_wr_flush(library) {
            // SAFETY: the member is within the reserved size, at a multiple of 8.
            unsafe { qp.cast::<WrFlush>().byte_add(WR_FLUSH_OFFSET).write(op) };
        }
    }
}

/// Bytes from the start of an `ibv_qp_ex` to `wr_flush`.
pub const WR_FLUSH_OFFSET: usize = 352;

impl fmt::Debug for verbs_qp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // SAFETY: both views begin with the same members, and hold for any bits.
        fmt::Debug::fmt(unsafe { &self.qp }, f)
    }
}

const _: () = assert!(size_of::<verbs_qp>() == 376 + 16);
