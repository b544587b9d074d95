// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause

//! Theme `wc_fields`: what stands in a work completion.
//!
//! The values expected on success are those of the stock providers 44.0 on kernels 6.1 and 6.12,
//! except where a case says that they are wrong. siw fills in `wr_id`, `status`, `opcode`,
//! `vendor_err`, `byte_len`, `imm_data`, `qp_num` and `wc_flags`, and leaves the other fields as
//! the caller had them.

mod errors;
mod success;

use guest::suite::Suite;

pub(crate) use success::{datagram, each_opcode, operations, with_inv};

/// Adds the cases of this theme.
pub(crate) fn add(suite: &mut Suite) {
    success::add(suite);
    errors::add(suite);
}
