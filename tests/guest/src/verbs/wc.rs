// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause

//! The work completion.

use std::borrow::Cow;
use std::ffi::CStr;
use std::fmt;
use std::ops::Deref;

use super::sys;

/// A work completion, `ibv_wc`, that can be printed.
#[derive(Clone, Copy)]
#[repr(transparent)]
pub struct Wc(pub sys::ibv_wc);

impl Wc {
    /// A completion that no provider has touched: each byte is 0xa5, so that a field which is left
    /// alone can be told.
    #[must_use]
    pub fn untouched() -> Self {
        // SAFETY: `ibv_wc` consists of integers, for which every bit pattern is a value.
        Self(unsafe {
            std::mem::transmute::<[u8; size_of::<sys::ibv_wc>()], sys::ibv_wc>([0xa5; _])
        })
    }

    /// Immediate data, in host byte order.
    #[must_use]
    pub fn imm(&self) -> u32 {
        // SAFETY: both members of the union are 32-bit integers.
        u32::from_be(unsafe { self.0.__bindgen_anon_1.imm_data })
    }

    /// The key that the peer's SEND_WITH_INV has invalidated.
    #[must_use]
    pub fn invalidated_rkey(&self) -> u32 {
        // SAFETY: as above.
        unsafe { self.0.__bindgen_anon_1.invalidated_rkey }
    }

    /// Whether the request succeeded.
    #[must_use]
    pub fn is_success(&self) -> bool {
        self.status == sys::IBV_WC_SUCCESS
    }

    /// The completion of a request that succeeded.
    ///
    /// # Panics
    ///
    /// If it did not.
    #[track_caller]
    #[expect(
        clippy::must_use_candidate,
        reason = "the assertion alone is worth a call"
    )]
    pub fn ok(self) -> Self {
        assert!(self.is_success(), "{self:?}");
        self
    }
}

impl Wc {
    /// What it says of how a request ended, in a few words.
    #[must_use]
    pub fn summary(&self) -> String {
        let (status, opcode, qp_num) = (self.status_name(), self.opcode, self.qp_num);
        let vendor_err = self.vendor_err;
        format!("{status}, opcode {opcode}, QP {qp_num}, vendor_err {vendor_err}")
    }

    fn status_name(&self) -> Cow<'_, str> {
        // SAFETY: libibverbs returns a constant string for every value.
        unsafe { CStr::from_ptr(sys::ibv_wc_status_str(self.status)) }.to_string_lossy()
    }
}

impl Deref for Wc {
    type Target = sys::ibv_wc;

    fn deref(&self) -> &sys::ibv_wc {
        &self.0
    }
}

impl fmt::Debug for Wc {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("wc")
            .field("wr_id", &self.wr_id)
            .field("status", &self.status_name())
            .field("opcode", &self.opcode)
            .field("vendor_err", &self.vendor_err)
            .field("byte_len", &self.byte_len)
            .field("imm", &self.imm())
            .field("qp_num", &self.qp_num)
            .field("src_qp", &self.src_qp)
            .field("wc_flags", &self.wc_flags)
            .field("pkey_index", &self.pkey_index)
            .field("slid", &self.slid)
            .field("sl", &self.sl)
            .field("dlid_path_bits", &self.dlid_path_bits)
            .finish()
    }
}
