// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause

//! Shared receive queues.

use crate::layout::assert_layout;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// Creates a shared receive queue (`ib_uverbs_create_srq`).
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
#[repr(C)]
#[derive(FromBytes, Immutable, IntoBytes, KnownLayout)]
pub struct CreateSrq {
    /// Address of the response.
    pub response: u64,
    /// Returned with each event of the queue.
    pub user_handle: u64,
    /// Its protection domain.
    pub pd_handle: u32,
    /// Work requests wanted.
    pub max_wr: u32,
    /// Scatter entries of a work request wanted.
    pub max_sge: u32,
    /// Work requests below which an event is raised, once; zero for none.
    pub srq_limit: u32,
}

assert_layout!(CreateSrq, size 32, align 8, {
    response: 0, user_handle: 8, pd_handle: 16, max_wr: 20, max_sge: 24, srq_limit: 28,
});

/// Creates a shared receive queue of a given type (`ib_uverbs_create_xsrq`).
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
#[repr(C)]
#[derive(FromBytes, Immutable, IntoBytes, KnownLayout)]
pub struct CreateXsrq {
    /// Address of the response.
    pub response: u64,
    /// Returned with each event of the queue.
    pub user_handle: u64,
    /// `enum ib_srq_type`, which is `enum ibv_srq_type`; both drivers know the basic type alone.
    pub srq_type: u32,
    /// Its protection domain.
    pub pd_handle: u32,
    /// Work requests wanted.
    pub max_wr: u32,
    /// Scatter entries of a work request wanted.
    pub max_sge: u32,
    /// Work requests below which an event is raised, once; zero for none.
    pub srq_limit: u32,
    /// Tags; zero.
    pub max_num_tags: u32,
    /// XRC domain; zero.
    pub xrcd_handle: u32,
    /// Completion queue of an XRC or tag matching queue; zero.
    pub cq_handle: u32,
}

assert_layout!(CreateXsrq, size 48, align 8, {
    response: 0, user_handle: 8, srq_type: 16, pd_handle: 20, max_wr: 24, max_sge: 28,
    srq_limit: 32, max_num_tags: 36, xrcd_handle: 40, cq_handle: 44,
});

/// Answer to [`CreateSrq`] and [`CreateXsrq`] (`ib_uverbs_create_srq_resp`).
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
#[repr(C)]
#[derive(FromBytes, Immutable, IntoBytes, KnownLayout)]
pub struct CreateSrqResp {
    /// Names the queue in later commands.
    pub srq_handle: u32,
    /// Work requests granted.
    pub max_wr: u32,
    /// Scatter entries granted.
    pub max_sge: u32,
    /// Number of an XRC queue; otherwise zero.
    pub srqn: u32,
}

assert_layout!(CreateSrqResp, size 16, align 4, { srq_handle: 0, max_wr: 4, max_sge: 8, srqn: 12 });

/// Changes a shared receive queue (`ib_uverbs_modify_srq`).
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
#[repr(C, align(8))]
#[derive(FromBytes, Immutable, IntoBytes, KnownLayout)]
pub struct ModifySrq {
    /// The queue.
    pub srq_handle: u32,
    /// `enum ib_srq_attr_mask`, which is `enum ibv_srq_attr_mask`.
    pub attr_mask: u32,
    /// Work requests wanted; `rdma_rxe` alone can resize.
    pub max_wr: u32,
    /// Work requests below which an event is raised, once.
    pub srq_limit: u32,
}

assert_layout!(ModifySrq, size 16, align 8, {
    srq_handle: 0, attr_mask: 4, max_wr: 8, srq_limit: 12,
});

/// Reads the attributes of a shared receive queue (`ib_uverbs_query_srq`).
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
#[repr(C)]
#[derive(FromBytes, Immutable, IntoBytes, KnownLayout)]
pub struct QuerySrq {
    /// Address of the response.
    pub response: u64,
    /// The queue.
    pub srq_handle: u32,
    /// Zero.
    pub reserved: u32,
}

assert_layout!(QuerySrq, size 16, align 8, { response: 0, srq_handle: 8, reserved: 12 });
