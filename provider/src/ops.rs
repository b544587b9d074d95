// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause

//! The operations table: the index of what is implemented.
//!
//! An operation that is missing is libibverbs' own stub, which fails with `EOPNOTSUPP`.

use rdma_core_sys::ContextOps;

use crate::driver::Driver;
use crate::rxe::Rxe;
use crate::{
    ah, async_event, context, cq, cq_ex, mcast, mr, mw, pd, poll_cq, post_recv, post_send, qp,
    qp_ex, qp_state, query_rt_values, resize_cq, srq, srq_ex, td,
};

/// The table for the devices of one driver.
pub(crate) fn table<D: Driver>() -> ContextOps {
    ContextOps {
        query_device_ex: Some(context::query_device_ex::<D>),
        query_rt_values: Some(query_rt_values::query_rt_values),
        query_port: Some(context::query_port),
        free_context: Some(context::close),
        async_event: Some(async_event::async_event::<D>),
        alloc_pd: Some(pd::alloc),
        alloc_parent_domain: Some(pd::alloc_parent_domain),
        dealloc_pd: Some(pd::dealloc),
        alloc_td: Some(td::alloc),
        dealloc_td: Some(td::dealloc),
        reg_mr: Some(mr::reg::<D>),
        dereg_mr: Some(mr::dereg),
        create_cq: Some(cq::create::<D>),
        create_cq_ex: Some(cq_ex::create::<D>),
        req_notify_cq: Some(cq::req_notify::<D>),
        destroy_cq: Some(cq::destroy::<D>),
        resize_cq: Some(resize_cq::resize_cq::<D>),
        poll_cq: Some(poll_cq::poll_cq::<D>),
        create_srq: Some(srq::create::<D>),
        create_srq_ex: Some(srq_ex::create::<D>),
        modify_srq: Some(srq::modify::<D>),
        query_srq: Some(srq::query::<D>),
        destroy_srq: Some(srq::destroy::<D>),
        post_srq_recv: Some(post_recv::post_srq_recv::<D>),
        create_qp: Some(qp::create::<D>),
        create_qp_ex: Some(qp_ex::create::<D>),
        modify_qp: Some(qp_state::modify::<D>),
        query_qp: Some(qp_state::query::<D>),
        destroy_qp: Some(qp::destroy::<D>),
        post_send: Some(post_send::post_send::<D>),
        post_recv: Some(post_recv::post_recv::<D>),
        ..if D::ID == Rxe::ID {
            rxe_only()
        } else {
            ContextOps::default()
        }
    }
}

/// What iWARP (datagrams) or siw (memory windows) does not have.
fn rxe_only() -> ContextOps {
    ContextOps {
        create_ah: Some(ah::create),
        destroy_ah: Some(ah::destroy),
        attach_mcast: Some(mcast::attach),
        detach_mcast: Some(mcast::detach),
        advise_mr: Some(mr::advise),
        alloc_mw: Some(mw::alloc),
        bind_mw: Some(mw::bind),
        dealloc_mw: Some(mw::dealloc),
        ..ContextOps::default()
    }
}
