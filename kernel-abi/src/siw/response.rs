// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause

//! The driver's parts of the commands and their answers.
//!
//! A `*_key` is the offset for `mmap` of the device's file descriptor, in bytes. It can be mapped
//! as often as wanted while the object lives. Any is good: `SIW_INVAL_UOBJ_KEY` of the header stands for
//! none only where the command fails, and is an ordinary offset of a context with many queues
//! (linux 6.1 `siw_verbs.c: siw_mmap_entry_insert`).

use crate::layout::assert_layout;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// Answer to the opening of the device (`struct siw_uresp_alloc_ctx`), without room for which it
/// fails.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
#[repr(C)]
#[derive(FromBytes, Immutable, IntoBytes, KnownLayout)]
pub struct AllocCtxResp {
    /// Number of the device.
    pub dev_id: u32,
    /// Zero.
    pub pad: u32,
}

assert_layout!(AllocCtxResp, size 8, align 4, { dev_id: 0, pad: 4 });

/// Answer to the creation of a completion queue (`struct siw_uresp_create_cq`).
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
#[repr(C)]
#[derive(FromBytes, Immutable, IntoBytes, KnownLayout)]
pub struct CreateCqResp {
    /// Number of the queue.
    pub cq_id: u32,
    /// Entries of the ring, a power of two; a [`CqCtrl`](super::CqCtrl) follows them.
    pub num_cqe: u32,
    /// Key of the ring.
    pub cq_key: u64,
}

assert_layout!(CreateCqResp, size 16, align 8, { cq_id: 0, num_cqe: 4, cq_key: 8 });

/// Answer to the creation of a queue pair (`struct siw_uresp_create_qp`).
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
#[repr(C)]
#[derive(FromBytes, Immutable, IntoBytes, KnownLayout)]
pub struct CreateQpResp {
    /// Number of the queue pair.
    pub qp_id: u32,
    /// Elements of the send queue, a power of two.
    pub num_sqe: u32,
    /// Elements of the receive queue, a power of two. With an SRQ there is no receive queue,
    /// whatever this says (linux 6.1 `drivers/infiniband/sw/siw/siw_verbs.c`: `siw_create_qp`).
    pub num_rqe: u32,
    /// Zero.
    pub pad: u32,
    /// Key of the send queue.
    pub sq_key: u64,
    /// Key of the receive queue; zero without one, as with an SRQ.
    pub rq_key: u64,
}

assert_layout!(CreateQpResp, size 32, align 8, {
    qp_id: 0, num_sqe: 4, num_rqe: 8, pad: 12, sq_key: 16, rq_key: 24,
});

/// Answer to the creation of a shared receive queue (`struct siw_uresp_create_srq`).
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
#[repr(C)]
#[derive(FromBytes, Immutable, IntoBytes, KnownLayout)]
pub struct CreateSrqResp {
    /// Elements of the ring, a power of two.
    pub num_rqe: u32,
    /// Zero.
    pub pad: u32,
    /// Key of the ring.
    pub srq_key: u64,
}

assert_layout!(CreateSrqResp, size 16, align 8, { num_rqe: 0, pad: 4, srq_key: 8 });

/// Driver's part of the registration of a memory region (`struct siw_ureq_reg_mr`).
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
#[repr(C)]
#[derive(FromBytes, Immutable, IntoBytes, KnownLayout)]
pub struct RegMrCmd {
    /// Low 8 bits of the region's keys, which the user chooses.
    pub stag_key: u8,
    /// Zero.
    pub reserved: [u8; 3],
    /// Zero.
    pub pad: u32,
}

assert_layout!(RegMrCmd, size 8, align 4, { stag_key: 0, reserved: 1, pad: 4 });

/// Answer to the registration of a memory region (`struct siw_uresp_reg_mr`).
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
#[repr(C)]
#[derive(FromBytes, Immutable, IntoBytes, KnownLayout)]
pub struct RegMrResp {
    /// The region's key, local and remote.
    pub stag: u32,
    /// Zero.
    pub pad: u32,
}

assert_layout!(RegMrResp, size 8, align 4, { stag: 0, pad: 4 });
