// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause

//! The element of a send queue.

use super::address::Av;
use crate::layout::assert_layout;
use core::mem::offset_of;
use zerocopy::{FromBytes, FromZeros, Immutable, IntoBytes, KnownLayout};

/// Gather or scatter entry (`struct rxe_sge`), laid out as `struct ibv_sge`.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
#[repr(C)]
#[derive(FromBytes, Immutable, IntoBytes, KnownLayout)]
pub struct Sge {
    /// Address.
    pub addr: u64,
    /// Length, in bytes.
    pub length: u32,
    /// Local key.
    pub lkey: u32,
}

assert_layout!(Sge, size 16, align 8, { addr: 0, length: 8, lkey: 12 });

/// Buffer of a work request and progress through it (`struct rxe_dma_info` without its entries).
///
/// The user fills it before it publishes the element; from then on the kernel moves `resid`,
/// `cur_sge` and `sge_offset`. The entries, or the inline data, stand directly behind it.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
#[repr(C, align(8))]
#[derive(FromBytes, Immutable, IntoBytes, KnownLayout)]
pub struct DmaInfo {
    /// Bytes of all entries, or of the inline data.
    pub length: u32,
    /// Bytes left; starts as `length`.
    pub resid: u32,
    /// Entry in use; starts as zero.
    pub cur_sge: u32,
    /// Number of entries.
    pub num_sge: u32,
    /// Bytes used of the entry in use; starts as zero.
    pub sge_offset: u32,
    /// Zero.
    pub reserved: u32,
}

assert_layout!(DmaInfo, size 24, align 8, {
    length: 0, resid: 4, cur_sge: 8, num_sge: 12, sge_offset: 16, reserved: 20,
});

/// Size of the union `wr` of `struct rxe_send_wr`, and of each type that stands for a member of it.
pub const SEND_WR_UNION_SIZE: usize = 120;

/// Target of an RDMA write or read (`wr.rdma`); zero for a send or a local invalidate.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
#[repr(C)]
#[derive(FromBytes, Immutable, IntoBytes, KnownLayout)]
pub struct RdmaWr {
    /// Remote address.
    pub remote_addr: u64,
    /// Remote key.
    pub rkey: u32,
    /// Zero.
    pub reserved: u32,
    /// The rest of the union; zero.
    pub pad: [u64; 13],
}

assert_layout!(RdmaWr, size 120, align 8, { remote_addr: 0, rkey: 8, reserved: 12, pad: 16 });

/// Target and operands of an atomic (`wr.atomic`).
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
#[repr(C)]
#[derive(FromBytes, Immutable, IntoBytes, KnownLayout)]
pub struct AtomicWr {
    /// Remote address, a multiple of 8.
    pub remote_addr: u64,
    /// Value to compare with, or to add.
    pub compare_add: u64,
    /// Value to store if the comparison holds.
    pub swap: u64,
    /// Remote key.
    pub rkey: u32,
    /// Zero.
    pub reserved: u32,
    /// The rest of the union; zero.
    pub pad: [u64; 11],
}

assert_layout!(AtomicWr, size 120, align 8, {
    remote_addr: 0, compare_add: 8, swap: 16, rkey: 24, reserved: 28, pad: 32,
});

/// Destination of a datagram (`wr.ud`).
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
#[repr(C)]
#[derive(FromBytes, Immutable, IntoBytes, KnownLayout)]
pub struct UdWr {
    /// Remote queue pair.
    pub remote_qpn: u32,
    /// Queue key.
    pub remote_qkey: u32,
    /// Index of the partition key.
    pub pkey_index: u16,
    /// Zero.
    pub reserved: u16,
    /// The address handle, from [`CreateAhResp`](super::CreateAhResp); zero to use `av` instead.
    pub ah_num: u32,
    /// Zero.
    pub pad: [u32; 4],
    /// The address vector of a provider that does not know `ah_num`.
    pub av: Av,
}

assert_layout!(UdWr, size 120, align 8, {
    remote_qpn: 0, remote_qkey: 4, pkey_index: 8, reserved: 10, ah_num: 12, pad: 16, av: 32,
});

/// Binding of a memory window (`wr.mw`).
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
#[repr(C)]
#[derive(FromBytes, Immutable, IntoBytes, KnownLayout)]
pub struct MwWr {
    /// Start of the window.
    pub addr: u64,
    /// Its length, in bytes.
    pub length: u64,
    /// Local key of the memory region.
    pub mr_lkey: u32,
    /// Present remote key of the window.
    pub mw_rkey: u32,
    /// Remote key wanted.
    pub rkey: u32,
    /// `enum ib_access_flags`, which is `enum ibv_access_flags`.
    pub access: u32,
    /// The rest of the union; zero.
    pub pad: [u64; 11],
}

assert_layout!(MwWr, size 120, align 8, {
    addr: 0, length: 8, mr_lkey: 16, mw_rkey: 20, rkey: 24, access: 28, pad: 32,
});

/// Target of a flush (`wr.flush`), which linux 6.1 does not know.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
#[repr(C)]
#[derive(FromBytes, Immutable, IntoBytes, KnownLayout)]
pub struct FlushWr {
    /// Remote address.
    pub remote_addr: u64,
    /// Length, in bytes.
    pub length: u32,
    /// Remote key.
    pub rkey: u32,
    /// `type` of the C struct: `enum ib_placement_type`.
    pub placement_type: u8,
    /// `enum ib_selectivity_level`.
    pub level: u8,
    /// Padding of the C struct; zero.
    pub padding: [u8; 6],
    /// The rest of the union; zero.
    pub pad: [u64; 12],
}

assert_layout!(FlushWr, size 120, align 8, {
    remote_addr: 0, length: 8, rkey: 12, placement_type: 16, level: 17, padding: 18, pad: 24,
});

/// A send work request (`struct rxe_send_wr`) with `W` for its union.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
#[repr(C)]
#[derive(FromBytes, Immutable, KnownLayout)]
pub struct SendWr<W = RdmaWr> {
    /// Returned in the completion.
    pub wr_id: u64,
    /// Zero.
    pub reserved: u32,
    /// `enum ib_wr_opcode`, which is `enum ibv_wr_opcode`.
    pub opcode: u32,
    /// `enum ib_send_flags`, which is `enum ibv_send_flags`.
    pub send_flags: u32,
    /// The immediate in network order, or the key to invalidate in the machine's order.
    pub ex: u32,
    /// The member of the union that `opcode` asks for.
    pub wr: W,
}

assert_layout!(SendWr, size 144, align 8, {
    wr_id: 0, reserved: 8, opcode: 12, send_flags: 16, ex: 20, wr: 24,
});

/// Element of a send queue (`struct rxe_send_wqe`) with `W` for its work request's union.
///
/// The user fills it and publishes it by the producer index; "kernel" marks what the kernel writes
/// from then on. `num_sge` gather entries, or the inline data, follow at
/// [`SGE_OFFSET`](Self::SGE_OFFSET). A slot is used again and again, so the user zeroes what it
/// does not set: the kernel starts from the bytes that it finds.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
#[repr(C)]
#[derive(FromBytes, Immutable, KnownLayout)]
pub struct SendWqe<W = RdmaWr> {
    /// The work request.
    pub wr: SendWr<W>,
    /// `enum ib_wc_status`. User: zero, which is success. Kernel: the error.
    pub status: u32,
    /// One of [`wqe_state`]. User: [`POSTED`](wqe_state::POSTED). Kernel: later states.
    pub state: u32,
    /// User: remote address of an RDMA or atomic, else zero. Kernel: progress on a retry.
    pub iova: u64,
    /// Kernel: properties of the opcode.
    pub mask: u32,
    /// Kernel: packet sequence number of the first packet.
    pub first_psn: u32,
    /// Kernel: packet sequence number of the last packet.
    pub last_psn: u32,
    /// Not used.
    pub ack_length: u32,
    /// Send sequence number, which the kernel does not read.
    pub ssn: u32,
    /// Kernel: holds one of the queue pair's RDMA reads and atomics. User: zero, or the kernel
    /// counts wrongly.
    pub has_rd_atomic: u32,
    /// The buffer, and how far the kernel has sent it.
    pub dma: DmaInfo,
}

assert_layout!(SendWqe, size 208, align 8, {
    wr: 0, status: 144, state: 148, iova: 152, mask: 160, first_psn: 164, last_psn: 168,
    ack_length: 172, ssn: 176, has_rd_atomic: 180, dma: 184,
});

/// What a [`SendWqe`] begins with, in front of the union: a [`SendWr`] but for that.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
#[repr(C)]
#[derive(FromBytes, Immutable, IntoBytes, KnownLayout)]
pub struct SendHead {
    /// Returned in the completion.
    pub wr_id: u64,
    /// Zero.
    pub reserved: u32,
    /// As [`SendWr::opcode`].
    pub opcode: u32,
    /// As [`SendWr::send_flags`].
    pub send_flags: u32,
    /// As [`SendWr::ex`].
    pub ex: u32,
}

assert_layout!(SendHead, size 24, align 8, {
    wr_id: 0, reserved: 8, opcode: 12, send_flags: 16, ex: 20,
});
const _: () = assert!(size_of::<SendHead>() == offset_of!(SendWr, wr));

// Status and state are one aligned word.
const _: () = {
    let status = SendWqe::<RdmaWr>::STATUS_OFFSET;
    assert!(status.is_multiple_of(8));
    assert!(SendWqe::<RdmaWr>::STATE_OFFSET == status.wrapping_add(4));
};

impl<W> SendWqe<W> {
    /// Offset of [`status`](Self::status).
    pub const STATUS_OFFSET: usize = offset_of!(SendWqe, status);
    /// Offset of the union of [`wr`](Self::wr).
    pub const UNION_OFFSET: usize = size_of::<SendHead>();
    /// Offset of [`state`](Self::state).
    pub const STATE_OFFSET: usize = offset_of!(SendWqe, state);
    /// Offset of [`iova`](Self::iova).
    pub const IOVA_OFFSET: usize = offset_of!(SendWqe, iova);
    /// Offset of [`has_rd_atomic`](Self::has_rd_atomic).
    pub const HAS_RD_ATOMIC_OFFSET: usize = offset_of!(SendWqe, has_rd_atomic);
    /// Offset of [`dma`](Self::dma).
    pub const DMA_OFFSET: usize = offset_of!(SendWqe, dma);
    /// Offset of the first [`Sge`], or of the inline data.
    pub const SGE_OFFSET: usize = size_of::<SendWqe>();
}

impl<W: FromZeros> SendWqe<W> {
    /// An element of zero bytes.
    #[must_use]
    pub fn zeroed() -> Self {
        FromZeros::new_zeroed()
    }
}

/// How far the kernel is with an element of a send queue
/// (linux 6.1 `drivers/infiniband/sw/rxe/rxe_verbs.h`: `enum wqe_state`).
pub mod wqe_state {
    /// Not begun, or to be sent again.
    pub const POSTED: u32 = 0;
    /// Some of its packets are sent.
    pub const PROCESSING: u32 = 1;
    /// Sent over a reliable connection, not yet acknowledged.
    pub const PENDING: u32 = 2;
    /// Finished, which a request without acknowledgement is once it is sent.
    pub const DONE: u32 = 3;
    /// Failed; [`SendWqe::status`](super::SendWqe::status) says why.
    pub const ERROR: u32 = 4;
}
