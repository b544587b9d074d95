// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause

//! `kernel_abi::rxe` against `rdma/rdma_user_rxe.h`.

use core::mem::offset_of;
use kernel_abi::rxe::{self, queue};
use kernel_abi_header_check::{check_struct, headers as c};

#[test]
fn queue() {
    assert_eq!(
        queue::LOG2_ELEM_SIZE,
        offset_of!(c::rxe_queue_buf, log2_elem_size)
    );
    assert_eq!(queue::INDEX_MASK, offset_of!(c::rxe_queue_buf, index_mask));
    assert_eq!(
        queue::PRODUCER_INDEX,
        offset_of!(c::rxe_queue_buf, producer_index)
    );
    assert_eq!(
        queue::CONSUMER_INDEX,
        offset_of!(c::rxe_queue_buf, consumer_index)
    );
    assert_eq!(queue::DATA, offset_of!(c::rxe_queue_buf, data));
}

#[test]
fn address() {
    assert_eq!(
        u32::from(rxe::NetworkType::Ipv4 as u8),
        c::RXE_NETWORK_TYPE_IPV4
    );
    assert_eq!(
        u32::from(rxe::NetworkType::Ipv6 as u8),
        c::RXE_NETWORK_TYPE_IPV6
    );
    check_struct!(rxe::GlobalRoute => c::rxe_global_route {
        dgid, flow_label, sgid_index, hop_limit, traffic_class,
    } ours { pad });
    check_struct!(rxe::Av => c::rxe_av { port_num, network_type, dmac, grh, sgid_addr, dgid_addr });
    assert_eq!(
        offset_of!(rxe::SocketAddress, family),
        offset_of!(c::sockaddr_in, sin_family)
    );
    assert_eq!(
        offset_of!(rxe::SocketAddress, port),
        offset_of!(c::sockaddr_in, sin_port)
    );
    assert_eq!(
        offset_of!(rxe::SocketAddress, rest),
        offset_of!(c::sockaddr_in, sin_addr)
    );
    assert_eq!(
        offset_of!(rxe::SocketAddress, rest).checked_add(4),
        Some(offset_of!(c::sockaddr_in6, sin6_addr))
    );
}

#[test]
fn responses() {
    check_struct!(rxe::MmapInfo => c::mminfo { offset, size, pad });
    check_struct!(rxe::CreateCqResp => c::rxe_create_cq_resp { mi });
    check_struct!(rxe::ResizeCqResp => c::rxe_resize_cq_resp { mi });
    check_struct!(rxe::CreateQpResp => c::rxe_create_qp_resp { rq_mi, sq_mi });
    check_struct!(rxe::CreateSrqResp => c::rxe_create_srq_resp { mi, srq_num, reserved });
    check_struct!(rxe::ModifySrqCmd => c::rxe_modify_srq_cmd { mmap_info_addr });
    check_struct!(rxe::CreateAhResp => c::rxe_create_ah_resp { ah_num, reserved });
}

#[test]
fn elements() {
    check_struct!(rxe::Sge => c::rxe_sge { addr, length, lkey });
    check_struct!(rxe::DmaInfo => c::rxe_dma_info {
        length, resid, cur_sge, num_sge, sge_offset, reserved,
    } theirs { __bindgen_anon_1 });
    assert_eq!(
        size_of::<rxe::DmaInfo>(),
        offset_of!(c::rxe_dma_info, __bindgen_anon_1),
        "entries stand directly behind their description"
    );
    check_struct!(rxe::RecvWqe => c::rxe_recv_wqe { wr_id, reserved, padding, dma });
    check_struct!(rxe::SendWr => c::rxe_send_wr { wr_id, reserved, opcode, send_flags, ex, wr });
    check_struct!(rxe::SendWqe => c::rxe_send_wqe {
        wr, status, state, iova, mask, first_psn, last_psn, ack_length, ssn, has_rd_atomic, dma,
    });
}

#[test]
fn members_of_the_work_request_union() {
    macro_rules! check {
        ($($ours:ident = $member:ident {
            $($field:ident $(=> $theirs:ident)?),+
        }),+ $(,)?) => {
            $(
                assert_eq!(size_of::<rxe::SendWr<rxe::$ours>>(), size_of::<c::rxe_send_wr>());
                $(assert_eq!(
                    offset_of!(rxe::SendWr<rxe::$ours>, wr.$field),
                    check!(@offset $member $field $($theirs)?),
                    "{}.{}", stringify!($ours), stringify!($field)
                );)+
            )+
        };
        (@offset $member:ident $field:ident) => { offset_of!(c::rxe_send_wr, wr.$member.$field) };
        (@offset $member:ident $field:ident $theirs:ident) => {
            offset_of!(c::rxe_send_wr, wr.$member.$theirs)
        };
    }
    check! {
        RdmaWr = rdma { remote_addr, rkey, reserved },
        AtomicWr = atomic { remote_addr, compare_add, swap, rkey, reserved },
        UdWr = ud { remote_qpn, remote_qkey, pkey_index, reserved, ah_num, pad, av },
        MwWr = mw { addr, length, mr_lkey, mw_rkey, rkey, access },
    }
    #[cfg(rxe_flush)]
    check! { FlushWr = flush { remote_addr, length, rkey, placement_type => type_, level } }
}
