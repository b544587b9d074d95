// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause

//! `ibv_wc_read_*`: the fields of the completion that a batch has come to.
//!
//! Each is a load from memory of ours, and cannot fail or panic.

use rdma_core_sys::{
    IBV_WC_EX_WITH_BYTE_LEN, IBV_WC_EX_WITH_COMPLETION_TIMESTAMP,
    IBV_WC_EX_WITH_COMPLETION_TIMESTAMP_WALLCLOCK, IBV_WC_EX_WITH_DLID_PATH_BITS,
    IBV_WC_EX_WITH_IMM, IBV_WC_EX_WITH_QP_NUM, IBV_WC_EX_WITH_SL, IBV_WC_EX_WITH_SLID,
    IBV_WC_EX_WITH_SRC_QP, ibv_cq_ex,
};

use crate::cq::Cq;
use crate::driver::Driver;
use crate::start_poll::Current;

/// The fields that an application can ask for, `enum ibv_create_cq_wc_flags`: librxe's, and the time. No
/// CQE of either driver tells of a VLAN, a flow tag or a matched tag.
pub(crate) const READABLE: u32 = IBV_WC_EX_WITH_BYTE_LEN
    | IBV_WC_EX_WITH_IMM
    | IBV_WC_EX_WITH_QP_NUM
    | IBV_WC_EX_WITH_SRC_QP
    | IBV_WC_EX_WITH_SLID
    | IBV_WC_EX_WITH_SL
    | IBV_WC_EX_WITH_DLID_PATH_BITS
    | IBV_WC_EX_WITH_COMPLETION_TIMESTAMP
    | IBV_WC_EX_WITH_COMPLETION_TIMESTAMP_WALLCLOCK;

/// # Safety
///
/// An extended CQ of this driver's, in a batch of the caller's.
unsafe fn current<'a, D: Driver>(cq: *mut ibv_cq_ex) -> &'a Current {
    // SAFETY: the caller's promise: a `Cq`, whose completion does not change while its field is read.
    unsafe { (*cq.cast::<Cq<D>>()).batch.current() }
}

macro_rules! readers {
    ($($(#[$doc:meta])* fn $name:ident(|$current:ident| $field:expr) -> $type:ty;)*) => {
        $(
            $(#[$doc])*
            ///
            /// # Safety
            ///
            /// As the man page asks: in a batch.
            unsafe extern "C" fn $name<D: Driver>(cq: *mut ibv_cq_ex) -> $type {
                // SAFETY: the caller's promise.
                let $current = unsafe { current::<D>(cq) };
                $field
            }
        )*
    };
}

readers! {
    /// `ibv_wc_read_opcode`(3).
    fn opcode(|it| it.wc().opcode) -> u32;
    /// `ibv_wc_read_vendor_err`(3).
    fn vendor_err(|it| it.wc().vendor_err) -> u32;
    /// `ibv_wc_read_wc_flags`(3).
    fn wc_flags(|it| it.wc().wc_flags) -> u32;
    /// `ibv_wc_read_byte_len`(3), in bytes.
    fn byte_len(|it| it.wc().byte_len) -> u32;
    /// `ibv_wc_read_imm_data`(3) in network order, and `ibv_wc_read_invalidated_rkey`(3) in the machine's:
    /// what stands there depends on `wc_flags`.
    fn imm_data(|it| {
        // SAFETY: both members of the union are 32 bits.
        unsafe { it.wc().__bindgen_anon_1.imm_data }
    }) -> u32;
    /// `ibv_wc_read_qp_num`(3).
    fn qp_num(|it| it.wc().qp_num) -> u32;
    /// `ibv_wc_read_src_qp`(3); 0 but for a datagram.
    fn src_qp(|it| it.wc().src_qp) -> u32;
    /// `ibv_wc_read_slid`(3); 0 without a subnet.
    fn slid(|it| it.wc().slid.into()) -> u32;
    /// `ibv_wc_read_sl`(3).
    fn sl(|it| it.wc().sl) -> u8;
    /// `ibv_wc_read_dlid_path_bits`(3); 0 without a subnet.
    fn dlid_path_bits(|it| it.wc().dlid_path_bits) -> u8;
    /// `ibv_wc_read_completion_ts`(3): when `ibv_start_poll` or `ibv_next_poll` came to the completion, on
    /// the clock of [`query_rt_values`](crate::query_rt_values), in nanoseconds.
    fn completion_ts(|it| it.timestamp) -> u64;
    /// `ibv_wc_read_completion_wallclock_ns`(3): the same moment, in nanoseconds since the epoch.
    fn completion_wallclock_ns(|it| it.wallclock_ns) -> u64;
}

/// Lets the application read the fields that it has asked for, and those that it always may; the
/// others stay NULL, as with librxe.
pub(crate) fn install<D: Driver>(cq: &mut ibv_cq_ex, wanted: u64) {
    let has = |flag: u32| wanted & u64::from(flag) != 0;
    cq.read_opcode = Some(opcode::<D>);
    cq.read_vendor_err = Some(vendor_err::<D>);
    cq.read_wc_flags = Some(wc_flags::<D>);
    cq.read_byte_len = has(IBV_WC_EX_WITH_BYTE_LEN).then_some(byte_len::<D>);
    cq.read_imm_data = has(IBV_WC_EX_WITH_IMM).then_some(imm_data::<D>);
    cq.read_qp_num = has(IBV_WC_EX_WITH_QP_NUM).then_some(qp_num::<D>);
    cq.read_src_qp = has(IBV_WC_EX_WITH_SRC_QP).then_some(src_qp::<D>);
    cq.read_slid = has(IBV_WC_EX_WITH_SLID).then_some(slid::<D>);
    cq.read_sl = has(IBV_WC_EX_WITH_SL).then_some(sl::<D>);
    cq.read_dlid_path_bits = has(IBV_WC_EX_WITH_DLID_PATH_BITS).then_some(dlid_path_bits::<D>);
    cq.read_completion_ts = has(IBV_WC_EX_WITH_COMPLETION_TIMESTAMP).then_some(completion_ts::<D>);
    cq.read_completion_wallclock_ns =
        has(IBV_WC_EX_WITH_COMPLETION_TIMESTAMP_WALLCLOCK).then_some(completion_wallclock_ns::<D>);
}
