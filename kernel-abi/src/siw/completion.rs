// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause

//! The element of a completion queue, and how the queue is armed.

use crate::layout::assert_layout;
use core::mem::offset_of;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// Element of a completion queue (`struct siw_cqe`).
///
/// The kernel writes all of it, `flags` last; the user clears `flags` when it has copied it.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
#[repr(C)]
#[derive(FromBytes, Immutable, IntoBytes, KnownLayout)]
pub struct Cqe {
    /// `id` of the work request.
    pub id: u64,
    /// Low byte of [`flags`](super::flags). Kernel: `VALID`. User: 0, release.
    pub flags: u8,
    /// One of [`opcode`](super::opcode).
    pub opcode: u8,
    /// One of [`status`].
    pub status: u16,
    /// Bytes of the request.
    pub bytes: u32,
    /// With `REM_INVAL`, the invalidated key in the first 4 bytes. A queue of a user never gets it:
    /// linux 6.1 reports it to users within the kernel alone (`siw_rqe_complete`).
    pub imm_data: u64,
    /// Number of the queue pair.
    pub qp_id: u64,
}

assert_layout!(Cqe, size 32, align 8, {
    id: 0, flags: 8, opcode: 9, status: 10, bytes: 12, imm_data: 16, qp_id: 24,
});

impl Cqe {
    /// Offset of [`flags`](Self::flags), a single byte.
    pub const FLAGS_OFFSET: usize = offset_of!(Self, flags);
}

/// Control word of a completion queue (`struct siw_cq_ctrl`), directly behind its last element.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
#[repr(C)]
#[derive(FromBytes, Immutable, IntoBytes, KnownLayout)]
pub struct CqCtrl {
    /// Of [`notify`]. User: arms. Kernel: [`NOT`](notify::NOT) when it raises the event.
    pub flags: u32,
    /// Zero.
    pub pad: u32,
}

assert_layout!(CqCtrl, size 8, align 4, { flags: 0, pad: 4 });

/// What a completion queue is armed for (`enum siw_notify_flags`).
///
/// Arming and a completion race: each side stores, then looks at what the other stored. The kernel
/// stores [`Cqe::flags`], passes a full barrier (`smp_store_mb` of the work request's flags) and
/// reads [`CqCtrl::flags`] (linux 6.1 `siw_qp.c`: `siw_sqe_complete`, `siw_cq_notify_now`). The
/// user stores [`CqCtrl::flags`], passes a sequentially consistent fence and polls again.
pub mod notify {
    /// Nothing.
    pub const NOT: u32 = 0;
    /// The next completion of a send that was posted with
    /// [`SOLICITED`](crate::siw::flags::SOLICITED).
    ///
    /// No receive counts, although the peer solicits it: the kernel never passes its flag
    /// (linux 6.1 and 6.12 `siw_qp.c`: `siw_rqe_complete`).
    pub const SOLICITED: u32 = 1;
    /// The next completion.
    pub const NEXT_COMPLETION: u32 = 1 << 1;
    /// Not read by the kernel.
    pub const MISSED_EVENTS: u32 = 1 << 2;
}

/// How a work request ended (`enum siw_wc_status`).
pub mod status {
    /// Success.
    pub const SUCCESS: u16 = 0;
    /// Local length error.
    pub const LOC_LEN_ERR: u16 = 1;
    /// Local protection error.
    pub const LOC_PROT_ERR: u16 = 2;
    /// Local operation error.
    pub const LOC_QP_OP_ERR: u16 = 3;
    /// Flushed.
    pub const WR_FLUSH_ERR: u16 = 4;
    /// Bad response.
    pub const BAD_RESP_ERR: u16 = 5;
    /// Local access error.
    pub const LOC_ACCESS_ERR: u16 = 6;
    /// Remote access error.
    pub const REM_ACCESS_ERR: u16 = 7;
    /// Remote invalid request.
    pub const REM_INV_REQ_ERR: u16 = 8;
    /// General error.
    pub const GENERAL_ERR: u16 = 9;
}
