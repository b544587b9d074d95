// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause

//! The driver's parts of the commands and their answers.

use crate::layout::assert_layout;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// Where a queue can be mapped (`struct mminfo`).
///
/// An offset can be mapped once, at most `size` bytes long: the mapping uses it up
/// (linux 6.1 `drivers/infiniband/sw/rxe/rxe_mmap.c`: `rxe_mmap`).
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
#[repr(C)]
#[derive(FromBytes, Immutable, IntoBytes, KnownLayout)]
pub struct MmapInfo {
    /// Offset for `mmap` of the device's file descriptor, in bytes.
    pub offset: u64,
    /// Length of the queue with its header, in bytes.
    pub size: u32,
    /// Zero.
    pub pad: u32,
}

assert_layout!(MmapInfo, size 16, align 8, { offset: 0, size: 8, pad: 12 });

/// Answer to the creation of a completion queue (`struct rxe_create_cq_resp`).
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
#[repr(C)]
#[derive(FromBytes, Immutable, IntoBytes, KnownLayout)]
pub struct CreateCqResp {
    /// Its ring.
    pub mi: MmapInfo,
}

assert_layout!(CreateCqResp, size 16, align 8, { mi: 0 });

/// Answer to a resize of a completion queue (`struct rxe_resize_cq_resp`).
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
#[repr(C)]
#[derive(FromBytes, Immutable, IntoBytes, KnownLayout)]
pub struct ResizeCqResp {
    /// Its new ring, to which the kernel has moved the pending completions.
    pub mi: MmapInfo,
}

assert_layout!(ResizeCqResp, size 16, align 8, { mi: 0 });

/// Answer to the creation of a queue pair (`struct rxe_create_qp_resp`).
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
#[repr(C)]
#[derive(FromBytes, Immutable, IntoBytes, KnownLayout)]
pub struct CreateQpResp {
    /// Its receive queue; not written if receives come from an SRQ.
    pub rq_mi: MmapInfo,
    /// Its send queue.
    pub sq_mi: MmapInfo,
}

assert_layout!(CreateQpResp, size 32, align 8, { rq_mi: 0, sq_mi: 16 });

/// Answer to the creation of a shared receive queue (`struct rxe_create_srq_resp`).
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
#[repr(C)]
#[derive(FromBytes, Immutable, IntoBytes, KnownLayout)]
pub struct CreateSrqResp {
    /// Its ring.
    pub mi: MmapInfo,
    /// Its number.
    pub srq_num: u32,
    /// Zero.
    pub reserved: u32,
}

assert_layout!(CreateSrqResp, size 24, align 8, { mi: 0, srq_num: 16, reserved: 20 });

/// Driver's part of any change of a shared receive queue (`struct rxe_modify_srq_cmd`).
///
/// Without it even a change of the limit alone fails with `EINVAL`
/// (linux 6.1 `drivers/infiniband/sw/rxe/rxe_verbs.c`: `rxe_modify_srq`).
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
#[repr(C)]
#[derive(FromBytes, Immutable, IntoBytes, KnownLayout)]
pub struct ModifySrqCmd {
    /// Address of a [`MmapInfo`], where the kernel writes the new ring of a resize; else not used.
    pub mmap_info_addr: u64,
}

assert_layout!(ModifySrqCmd, size 8, align 8, { mmap_info_addr: 0 });

/// Answer to the creation of an address handle (`struct rxe_create_ah_resp`).
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
#[repr(C)]
#[derive(FromBytes, Immutable, IntoBytes, KnownLayout)]
pub struct CreateAhResp {
    /// Its number, for [`UdWr::ah_num`](super::UdWr::ah_num).
    pub ah_num: u32,
    /// Not written.
    pub reserved: u32,
}

assert_layout!(CreateAhResp, size 8, align 4, { ah_num: 0, reserved: 4 });
