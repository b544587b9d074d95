// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause

//! `kernel_abi::uverbs` against `rdma/ib_user_verbs.h`.

use core::mem::offset_of;
use kernel_abi::{
    rxe, siw,
    uverbs::{self, Response},
};
use kernel_abi_header_check::{check_struct, headers as c};

#[test]
fn commands() {
    macro_rules! check {
        ($($ours:ident = $theirs:ident),+ $(,)?) => {
            $(assert_eq!(uverbs::$ours, c::$theirs, stringify!($ours));)+
        };
    }
    check! {
        ABI_VERSION = IB_USER_VERBS_ABI_VERSION,
        CMD_FLAG_EXTENDED = IB_USER_VERBS_CMD_FLAG_EXTENDED,
        CMD_GET_CONTEXT = IB_USER_VERBS_CMD_GET_CONTEXT,
        CMD_QUERY_DEVICE = IB_USER_VERBS_CMD_QUERY_DEVICE,
        CMD_QUERY_PORT = IB_USER_VERBS_CMD_QUERY_PORT,
        CMD_ALLOC_PD = IB_USER_VERBS_CMD_ALLOC_PD,
        CMD_DEALLOC_PD = IB_USER_VERBS_CMD_DEALLOC_PD,
        CMD_CREATE_AH = IB_USER_VERBS_CMD_CREATE_AH,
        CMD_DESTROY_AH = IB_USER_VERBS_CMD_DESTROY_AH,
        CMD_REG_MR = IB_USER_VERBS_CMD_REG_MR,
        CMD_DEREG_MR = IB_USER_VERBS_CMD_DEREG_MR,
        CMD_ALLOC_MW = IB_USER_VERBS_CMD_ALLOC_MW,
        CMD_DEALLOC_MW = IB_USER_VERBS_CMD_DEALLOC_MW,
        CMD_CREATE_CQ = IB_USER_VERBS_CMD_CREATE_CQ,
        CMD_RESIZE_CQ = IB_USER_VERBS_CMD_RESIZE_CQ,
        CMD_DESTROY_CQ = IB_USER_VERBS_CMD_DESTROY_CQ,
        CMD_REQ_NOTIFY_CQ = IB_USER_VERBS_CMD_REQ_NOTIFY_CQ,
        CMD_CREATE_QP = IB_USER_VERBS_CMD_CREATE_QP,
        CMD_QUERY_QP = IB_USER_VERBS_CMD_QUERY_QP,
        CMD_MODIFY_QP = IB_USER_VERBS_CMD_MODIFY_QP,
        CMD_DESTROY_QP = IB_USER_VERBS_CMD_DESTROY_QP,
        CMD_POST_SEND = IB_USER_VERBS_CMD_POST_SEND,
        CMD_ATTACH_MCAST = IB_USER_VERBS_CMD_ATTACH_MCAST,
        CMD_DETACH_MCAST = IB_USER_VERBS_CMD_DETACH_MCAST,
        CMD_CREATE_SRQ = IB_USER_VERBS_CMD_CREATE_SRQ,
        CMD_MODIFY_SRQ = IB_USER_VERBS_CMD_MODIFY_SRQ,
        CMD_QUERY_SRQ = IB_USER_VERBS_CMD_QUERY_SRQ,
        CMD_DESTROY_SRQ = IB_USER_VERBS_CMD_DESTROY_SRQ,
        CMD_CREATE_XSRQ = IB_USER_VERBS_CMD_CREATE_XSRQ,
    }
    assert_eq!(
        usize::try_from(uverbs::PostSend::MIN_WQE_SIZE),
        Ok(size_of::<c::ib_uverbs_send_wr>())
    );
}

#[test]
fn headers_of_commands() {
    check_struct!(uverbs::CommandHeader => c::ib_uverbs_cmd_hdr { command, in_words, out_words });
    check_struct!(uverbs::ExCommandHeader => c::ib_uverbs_ex_cmd_hdr {
        response, provider_in_words, provider_out_words, cmd_hdr_reserved,
    });
}

#[test]
fn driver_part_follows_the_core_answer() {
    macro_rules! check {
        ($($ours:ty = $theirs:ident),+ $(,)?) => {
            $(assert_eq!(
                offset_of!($ours, driver), offset_of!(c::$theirs, driver_data), stringify!($ours)
            );)+
        };
    }
    check! {
        Response<uverbs::GetContextResp, siw::AllocCtxResp> = ib_uverbs_get_context_resp,
        Response<uverbs::CreateAhResp, rxe::CreateAhResp> = ib_uverbs_create_ah_resp,
        Response<uverbs::RegMrResp, siw::RegMrResp> = ib_uverbs_reg_mr_resp,
        Response<uverbs::CreateCqResp, rxe::CreateCqResp> = ib_uverbs_create_cq_resp,
        Response<uverbs::CreateCqResp, siw::CreateCqResp> = ib_uverbs_create_cq_resp,
        Response<uverbs::ResizeCqResp, rxe::ResizeCqResp> = ib_uverbs_resize_cq_resp,
        Response<uverbs::CreateQpResp, rxe::CreateQpResp> = ib_uverbs_create_qp_resp,
        Response<uverbs::CreateQpResp, siw::CreateQpResp> = ib_uverbs_create_qp_resp,
        Response<uverbs::CreateSrqResp, rxe::CreateSrqResp> = ib_uverbs_create_srq_resp,
        Response<uverbs::CreateSrqResp, siw::CreateSrqResp> = ib_uverbs_create_srq_resp,
    }
    // The extended answers have no `driver_data`: the driver's part follows their last field.
    assert_eq!(
        offset_of!(Response<uverbs::ExCreateCqResp, rxe::CreateCqResp>, driver),
        size_of::<c::ib_uverbs_ex_create_cq_resp>()
    );
    assert_eq!(
        offset_of!(Response<uverbs::ExCreateQpResp, rxe::CreateQpResp>, driver),
        size_of::<c::ib_uverbs_ex_create_qp_resp>()
    );
}

#[test]
fn context() {
    check_struct!(uverbs::GetContext => c::ib_uverbs_get_context {
        response,
    } theirs { driver_data });
    check_struct!(uverbs::GetContextResp => c::ib_uverbs_get_context_resp {
        async_fd, num_comp_vectors,
    } theirs { driver_data });
    check_struct!(uverbs::QueryPort => c::ib_uverbs_query_port {
        response, port_num, reserved,
    } theirs { driver_data });
    check_struct!(uverbs::CreateAhResp => c::ib_uverbs_create_ah_resp {
        ah_handle,
    } theirs { driver_data });
}

#[test]
fn device() {
    check_struct!(uverbs::QueryDeviceResp => c::ib_uverbs_query_device_resp {
        fw_ver, node_guid, sys_image_guid, max_mr_size, page_size_cap, vendor_id, vendor_part_id,
        hw_ver, max_qp, max_qp_wr, device_cap_flags, max_sge, max_sge_rd, max_cq, max_cqe, max_mr,
        max_pd, max_qp_rd_atom, max_ee_rd_atom, max_res_rd_atom, max_qp_init_rd_atom,
        max_ee_init_rd_atom, atomic_cap, max_ee, max_rdd, max_mw, max_raw_ipv6_qp, max_raw_ethy_qp,
        max_mcast_grp, max_mcast_qp_attach, max_total_mcast_qp_attach, max_ah, max_fmr,
        max_map_per_fmr, max_srq, max_srq_wr, max_srq_sge, max_pkeys, local_ca_ack_delay,
        phys_port_cnt, reserved,
    });
    check_struct!(uverbs::OdpCaps => c::ib_uverbs_odp_caps { general_caps, reserved } ours {
        rc_odp_caps, uc_odp_caps, ud_odp_caps,
    } theirs { per_transport_caps });
    macro_rules! check_per_transport_caps {
        ($($field:ident),+) => {
            $(assert_eq!(
                offset_of!(uverbs::OdpCaps, $field),
                offset_of!(c::ib_uverbs_odp_caps, per_transport_caps.$field)
            );)+
        };
    }
    check_per_transport_caps!(rc_odp_caps, uc_odp_caps, ud_odp_caps);
    check_struct!(uverbs::RssCaps => c::ib_uverbs_rss_caps {
        supported_qpts, max_rwq_indirection_tables, max_rwq_indirection_table_size, reserved,
    });
    check_struct!(uverbs::TmCaps => c::ib_uverbs_tm_caps {
        max_rndv_hdr_size, max_num_tags, flags, max_ops, max_sge, reserved,
    });
    check_struct!(uverbs::CqModerationCaps => c::ib_uverbs_cq_moderation_caps {
        max_cq_moderation_count, max_cq_moderation_period, reserved,
    });
    check_struct!(uverbs::ExQueryDeviceResp => c::ib_uverbs_ex_query_device_resp {
        base, comp_mask, response_length, odp_caps, timestamp_mask, hca_core_clock,
        device_cap_flags_ex, rss_caps, max_wq_type_rq, raw_packet_caps, tm_caps, cq_moderation_caps,
        max_dm_size, xrc_odp_caps, reserved,
    });
}

#[test]
fn memory() {
    check_struct!(uverbs::AllocPd => c::ib_uverbs_alloc_pd { response } theirs { driver_data });
    check_struct!(uverbs::AllocPdResp => c::ib_uverbs_alloc_pd_resp {
        pd_handle,
    } theirs { driver_data });
    check_struct!(uverbs::RegMr => c::ib_uverbs_reg_mr {
        response, start, length, hca_va, pd_handle, access_flags,
    } theirs { driver_data });
    check_struct!(uverbs::RegMrResp => c::ib_uverbs_reg_mr_resp {
        mr_handle, lkey, rkey,
    } theirs { driver_data });
    check_struct!(uverbs::AllocMw => c::ib_uverbs_alloc_mw {
        response, pd_handle, mw_type, reserved,
    } theirs { driver_data });
    check_struct!(uverbs::AllocMwResp => c::ib_uverbs_alloc_mw_resp {
        mw_handle, rkey,
    } theirs { driver_data });
}

#[test]
fn completion_queue() {
    check_struct!(uverbs::CreateCq => c::ib_uverbs_create_cq {
        response, user_handle, cqe, comp_vector, comp_channel, reserved,
    } theirs { driver_data });
    check_struct!(uverbs::CreateCqResp => c::ib_uverbs_create_cq_resp {
        cq_handle, cqe,
    } theirs { driver_data });
    check_struct!(uverbs::ExCreateCq => c::ib_uverbs_ex_create_cq {
        user_handle, cqe, comp_vector, comp_channel, comp_mask, flags, reserved,
    });
    check_struct!(uverbs::ExCreateCqResp => c::ib_uverbs_ex_create_cq_resp {
        base, comp_mask, response_length,
    });
    check_struct!(uverbs::ResizeCq => c::ib_uverbs_resize_cq {
        response, cq_handle, cqe,
    } theirs { driver_data });
    check_struct!(uverbs::ResizeCqResp => c::ib_uverbs_resize_cq_resp {
        cqe, reserved,
    } theirs { driver_data });
    check_struct!(uverbs::ReqNotifyCq => c::ib_uverbs_req_notify_cq { cq_handle, solicited_only });
    check_struct!(uverbs::Wc => c::ib_uverbs_wc {
        wr_id, status, opcode, vendor_err, byte_len, ex, qp_num, src_qp, wc_flags, pkey_index, slid,
        sl, dlid_path_bits, port_num, reserved,
    });
}

#[test]
fn queue_pair() {
    check_struct!(uverbs::CreateQp => c::ib_uverbs_create_qp {
        response, user_handle, pd_handle, send_cq_handle, recv_cq_handle, srq_handle, max_send_wr,
        max_recv_wr, max_send_sge, max_recv_sge, max_inline_data, sq_sig_all, qp_type, is_srq,
        reserved,
    } theirs { driver_data });
    check_struct!(uverbs::CreateQpResp => c::ib_uverbs_create_qp_resp {
        qp_handle, qpn, max_send_wr, max_recv_wr, max_send_sge, max_recv_sge, max_inline_data,
        reserved,
    } theirs { driver_data });
    check_struct!(uverbs::ExCreateQp => c::ib_uverbs_ex_create_qp {
        user_handle, pd_handle, send_cq_handle, recv_cq_handle, srq_handle, max_send_wr,
        max_recv_wr, max_send_sge, max_recv_sge, max_inline_data, sq_sig_all, qp_type, is_srq,
        reserved, comp_mask, create_flags, rwq_ind_tbl_handle, source_qpn,
    });
    check_struct!(uverbs::ExCreateQpResp => c::ib_uverbs_ex_create_qp_resp {
        base, comp_mask, response_length,
    });
    check_struct!(uverbs::QpDest => c::ib_uverbs_qp_dest {
        dgid, flow_label, dlid, reserved, sgid_index, hop_limit, traffic_class, sl, src_path_bits,
        static_rate, is_global, port_num,
    });
    check_struct!(uverbs::ModifyQp => c::ib_uverbs_modify_qp {
        dest, alt_dest, qp_handle, attr_mask, qkey, rq_psn, sq_psn, dest_qp_num, qp_access_flags,
        pkey_index, alt_pkey_index, qp_state, cur_qp_state, path_mtu, path_mig_state,
        en_sqd_async_notify, max_rd_atomic, max_dest_rd_atomic, min_rnr_timer, port_num, timeout,
        retry_cnt, rnr_retry, alt_port_num, alt_timeout, reserved,
    } theirs { driver_data });
    check_struct!(uverbs::QueryQp => c::ib_uverbs_query_qp {
        response, qp_handle, attr_mask,
    } theirs { driver_data });
    check_struct!(uverbs::PostSend => c::ib_uverbs_post_send {
        response, qp_handle, wr_count, sge_count, wqe_size,
    } theirs { send_wr });
    check_struct!(uverbs::AsyncEventDesc => c::ib_uverbs_async_event_desc {
        element, event_type, reserved
    });
    check_struct!(uverbs::PostSendResp => c::ib_uverbs_post_send_resp { bad_wr });
}

#[test]
fn shared_receive_queue() {
    check_struct!(uverbs::CreateSrq => c::ib_uverbs_create_srq {
        response, user_handle, pd_handle, max_wr, max_sge, srq_limit,
    } theirs { driver_data });
    check_struct!(uverbs::CreateXsrq => c::ib_uverbs_create_xsrq {
        response, user_handle, srq_type, pd_handle, max_wr, max_sge, srq_limit, max_num_tags,
        xrcd_handle, cq_handle,
    } theirs { driver_data });
    check_struct!(uverbs::CreateSrqResp => c::ib_uverbs_create_srq_resp {
        srq_handle, max_wr, max_sge, srqn,
    } theirs { driver_data });
    check_struct!(uverbs::ModifySrq => c::ib_uverbs_modify_srq {
        srq_handle, attr_mask, max_wr, srq_limit,
    } theirs { driver_data });
    check_struct!(uverbs::QuerySrq => c::ib_uverbs_query_srq {
        response, srq_handle, reserved,
    } theirs { driver_data });
}
