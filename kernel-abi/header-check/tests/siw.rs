// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause

//! `kernel_abi::siw` against `rdma/siw-abi.h`.

use core::mem::offset_of;
use kernel_abi::siw::{self, flags, notify, opcode, status};
use kernel_abi_header_check::{check_struct, headers as c};

#[test]
fn constants() {
    assert_eq!(siw::ABI_VERSION, c::SIW_ABI_VERSION);
    assert_eq!(u32::try_from(siw::MAX_SGE), Ok(c::SIW_MAX_SGE));

    macro_rules! check {
        ($($ours:path = $theirs:ident),+ $(,)?) => {
            $(assert_eq!(u32::from($ours), c::$theirs, stringify!($ours));)+
        };
    }
    check! {
        flags::VALID = SIW_WQE_VALID,
        flags::INLINE = SIW_WQE_INLINE,
        flags::SIGNALLED = SIW_WQE_SIGNALLED,
        flags::SOLICITED = SIW_WQE_SOLICITED,
        flags::READ_FENCE = SIW_WQE_READ_FENCE,
        flags::REM_INVAL = SIW_WQE_REM_INVAL,
        flags::COMPLETED = SIW_WQE_COMPLETED,
        notify::NOT = SIW_NOTIFY_NOT,
        notify::SOLICITED = SIW_NOTIFY_SOLICITED,
        notify::NEXT_COMPLETION = SIW_NOTIFY_NEXT_COMPLETION,
        notify::MISSED_EVENTS = SIW_NOTIFY_MISSED_EVENTS,
        opcode::WRITE = SIW_OP_WRITE,
        opcode::READ = SIW_OP_READ,
        opcode::READ_LOCAL_INV = SIW_OP_READ_LOCAL_INV,
        opcode::SEND = SIW_OP_SEND,
        opcode::SEND_WITH_IMM = SIW_OP_SEND_WITH_IMM,
        opcode::SEND_REMOTE_INV = SIW_OP_SEND_REMOTE_INV,
        opcode::FETCH_AND_ADD = SIW_OP_FETCH_AND_ADD,
        opcode::COMP_AND_SWAP = SIW_OP_COMP_AND_SWAP,
        opcode::RECEIVE = SIW_OP_RECEIVE,
        opcode::READ_RESPONSE = SIW_OP_READ_RESPONSE,
        opcode::INVAL_STAG = SIW_OP_INVAL_STAG,
        opcode::REG_MR = SIW_OP_REG_MR,
        status::SUCCESS = SIW_WC_SUCCESS,
        status::LOC_LEN_ERR = SIW_WC_LOC_LEN_ERR,
        status::LOC_PROT_ERR = SIW_WC_LOC_PROT_ERR,
        status::LOC_QP_OP_ERR = SIW_WC_LOC_QP_OP_ERR,
        status::WR_FLUSH_ERR = SIW_WC_WR_FLUSH_ERR,
        status::BAD_RESP_ERR = SIW_WC_BAD_RESP_ERR,
        status::LOC_ACCESS_ERR = SIW_WC_LOC_ACCESS_ERR,
        status::REM_ACCESS_ERR = SIW_WC_REM_ACCESS_ERR,
        status::REM_INV_REQ_ERR = SIW_WC_REM_INV_REQ_ERR,
        status::GENERAL_ERR = SIW_WC_GENERAL_ERR,
    }
    // A new opcode or status of the kernel shows here first.
    assert_eq!(u32::from(opcode::REG_MR) + 1, c::SIW_NUM_OPCODES);
    assert_eq!(u32::from(status::GENERAL_ERR) + 1, c::SIW_NUM_WC_STATUS);
}

#[test]
fn elements() {
    check_struct!(siw::Sge => c::siw_sge { laddr, length, lkey });
    check_struct!(siw::Sqe => c::siw_sqe { id, flags, num_sge, opcode, rkey } renamed {
        raddr => __bindgen_anon_1, sge => __bindgen_anon_2,
    });
    check_struct!(siw::Rqe => c::siw_rqe { id, flags, num_sge, opcode, unused, sge });
    check_struct!(siw::Cqe => c::siw_cqe { id, flags, opcode, status, bytes } renamed {
        imm_data => __bindgen_anon_1, qp_id => __bindgen_anon_2,
    });
    check_struct!(siw::CqCtrl => c::siw_cq_ctrl { flags, pad });

    assert_eq!(
        offset_of!(siw::Sqe, sge).checked_add(size_of::<siw::Sge>()),
        Some(siw::Sqe::INLINE_OFFSET)
    );
    assert_eq!(
        siw::Sqe::INLINE_OFFSET.checked_add(siw::MAX_INLINE),
        Some(size_of::<c::siw_sqe>()),
        "inline data takes the room of all entries but the first"
    );
}

#[test]
fn responses() {
    check_struct!(siw::AllocCtxResp => c::siw_uresp_alloc_ctx { dev_id, pad });
    check_struct!(siw::CreateCqResp => c::siw_uresp_create_cq { cq_id, num_cqe, cq_key });
    check_struct!(siw::CreateQpResp => c::siw_uresp_create_qp {
        qp_id, num_sqe, num_rqe, pad, sq_key, rq_key,
    });
    check_struct!(siw::CreateSrqResp => c::siw_uresp_create_srq { num_rqe, pad, srq_key });
    check_struct!(siw::RegMrCmd => c::siw_ureq_reg_mr { stag_key, reserved, pad });
    check_struct!(siw::RegMrResp => c::siw_uresp_reg_mr { stag, pad });
}
