// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause

//! The elements of send and receive queues.

use crate::layout::assert_layout;
use core::mem::offset_of;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// Gather or scatter entries of an element (`SIW_MAX_SGE`).
pub const MAX_SGE: usize = 6;

/// Bytes of inline data (`SIW_MAX_INLINE`): the room of all entries but the first.
pub const MAX_INLINE: usize = size_of::<Sge>() * 5;

const _: () = assert!(MAX_INLINE == size_of::<Sge>() * (MAX_SGE - 1) && MAX_INLINE == 80);

/// Gather or scatter entry (`struct siw_sge`), laid out as `struct ibv_sge`.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
#[repr(C)]
#[derive(FromBytes, Immutable, IntoBytes, KnownLayout)]
pub struct Sge {
    /// Address.
    pub laddr: u64,
    /// Length, in bytes.
    pub length: u32,
    /// Local key.
    pub lkey: u32,
}

assert_layout!(Sge, size 16, align 8, { laddr: 0, length: 8, lkey: 12 });

/// Element of a send queue (`struct siw_sqe`).
///
/// The user writes all of it, `flags` last.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
#[repr(C)]
#[derive(FromBytes, Immutable, IntoBytes, KnownLayout)]
pub struct Sqe {
    /// Returned in the completion.
    pub id: u64,
    /// Of [`flags`]. User: any with `VALID`, release. Kernel: 0 when it has taken the element.
    pub flags: u16,
    /// Entries of `sge` in use; an RDMA read has one.
    pub num_sge: u8,
    /// One of [`opcode`].
    pub opcode: u8,
    /// Remote key of an RDMA operation; key that a send invalidates at the peer.
    pub rkey: u32,
    /// Remote address of an RDMA operation.
    pub raddr: u64,
    /// Gather entries; scatter entry of a read. With `INLINE`, `sge[0].length` is the length of the
    /// data, which starts at [`INLINE_OFFSET`](Self::INLINE_OFFSET).
    pub sge: [Sge; MAX_SGE],
}

assert_layout!(Sqe, size 120, align 8, {
    id: 0, flags: 8, num_sge: 10, opcode: 11, rkey: 12, raddr: 16, sge: 24,
});

impl Sqe {
    /// Offset of [`flags`](Self::flags).
    pub const FLAGS_OFFSET: usize = offset_of!(Self, flags);
    /// Offset of the inline data, which has room for [`MAX_INLINE`] bytes.
    pub const INLINE_OFFSET: usize = offset_of!(Self, sge) + size_of::<Sge>();
}

/// Element of a receive queue or shared receive queue (`struct siw_rqe`).
///
/// The user writes all of it, `flags` last.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
#[repr(C)]
#[derive(FromBytes, Immutable, IntoBytes, KnownLayout)]
pub struct Rqe {
    /// Returned in the completion.
    pub id: u64,
    /// Of [`flags`]. User: exactly `VALID`, release. Kernel: 0 when it has taken the element.
    pub flags: u16,
    /// Entries of `sge` in use.
    pub num_sge: u8,
    /// Not read by the kernel.
    pub opcode: u8,
    /// Zero.
    pub unused: u32,
    /// Scatter entries.
    pub sge: [Sge; MAX_SGE],
}

assert_layout!(Rqe, size 112, align 8, {
    id: 0, flags: 8, num_sge: 10, opcode: 11, unused: 12, sge: 16,
});

impl Rqe {
    /// Offset of [`flags`](Self::flags).
    pub const FLAGS_OFFSET: usize = offset_of!(Self, flags);
}

/// Flags of an element (`enum siw_wqe_flags`).
pub mod flags {
    /// The element is for the other side.
    pub const VALID: u16 = 1;
    /// The data is in the element.
    pub const INLINE: u16 = 1 << 1;
    /// Success makes a completion too.
    pub const SIGNALLED: u16 = 1 << 2;
    /// The peer's completion is solicited.
    pub const SOLICITED: u16 = 1 << 3;
    /// Wait for all reads before it; not for a read.
    pub const READ_FENCE: u16 = 1 << 4;
    /// A send of the peer invalidated a key; in completions within the kernel.
    pub const REM_INVAL: u16 = 1 << 5;
    /// Not used.
    pub const COMPLETED: u16 = 1 << 6;
}

/// Operation of an element (`enum siw_opcode`).
pub mod opcode {
    /// RDMA write.
    pub const WRITE: u8 = 0;
    /// RDMA read.
    pub const READ: u8 = 1;
    /// RDMA read that invalidates the sink's key.
    pub const READ_LOCAL_INV: u8 = 2;
    /// Send.
    pub const SEND: u8 = 3;
    /// Send with immediate, which iWARP does not have: not supported.
    pub const SEND_WITH_IMM: u8 = 4;
    /// Send that invalidates a key of the peer.
    pub const SEND_REMOTE_INV: u8 = 5;
    /// Not supported.
    pub const FETCH_AND_ADD: u8 = 6;
    /// Not supported.
    pub const COMP_AND_SWAP: u8 = 7;
    /// Receive; in completions.
    pub const RECEIVE: u8 = 8;
    /// The kernel's own.
    pub const READ_RESPONSE: u8 = 9;
    /// Invalidation of a local key; for users within the kernel.
    pub const INVAL_STAG: u8 = 10;
    /// Registration of a memory region; for users within the kernel.
    pub const REG_MR: u8 = 11;
}
