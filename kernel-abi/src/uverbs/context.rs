// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause

//! Device, port and address handle.

use crate::layout::assert_layout;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// Opens the device (`ib_uverbs_get_context`).
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
#[repr(C)]
#[derive(FromBytes, Immutable, IntoBytes, KnownLayout)]
pub struct GetContext {
    /// Address of the response.
    pub response: u64,
}

assert_layout!(GetContext, size 8, align 8, { response: 0 });

/// Answer to [`GetContext`] (`ib_uverbs_get_context_resp`).
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
#[repr(C, align(8))]
#[derive(FromBytes, Immutable, IntoBytes, KnownLayout)]
pub struct GetContextResp {
    /// File descriptor of the asynchronous events.
    pub async_fd: u32,
    /// Number of completion vectors.
    pub num_comp_vectors: u32,
}

assert_layout!(GetContextResp, size 8, align 8, { async_fd: 0, num_comp_vectors: 4 });

/// Attributes of the device (`ib_uverbs_query_device_resp`).
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
#[repr(C)]
#[derive(FromBytes, Immutable, IntoBytes, KnownLayout)]
pub struct QueryDeviceResp {
    /// Version of the firmware; zero for both drivers.
    pub fw_ver: u64,
    /// GUID of the node, network order.
    pub node_guid: u64,
    /// GUID of the system image, network order.
    pub sys_image_guid: u64,
    /// Largest memory region, in bytes.
    pub max_mr_size: u64,
    /// Page sizes, one bit each.
    pub page_size_cap: u64,
    /// Vendor.
    pub vendor_id: u32,
    /// Part number of the vendor.
    pub vendor_part_id: u32,
    /// Version of the hardware.
    pub hw_ver: u32,
    /// Queue pairs.
    pub max_qp: u32,
    /// Work requests of one queue.
    pub max_qp_wr: u32,
    /// `enum ib_uverbs_device_cap_flags`, the low 32 bits.
    pub device_cap_flags: u32,
    /// Scatter/gather entries of a work request.
    pub max_sge: u32,
    /// Scatter/gather entries of an RDMA read.
    pub max_sge_rd: u32,
    /// Completion queues.
    pub max_cq: u32,
    /// Entries of one completion queue.
    pub max_cqe: u32,
    /// Memory regions.
    pub max_mr: u32,
    /// Protection domains.
    pub max_pd: u32,
    /// RDMA reads and atomics that one queue pair serves at a time.
    pub max_qp_rd_atom: u32,
    /// The same of an end-to-end context.
    pub max_ee_rd_atom: u32,
    /// RDMA reads and atomics that the device serves at a time.
    pub max_res_rd_atom: u32,
    /// RDMA reads and atomics that one queue pair starts at a time.
    pub max_qp_init_rd_atom: u32,
    /// The same of an end-to-end context.
    pub max_ee_init_rd_atom: u32,
    /// `enum ib_atomic_cap`.
    pub atomic_cap: u32,
    /// End-to-end contexts.
    pub max_ee: u32,
    /// Reliable datagram domains.
    pub max_rdd: u32,
    /// Memory windows.
    pub max_mw: u32,
    /// Raw IPv6 queue pairs.
    pub max_raw_ipv6_qp: u32,
    /// Raw Ethernet queue pairs.
    pub max_raw_ethy_qp: u32,
    /// Multicast groups.
    pub max_mcast_grp: u32,
    /// Queue pairs of one multicast group.
    pub max_mcast_qp_attach: u32,
    /// Queue pairs of all multicast groups.
    pub max_total_mcast_qp_attach: u32,
    /// Address handles.
    pub max_ah: u32,
    /// Fast memory regions.
    pub max_fmr: u32,
    /// Mappings of one fast memory region.
    pub max_map_per_fmr: u32,
    /// Shared receive queues.
    pub max_srq: u32,
    /// Work requests of one shared receive queue.
    pub max_srq_wr: u32,
    /// Scatter entries of a shared receive queue's work request.
    pub max_srq_sge: u32,
    /// Partition keys.
    pub max_pkeys: u16,
    /// Local acknowledge delay, 4.096 µs · 2^n.
    pub local_ca_ack_delay: u8,
    /// Ports.
    pub phys_port_cnt: u8,
    /// Zero.
    pub reserved: [u8; 4],
}

assert_layout!(QueryDeviceResp, size 176, align 8, {
    fw_ver: 0, node_guid: 8, sys_image_guid: 16, max_mr_size: 24, page_size_cap: 32, vendor_id: 40,
    vendor_part_id: 44, hw_ver: 48, max_qp: 52, max_qp_wr: 56, device_cap_flags: 60, max_sge: 64,
    max_sge_rd: 68, max_cq: 72, max_cqe: 76, max_mr: 80, max_pd: 84, max_qp_rd_atom: 88,
    max_ee_rd_atom: 92, max_res_rd_atom: 96, max_qp_init_rd_atom: 100, max_ee_init_rd_atom: 104,
    atomic_cap: 108, max_ee: 112, max_rdd: 116, max_mw: 120, max_raw_ipv6_qp: 124,
    max_raw_ethy_qp: 128, max_mcast_grp: 132, max_mcast_qp_attach: 136,
    max_total_mcast_qp_attach: 140, max_ah: 144, max_fmr: 148, max_map_per_fmr: 152, max_srq: 156,
    max_srq_wr: 160, max_srq_sge: 164, max_pkeys: 168, local_ca_ack_delay: 170, phys_port_cnt: 171,
    reserved: 172,
});

/// On-demand paging (`ib_uverbs_odp_caps`); zero for both drivers of linux 6.1.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
#[repr(C)]
#[derive(FromBytes, Immutable, IntoBytes, KnownLayout)]
pub struct OdpCaps {
    /// `enum ib_odp_general_cap_bits`.
    pub general_caps: u64,
    /// `enum ib_odp_transport_cap_bits` of reliable connections.
    pub rc_odp_caps: u32,
    /// The same of unreliable connections.
    pub uc_odp_caps: u32,
    /// The same of datagrams.
    pub ud_odp_caps: u32,
    /// Zero.
    pub reserved: u32,
}

assert_layout!(OdpCaps, size 24, align 8, {
    general_caps: 0, rc_odp_caps: 8, uc_odp_caps: 12, ud_odp_caps: 16, reserved: 20,
});

/// Receive side scaling (`ib_uverbs_rss_caps`); zero for both drivers.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
#[repr(C)]
#[derive(FromBytes, Immutable, IntoBytes, KnownLayout)]
pub struct RssCaps {
    /// Queue pair types, one bit each.
    pub supported_qpts: u32,
    /// Indirection tables.
    pub max_rwq_indirection_tables: u32,
    /// Entries of one indirection table.
    pub max_rwq_indirection_table_size: u32,
    /// Zero.
    pub reserved: u32,
}

assert_layout!(RssCaps, size 16, align 4, {
    supported_qpts: 0, max_rwq_indirection_tables: 4, max_rwq_indirection_table_size: 8,
    reserved: 12,
});

/// Tag matching (`ib_uverbs_tm_caps`); zero for both drivers.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
#[repr(C)]
#[derive(FromBytes, Immutable, IntoBytes, KnownLayout)]
pub struct TmCaps {
    /// Bytes of the largest rendezvous header.
    pub max_rndv_hdr_size: u32,
    /// Entries of the list of tags.
    pub max_num_tags: u32,
    /// `enum ib_tm_cap_flags`.
    pub flags: u32,
    /// Outstanding list operations.
    pub max_ops: u32,
    /// Scatter entries of a tag.
    pub max_sge: u32,
    /// Zero.
    pub reserved: u32,
}

assert_layout!(TmCaps, size 24, align 4, {
    max_rndv_hdr_size: 0, max_num_tags: 4, flags: 8, max_ops: 12, max_sge: 16, reserved: 20,
});

/// Completion queue moderation (`ib_uverbs_cq_moderation_caps`); zero for both drivers.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
#[repr(C)]
#[derive(FromBytes, Immutable, IntoBytes, KnownLayout)]
pub struct CqModerationCaps {
    /// Completions that one event may stand for.
    pub max_cq_moderation_count: u16,
    /// Microseconds that an event may be late.
    pub max_cq_moderation_period: u16,
    /// Zero.
    pub reserved: u32,
}

assert_layout!(CqModerationCaps, size 8, align 4, {
    max_cq_moderation_count: 0, max_cq_moderation_period: 2, reserved: 4,
});

/// Answer to the extended [`CMD_QUERY_DEVICE`](super::CMD_QUERY_DEVICE)
/// (`ib_uverbs_ex_query_device_resp`).
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
#[repr(C)]
#[derive(FromBytes, Immutable, IntoBytes, KnownLayout)]
pub struct ExQueryDeviceResp {
    /// The plain answer.
    pub base: QueryDeviceResp,
    /// Zero.
    pub comp_mask: u32,
    /// Bytes of the answer that the kernel wrote.
    pub response_length: u32,
    /// On-demand paging.
    pub odp_caps: OdpCaps,
    /// Valid bits of a completion's time stamp.
    pub timestamp_mask: u64,
    /// Frequency of the time stamps, in kHz.
    pub hca_core_clock: u64,
    /// `enum ib_uverbs_device_cap_flags`, all 64 bits.
    pub device_cap_flags_ex: u64,
    /// Receive side scaling.
    pub rss_caps: RssCaps,
    /// Work queues of type RQ.
    pub max_wq_type_rq: u32,
    /// `enum ib_uverbs_raw_packet_caps`.
    pub raw_packet_caps: u32,
    /// Tag matching.
    pub tm_caps: TmCaps,
    /// Completion queue moderation.
    pub cq_moderation_caps: CqModerationCaps,
    /// Bytes of device memory.
    pub max_dm_size: u64,
    /// On-demand paging of extended reliable connections.
    pub xrc_odp_caps: u32,
    /// Zero.
    pub reserved: u32,
}

assert_layout!(ExQueryDeviceResp, size 304, align 8, {
    base: 0, comp_mask: 176, response_length: 180, odp_caps: 184, timestamp_mask: 208,
    hca_core_clock: 216, device_cap_flags_ex: 224, rss_caps: 232, max_wq_type_rq: 248,
    raw_packet_caps: 252, tm_caps: 256, cq_moderation_caps: 280, max_dm_size: 288,
    xrc_odp_caps: 296, reserved: 300,
});

/// Reads the attributes of a port (`ib_uverbs_query_port`).
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
#[repr(C)]
#[derive(FromBytes, Immutable, IntoBytes, KnownLayout)]
pub struct QueryPort {
    /// Address of the response.
    pub response: u64,
    /// The port, counted from 1.
    pub port_num: u8,
    /// Zero.
    pub reserved: [u8; 7],
}

assert_layout!(QueryPort, size 16, align 8, { response: 0, port_num: 8, reserved: 9 });

/// Answer to [`CMD_CREATE_AH`](super::CMD_CREATE_AH) (`ib_uverbs_create_ah_resp`).
///
/// The driver's part follows at offset 4.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
#[repr(C)]
#[derive(FromBytes, Immutable, IntoBytes, KnownLayout)]
pub struct CreateAhResp {
    /// Names the address handle in later commands.
    pub ah_handle: u32,
}

assert_layout!(CreateAhResp, size 4, align 4, { ah_handle: 0 });
