// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
//! Where the public ABI shows the operations that `verbs_set_ops` installs.
//!
//! These are the places that a compiled application reads, so no release may move them. Some
//! operations are shown nowhere (`free_context`, `query_port`, the imports); they stand between
//! others that are.

use std::mem::{offset_of, size_of};

use crate::{ops::Op, public::ibv_context};

macro_rules! behind {
    ($($member:ident shows $op:ident,)*) => {
        &[$((Op::$op, const { offset_of!(ibv_context, ops.$member) / size_of::<usize>() }),)*]
    };
}

/// Operations in `ibv_context.ops`, in words behind the start of `ibv_context`.
pub(crate) const BEHIND: &[(Op, usize)] = behind![
    _compat_alloc_pd shows alloc_pd,
    _compat_dealloc_pd shows dealloc_pd,
    _compat_reg_mr shows reg_mr,
    _compat_rereg_mr shows rereg_mr,
    _compat_dereg_mr shows dereg_mr,
    alloc_mw shows alloc_mw,
    bind_mw shows bind_mw,
    dealloc_mw shows dealloc_mw,
    _compat_create_cq shows create_cq,
    poll_cq shows poll_cq,
    req_notify_cq shows req_notify_cq,
    _compat_cq_event shows cq_event,
    _compat_resize_cq shows resize_cq,
    _compat_destroy_cq shows destroy_cq,
    _compat_create_srq shows create_srq,
    _compat_modify_srq shows modify_srq,
    _compat_query_srq shows query_srq,
    _compat_destroy_srq shows destroy_srq,
    post_srq_recv shows post_srq_recv,
    _compat_create_qp shows create_qp,
    _compat_query_qp shows query_qp,
    _compat_modify_qp shows modify_qp,
    _compat_destroy_qp shows destroy_qp,
    post_send shows post_send,
    post_recv shows post_recv,
    _compat_create_ah shows create_ah,
    _compat_destroy_ah shows destroy_ah,
    _compat_attach_mcast shows attach_mcast,
    _compat_detach_mcast shows detach_mcast,
    _compat_async_event shows async_event,
];

/// Operations in `verbs_context`, in words before the start of the `ibv_context` at its end.
///
/// C counterpart: `infiniband/verbs.h`: `struct verbs_context`, from its end to its front, where it
/// grows. The last six are in no generation before E, F and G.
pub(crate) const BEFORE: &[(Op, usize)] = &[
    (Op::close_xrcd, 3),
    (Op::open_xrcd, 4),
    (Op::create_srq_ex, 5),
    (Op::get_srq_num, 6),
    (Op::create_qp_ex, 7),
    (Op::open_qp, 8),
    (Op::create_flow, 10),
    (Op::destroy_flow, 12),
    (Op::query_device_ex, 13),
    (Op::query_rt_values, 16),
    (Op::create_wq, 17),
    (Op::modify_wq, 18),
    (Op::destroy_wq, 19),
    (Op::create_rwq_ind_table, 20),
    (Op::destroy_rwq_ind_table, 21),
    (Op::post_srq_ops, 22),
    (Op::modify_cq, 23),
    (Op::alloc_td, 24),
    (Op::dealloc_td, 25),
    (Op::alloc_parent_domain, 26),
    (Op::modify_qp_rate_limit, 27),
    (Op::create_flow_action_esp, 28),
    (Op::destroy_flow_action, 29),
    (Op::modify_flow_action_esp, 30),
    (Op::free_dm, 31),
    (Op::alloc_dm, 32),
    (Op::reg_dm_mr, 33),
    (Op::destroy_counters, 34),
    (Op::create_counters, 35),
    (Op::attach_counters_point_flow, 36),
    (Op::read_counters, 37),
    (Op::alloc_null_mr, 38),
    (Op::advise_mr, 39),
    (Op::alloc_dmah, 41),
    (Op::dealloc_dmah, 42),
    (Op::reg_mr_ex, 43),
    (Op::dm_export_dmabuf_fd, 44),
    (Op::alloc_buf, 45),
    (Op::free_buf, 46),
];

/// Words from the start of the `ibv_context` back to `verbs_context.create_cq_ex`, where libibverbs has a
/// function of its own, whatever the provider installs.
pub(crate) const CREATE_CQ_EX: usize = 15;

/// Words from the start of the `ibv_context` back to `verbs_context.sz`, its own size in bytes.
pub(crate) const SIZE: usize = 1;

/// Words from the start of the `ibv_context` back to `verbs_context.priv`, libibverbs' own block.
pub(crate) const PRIVATE: usize = 14;
