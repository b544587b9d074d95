// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause

//! Queue pairs and the doorbell of their send queues.

use crate::layout::assert_layout;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// Creates a queue pair (`ib_uverbs_create_qp`).
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
#[repr(C)]
#[derive(FromBytes, Immutable, IntoBytes, KnownLayout)]
pub struct CreateQp {
    /// Address of the response.
    pub response: u64,
    /// Returned with each event of the queue pair.
    pub user_handle: u64,
    /// Its protection domain.
    pub pd_handle: u32,
    /// Completion queue of the send queue.
    pub send_cq_handle: u32,
    /// Completion queue of the receive queue.
    pub recv_cq_handle: u32,
    /// The shared receive queue, if `is_srq`.
    pub srq_handle: u32,
    /// Work requests of the send queue wanted.
    pub max_send_wr: u32,
    /// Work requests of the receive queue wanted.
    pub max_recv_wr: u32,
    /// Gather entries of a send wanted.
    pub max_send_sge: u32,
    /// Scatter entries of a receive wanted.
    pub max_recv_sge: u32,
    /// Bytes of inline data wanted.
    pub max_inline_data: u32,
    /// Not zero: each send is signalled.
    pub sq_sig_all: u8,
    /// `enum ib_uverbs_qp_type`, which is `enum ibv_qp_type`.
    pub qp_type: u8,
    /// Not zero: receives come from `srq_handle`.
    pub is_srq: u8,
    /// Zero.
    pub reserved: u8,
}

assert_layout!(CreateQp, size 56, align 8, {
    response: 0, user_handle: 8, pd_handle: 16, send_cq_handle: 20, recv_cq_handle: 24,
    srq_handle: 28, max_send_wr: 32, max_recv_wr: 36, max_send_sge: 40, max_recv_sge: 44,
    max_inline_data: 48, sq_sig_all: 52, qp_type: 53, is_srq: 54, reserved: 55,
});

/// Answer to [`CreateQp`] (`ib_uverbs_create_qp_resp`).
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
#[repr(C)]
#[derive(FromBytes, Immutable, IntoBytes, KnownLayout)]
pub struct CreateQpResp {
    /// Names the queue pair in later commands.
    pub qp_handle: u32,
    /// Its number on the wire and in completions.
    pub qpn: u32,
    /// Work requests of the send queue granted.
    pub max_send_wr: u32,
    /// Work requests of the receive queue granted.
    pub max_recv_wr: u32,
    /// Gather entries of a send granted.
    pub max_send_sge: u32,
    /// Scatter entries of a receive granted.
    pub max_recv_sge: u32,
    /// Bytes of inline data granted.
    pub max_inline_data: u32,
    /// Zero.
    pub reserved: u32,
}

assert_layout!(CreateQpResp, size 32, align 4, {
    qp_handle: 0, qpn: 4, max_send_wr: 8, max_recv_wr: 12, max_send_sge: 16, max_recv_sge: 20,
    max_inline_data: 24, reserved: 28,
});

/// Creates a queue pair, extended (`ib_uverbs_ex_create_qp`).
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
#[repr(C)]
#[derive(FromBytes, Immutable, IntoBytes, KnownLayout)]
pub struct ExCreateQp {
    /// Returned with each event of the queue pair.
    pub user_handle: u64,
    /// Its protection domain.
    pub pd_handle: u32,
    /// Completion queue of the send queue.
    pub send_cq_handle: u32,
    /// Completion queue of the receive queue.
    pub recv_cq_handle: u32,
    /// The shared receive queue, if `is_srq`.
    pub srq_handle: u32,
    /// Work requests of the send queue wanted.
    pub max_send_wr: u32,
    /// Work requests of the receive queue wanted.
    pub max_recv_wr: u32,
    /// Gather entries of a send wanted.
    pub max_send_sge: u32,
    /// Scatter entries of a receive wanted.
    pub max_recv_sge: u32,
    /// Bytes of inline data wanted.
    pub max_inline_data: u32,
    /// Not zero: each send is signalled.
    pub sq_sig_all: u8,
    /// `enum ib_uverbs_qp_type`, which is `enum ibv_qp_type`.
    pub qp_type: u8,
    /// Not zero: receives come from `srq_handle`.
    pub is_srq: u8,
    /// Zero.
    pub reserved: u8,
    /// `enum ib_uverbs_create_qp_mask`.
    pub comp_mask: u32,
    /// `enum ib_uverbs_qp_create_flags`; both drivers refuse all of them.
    pub create_flags: u32,
    /// Indirection table; zero.
    pub rwq_ind_tbl_handle: u32,
    /// Zero.
    pub source_qpn: u32,
}

assert_layout!(ExCreateQp, size 64, align 8, {
    user_handle: 0, pd_handle: 8, send_cq_handle: 12, recv_cq_handle: 16, srq_handle: 20,
    max_send_wr: 24, max_recv_wr: 28, max_send_sge: 32, max_recv_sge: 36, max_inline_data: 40,
    sq_sig_all: 44, qp_type: 45, is_srq: 46, reserved: 47, comp_mask: 48, create_flags: 52,
    rwq_ind_tbl_handle: 56, source_qpn: 60,
});

/// Answer to [`ExCreateQp`] (`ib_uverbs_ex_create_qp_resp`).
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
#[repr(C)]
#[derive(FromBytes, Immutable, IntoBytes, KnownLayout)]
pub struct ExCreateQpResp {
    /// The plain answer.
    pub base: CreateQpResp,
    /// Zero.
    pub comp_mask: u32,
    /// Bytes of the core answer that the kernel wrote.
    pub response_length: u32,
}

assert_layout!(ExCreateQpResp, size 40, align 4, { base: 0, comp_mask: 32, response_length: 36 });

/// A path to the peer (`ib_uverbs_qp_dest`).
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
#[repr(C)]
#[derive(FromBytes, Immutable, IntoBytes, KnownLayout)]
pub struct QpDest {
    /// GID of the peer, network order.
    pub dgid: [u8; 16],
    /// Flow label.
    pub flow_label: u32,
    /// LID of the peer; of no meaning to RoCE and iWARP.
    pub dlid: u16,
    /// Zero.
    pub reserved: u16,
    /// Index of the local GID.
    pub sgid_index: u8,
    /// Hop limit.
    pub hop_limit: u8,
    /// Traffic class.
    pub traffic_class: u8,
    /// Service level.
    pub sl: u8,
    /// Source path bits; of no meaning to RoCE and iWARP.
    pub src_path_bits: u8,
    /// Static rate.
    pub static_rate: u8,
    /// Not zero: `dgid` and the fields of the global route count.
    pub is_global: u8,
    /// Local port.
    pub port_num: u8,
}

assert_layout!(QpDest, size 32, align 4, {
    dgid: 0, flow_label: 16, dlid: 20, reserved: 22, sgid_index: 24, hop_limit: 25,
    traffic_class: 26, sl: 27, src_path_bits: 28, static_rate: 29, is_global: 30, port_num: 31,
});

/// Changes a queue pair (`ib_uverbs_modify_qp`).
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
#[repr(C, align(8))]
#[derive(FromBytes, Immutable, IntoBytes, KnownLayout)]
pub struct ModifyQp {
    /// Primary path.
    pub dest: QpDest,
    /// Alternate path.
    pub alt_dest: QpDest,
    /// The queue pair.
    pub qp_handle: u32,
    /// `enum ib_qp_attr_mask`, which is `enum ibv_qp_attr_mask`: the fields that count.
    pub attr_mask: u32,
    /// Queue key of a datagram queue pair.
    pub qkey: u32,
    /// First packet sequence number expected.
    pub rq_psn: u32,
    /// First packet sequence number sent.
    pub sq_psn: u32,
    /// Number of the peer's queue pair.
    pub dest_qp_num: u32,
    /// `enum ib_access_flags`, which is `enum ibv_access_flags`.
    pub qp_access_flags: u32,
    /// Index of the partition key.
    pub pkey_index: u16,
    /// The same on the alternate path.
    pub alt_pkey_index: u16,
    /// `enum ib_qp_state`, which is `enum ibv_qp_state`: the state wanted.
    pub qp_state: u8,
    /// `enum ib_qp_state`: the state that the caller believes the queue pair is in.
    pub cur_qp_state: u8,
    /// `enum ib_mtu`, which is `enum ibv_mtu`.
    pub path_mtu: u8,
    /// `enum ib_mig_state`.
    pub path_mig_state: u8,
    /// Not zero: raise an event when the send queue is drained.
    pub en_sqd_async_notify: u8,
    /// RDMA reads and atomics to start at a time.
    pub max_rd_atomic: u8,
    /// RDMA reads and atomics to serve at a time.
    pub max_dest_rd_atomic: u8,
    /// RNR timer code.
    pub min_rnr_timer: u8,
    /// Local port.
    pub port_num: u8,
    /// Local acknowledge timeout, 4.096 µs · 2^n; 0 for none.
    pub timeout: u8,
    /// Retries after a timeout.
    pub retry_cnt: u8,
    /// Retries after an RNR NAK; 7 for no end.
    pub rnr_retry: u8,
    /// Local port of the alternate path.
    pub alt_port_num: u8,
    /// Timeout of the alternate path.
    pub alt_timeout: u8,
    /// Zero.
    pub reserved: [u8; 2],
}

assert_layout!(ModifyQp, size 112, align 8, {
    dest: 0, alt_dest: 32, qp_handle: 64, attr_mask: 68, qkey: 72, rq_psn: 76, sq_psn: 80,
    dest_qp_num: 84, qp_access_flags: 88, pkey_index: 92, alt_pkey_index: 94, qp_state: 96,
    cur_qp_state: 97, path_mtu: 98, path_mig_state: 99, en_sqd_async_notify: 100,
    max_rd_atomic: 101, max_dest_rd_atomic: 102, min_rnr_timer: 103, port_num: 104, timeout: 105,
    retry_cnt: 106, rnr_retry: 107, alt_port_num: 108, alt_timeout: 109, reserved: 110,
});

/// Reads the attributes of a queue pair (`ib_uverbs_query_qp`).
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
#[repr(C)]
#[derive(FromBytes, Immutable, IntoBytes, KnownLayout)]
pub struct QueryQp {
    /// Address of the response.
    pub response: u64,
    /// The queue pair.
    pub qp_handle: u32,
    /// `enum ib_qp_attr_mask`, which is `enum ibv_qp_attr_mask`.
    pub attr_mask: u32,
}

assert_layout!(QueryQp, size 16, align 8, { response: 0, qp_handle: 8, attr_mask: 12 });

/// Rings the doorbell of a send queue (`ib_uverbs_post_send`).
///
/// Both drivers read the work requests from the mapped ring, so the command carries none:
/// `wr_count` and `sge_count` are zero, and `wqe_size` is still checked (linux 6.1
/// `drivers/infiniband/core/uverbs_cmd.c`: `ib_uverbs_post_send`). A provider writes the command to
/// the device's file descriptor by itself, as one [`Request`](super::Request) with a header from
/// [`CommandHeader::of`](super::CommandHeader::of); the write returns the driver's error.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
#[repr(C)]
#[derive(FromBytes, Immutable, IntoBytes, KnownLayout)]
pub struct PostSend {
    /// Address of a [`PostSendResp`].
    pub response: u64,
    /// The queue pair.
    pub qp_handle: u32,
    /// Zero.
    pub wr_count: u32,
    /// Zero.
    pub sge_count: u32,
    /// At least [`MIN_WQE_SIZE`](Self::MIN_WQE_SIZE), else `EINVAL`.
    pub wqe_size: u32,
}

assert_layout!(PostSend, size 24, align 8, {
    response: 0, qp_handle: 8, wr_count: 12, sge_count: 16, wqe_size: 20,
});

impl PostSend {
    /// Size of `struct ib_uverbs_send_wr`, in bytes.
    pub const MIN_WQE_SIZE: u32 = 56;
}

/// Answer to [`PostSend`] (`ib_uverbs_post_send_resp`).
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
#[repr(C)]
#[derive(FromBytes, Immutable, IntoBytes, KnownLayout)]
pub struct PostSendResp {
    /// Place of the request that failed, counted from 1: zero when `wr_count` is zero, whether the
    /// doorbell failed or not.
    pub bad_wr: u32,
}

assert_layout!(PostSendResp, size 4, align 4, { bad_wr: 0 });
