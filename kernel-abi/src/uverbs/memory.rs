// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause

//! Protection domains, memory regions, memory windows.

use crate::layout::assert_layout;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// Allocates a protection domain (`ib_uverbs_alloc_pd`).
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
#[repr(C)]
#[derive(FromBytes, Immutable, IntoBytes, KnownLayout)]
pub struct AllocPd {
    /// Address of the response.
    pub response: u64,
}

assert_layout!(AllocPd, size 8, align 8, { response: 0 });

/// Answer to [`AllocPd`] (`ib_uverbs_alloc_pd_resp`).
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
#[repr(C)]
#[derive(FromBytes, Immutable, IntoBytes, KnownLayout)]
pub struct AllocPdResp {
    /// Names the domain in later commands.
    pub pd_handle: u32,
}

assert_layout!(AllocPdResp, size 4, align 4, { pd_handle: 0 });

/// Registers a memory region (`ib_uverbs_reg_mr`).
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
#[repr(C)]
#[derive(FromBytes, Immutable, IntoBytes, KnownLayout)]
pub struct RegMr {
    /// Address of the response.
    pub response: u64,
    /// Address of the memory.
    pub start: u64,
    /// Its length, in bytes.
    pub length: u64,
    /// The address that work requests use for it.
    pub hca_va: u64,
    /// Its protection domain.
    pub pd_handle: u32,
    /// `enum ib_access_flags`, which is `enum ibv_access_flags`.
    pub access_flags: u32,
}

assert_layout!(RegMr, size 40, align 8, {
    response: 0, start: 8, length: 16, hca_va: 24, pd_handle: 32, access_flags: 36,
});

/// Answer to [`RegMr`] (`ib_uverbs_reg_mr_resp`).
///
/// The driver's part follows at offset 12 and so must consist of words of 4 bytes at most.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
#[repr(C)]
#[derive(FromBytes, Immutable, IntoBytes, KnownLayout)]
pub struct RegMrResp {
    /// Names the region in later commands.
    pub mr_handle: u32,
    /// Local key.
    pub lkey: u32,
    /// Remote key.
    pub rkey: u32,
}

assert_layout!(RegMrResp, size 12, align 4, { mr_handle: 0, lkey: 4, rkey: 8 });

/// Allocates a memory window (`ib_uverbs_alloc_mw`); `rdma_rxe` alone has them.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
#[repr(C)]
#[derive(FromBytes, Immutable, IntoBytes, KnownLayout)]
pub struct AllocMw {
    /// Address of the response.
    pub response: u64,
    /// Its protection domain.
    pub pd_handle: u32,
    /// `enum ib_mw_type`, which is `enum ibv_mw_type`.
    pub mw_type: u8,
    /// Zero.
    pub reserved: [u8; 3],
}

assert_layout!(AllocMw, size 16, align 8, { response: 0, pd_handle: 8, mw_type: 12, reserved: 13 });

/// Answer to [`AllocMw`] (`ib_uverbs_alloc_mw_resp`).
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
#[repr(C, align(8))]
#[derive(FromBytes, Immutable, IntoBytes, KnownLayout)]
pub struct AllocMwResp {
    /// Names the window in later commands.
    pub mw_handle: u32,
    /// Remote key.
    pub rkey: u32,
}

assert_layout!(AllocMwResp, size 8, align 8, { mw_handle: 0, rkey: 4 });
