// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause

//! Completion queues and the completions of `rdma_rxe`.

use crate::layout::assert_layout;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// Creates a completion queue (`ib_uverbs_create_cq`).
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
#[repr(C)]
#[derive(FromBytes, Immutable, IntoBytes, KnownLayout)]
pub struct CreateCq {
    /// Address of the response.
    pub response: u64,
    /// Returned with each completion event.
    pub user_handle: u64,
    /// Entries wanted.
    pub cqe: u32,
    /// Completion vector.
    pub comp_vector: u32,
    /// File descriptor of the completion channel, −1 for none.
    pub comp_channel: i32,
    /// Zero.
    pub reserved: u32,
}

assert_layout!(CreateCq, size 32, align 8, {
    response: 0, user_handle: 8, cqe: 16, comp_vector: 20, comp_channel: 24, reserved: 28,
});

/// Answer to [`CreateCq`] (`ib_uverbs_create_cq_resp`).
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
#[repr(C, align(8))]
#[derive(FromBytes, Immutable, IntoBytes, KnownLayout)]
pub struct CreateCqResp {
    /// Names the queue in later commands.
    pub cq_handle: u32,
    /// Entries granted, at least as many as wanted.
    pub cqe: u32,
}

assert_layout!(CreateCqResp, size 8, align 8, { cq_handle: 0, cqe: 4 });

/// Creates a completion queue, extended (`ib_uverbs_ex_create_cq`).
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
#[repr(C)]
#[derive(FromBytes, Immutable, IntoBytes, KnownLayout)]
pub struct ExCreateCq {
    /// Returned with each completion event.
    pub user_handle: u64,
    /// Entries wanted.
    pub cqe: u32,
    /// Completion vector.
    pub comp_vector: u32,
    /// File descriptor of the completion channel, −1 for none.
    pub comp_channel: i32,
    /// Zero.
    pub comp_mask: u32,
    /// `IB_UVERBS_CQ_FLAGS_*`; both drivers refuse all of them.
    pub flags: u32,
    /// Zero.
    pub reserved: u32,
}

assert_layout!(ExCreateCq, size 32, align 8, {
    user_handle: 0, cqe: 8, comp_vector: 12, comp_channel: 16, comp_mask: 20, flags: 24,
    reserved: 28,
});

/// Answer to [`ExCreateCq`] (`ib_uverbs_ex_create_cq_resp`).
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
#[repr(C)]
#[derive(FromBytes, Immutable, IntoBytes, KnownLayout)]
pub struct ExCreateCqResp {
    /// The plain answer.
    pub base: CreateCqResp,
    /// Zero.
    pub comp_mask: u32,
    /// Bytes of the core answer that the kernel wrote.
    pub response_length: u32,
}

assert_layout!(ExCreateCqResp, size 16, align 8, { base: 0, comp_mask: 8, response_length: 12 });

/// Resizes a completion queue (`ib_uverbs_resize_cq`).
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
#[repr(C)]
#[derive(FromBytes, Immutable, IntoBytes, KnownLayout)]
pub struct ResizeCq {
    /// Address of the response.
    pub response: u64,
    /// The queue.
    pub cq_handle: u32,
    /// Entries wanted.
    pub cqe: u32,
}

assert_layout!(ResizeCq, size 16, align 8, { response: 0, cq_handle: 8, cqe: 12 });

/// Answer to [`ResizeCq`] (`ib_uverbs_resize_cq_resp`).
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
#[repr(C, align(8))]
#[derive(FromBytes, Immutable, IntoBytes, KnownLayout)]
pub struct ResizeCqResp {
    /// Entries granted.
    pub cqe: u32,
    /// Zero.
    pub reserved: u32,
}

assert_layout!(ResizeCqResp, size 8, align 8, { cqe: 0, reserved: 4 });

/// Arms a completion queue of `rdma_rxe` (`ib_uverbs_req_notify_cq`).
///
/// The command has no response: [`CommandHeader::of`](super::CommandHeader::of) takes `()` for it.
/// A completion that is already in the ring raises no event
/// (linux 6.1 `drivers/infiniband/sw/rxe/rxe_verbs.c`: `rxe_req_notify_cq`), so a provider's caller
/// polls once more after arming. siw is armed in mapped memory instead, by
/// [`siw::CqCtrl`](crate::siw::CqCtrl).
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
#[repr(C)]
#[derive(FromBytes, Immutable, IntoBytes, KnownLayout)]
pub struct ReqNotifyCq {
    /// The queue.
    pub cq_handle: u32,
    /// Not zero: only a solicited completion raises an event.
    pub solicited_only: u32,
}

assert_layout!(ReqNotifyCq, size 8, align 4, { cq_handle: 0, solicited_only: 4 });

/// A completion as `rdma_rxe` writes it into its ring (`ib_uverbs_wc`).
///
/// The layout is that of `struct ibv_wc`. On an error only `wr_id`, `status` and `qp_num` count:
/// `opcode` stays 0, also on the flush completion of a receive (linux 6.1
/// `drivers/infiniband/sw/rxe/rxe_comp.c`: `make_send_cqe`, `rxe_resp.c`: `do_complete`).
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
#[repr(C)]
#[derive(FromBytes, Immutable, IntoBytes, KnownLayout)]
pub struct Wc {
    /// As posted.
    pub wr_id: u64,
    /// `enum ib_wc_status`, which is `enum ibv_wc_status`.
    pub status: u32,
    /// `enum ib_wc_opcode`, which is `enum ibv_wc_opcode`.
    pub opcode: u32,
    /// Zero.
    pub vendor_err: u32,
    /// Bytes received, or length of the send request.
    pub byte_len: u32,
    /// Of a receive: with `IBV_WC_WITH_IMM`, the immediate in network order; with
    /// `IBV_WC_WITH_INV`, the invalidated key in the machine's order. Of a send: zero, even though
    /// `wc_flags` of one with immediate says `IBV_WC_WITH_IMM`.
    pub ex: u32,
    /// The local queue pair.
    pub qp_num: u32,
    /// The remote queue pair of a datagram.
    pub src_qp: u32,
    /// `enum ib_wc_flags`, which is `enum ibv_wc_flags`.
    pub wc_flags: u32,
    /// Index of the partition key.
    pub pkey_index: u16,
    /// Source LID; of no meaning to RoCE.
    pub slid: u16,
    /// Service level.
    pub sl: u8,
    /// Destination LID path bits; of no meaning to RoCE.
    pub dlid_path_bits: u8,
    /// Port.
    pub port_num: u8,
    /// Zero.
    pub reserved: u8,
}

assert_layout!(Wc, size 48, align 8, {
    wr_id: 0, status: 8, opcode: 12, vendor_err: 16, byte_len: 20, ex: 24, qp_num: 28, src_qp: 32,
    wc_flags: 36, pkey_index: 40, slid: 42, sl: 44, dlid_path_bits: 45, port_num: 46, reserved: 47,
});
