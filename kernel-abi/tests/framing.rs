// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause

//! How requests and responses are framed.

use core::mem::offset_of;
use kernel_abi::{
    rxe, siw,
    uverbs::{
        CMD_POST_SEND, CMD_REQ_NOTIFY_CQ, CommandHeader, CreateCq, ExCreateCq, ExRequest,
        ModifySrq, PostSend, PostSendResp, RegMr, RegMrResp, ReqNotifyCq, Request, Response,
    },
};

#[test]
fn header_counts_words_of_four_bytes() {
    assert_eq!(
        CommandHeader::of::<Request<PostSend>, PostSendResp>(CMD_POST_SEND),
        CommandHeader {
            command: 28,
            in_words: 8,
            out_words: 1
        }
    );
    assert_eq!(
        CommandHeader::of::<Request<ReqNotifyCq>, ()>(CMD_REQ_NOTIFY_CQ),
        CommandHeader {
            command: 23,
            in_words: 4,
            out_words: 0
        }
    );
}

#[test]
fn driver_part_follows_the_core_request() {
    assert_eq!(offset_of!(Request<CreateCq>, driver), 40);
    assert_eq!(offset_of!(ExRequest<ExCreateCq>, core), 24);
    assert_eq!(offset_of!(ExRequest<ExCreateCq>, driver), 56);
    assert_eq!(offset_of!(Request<RegMr, siw::RegMrCmd>, driver), 48);
    assert_eq!(size_of::<Request<RegMr, siw::RegMrCmd>>(), 56);
    assert_eq!(
        offset_of!(Request<ModifySrq, rxe::ModifySrqCmd>, driver),
        24
    );
    assert_eq!(size_of::<Request<ModifySrq, rxe::ModifySrqCmd>>(), 32);
}

#[test]
fn answer_is_no_longer_than_its_parts() {
    assert_eq!(size_of::<Response<RegMrResp>>(), 12);
    assert_eq!(size_of::<Response<RegMrResp, siw::RegMrResp>>(), 20);
}

#[test]
fn zeroed_is_new_of_zeroes() {
    assert_eq!(
        Request::<RegMr, siw::RegMrCmd>::zeroed(),
        Request::new(RegMr::default(), siw::RegMrCmd::default())
    );
}

#[test]
fn a_slot_of_any_union_member_has_one_size() {
    use rxe::{AtomicWr, FlushWr, MwWr, RdmaWr, SEND_WR_UNION_SIZE, SendWqe, UdWr};

    for size in [
        size_of::<RdmaWr>(),
        size_of::<AtomicWr>(),
        size_of::<UdWr>(),
        size_of::<MwWr>(),
        size_of::<FlushWr>(),
    ] {
        assert_eq!(size, SEND_WR_UNION_SIZE);
    }
    assert_eq!(size_of::<SendWqe<UdWr>>(), <SendWqe>::SGE_OFFSET);
}
