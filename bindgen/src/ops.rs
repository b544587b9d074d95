// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
//! The operations a provider may implement: the names of all, the types of those in reach.
//!
//! C counterpart: rdma-core `libibverbs/driver.h`: `struct verbs_context_ops`. No operation changed
//! its type between v33 and v65; new ones were inserted, in alphabetical order.

use std::ffi::{c_int, c_void};

use crate::{provider::verbs_mr, public::*};

macro_rules! every_op {
    ($($name:ident $(since $since:literal)?,)*) => {
        /// An operation of `verbs_context_ops`, named as its member.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
        #[expect(missing_docs, non_camel_case_types, reason = "the names are libibverbs' own")]
        pub enum Op { $($name,)* }

        impl Op {
            /// Every operation that any known generation has, in the table's order.
            pub const ALL: &[Self] = &[$(Self::$name,)*];

            /// The member's name.
            pub const fn name(self) -> &'static str {
                match self { $(Self::$name => stringify!($name),)* }
            }

            /// The first known generation that has the operation.
            pub(crate) const fn since(self) -> char {
                match self { $(Self::$name => every_op!(@since $($since)?),)* }
            }
        }
    };
    (@since) => { 'C' };
    (@since $since:literal) => { $since };
}

every_op! {
    advise_mr,
    alloc_buf since 'G',
    alloc_dm,
    alloc_dmah since 'E',
    alloc_mw,
    alloc_null_mr,
    alloc_parent_domain,
    alloc_pd,
    alloc_td,
    async_event,
    attach_counters_point_flow,
    attach_mcast,
    bind_mw,
    close_xrcd,
    cq_event,
    create_ah,
    create_comp_cntr since 'H',
    create_counters,
    create_cq,
    create_cq_ex,
    create_flow,
    create_flow_action_esp,
    create_qp,
    create_qp_ex,
    create_rwq_ind_table,
    create_srq,
    create_srq_ex,
    create_wq,
    dealloc_dmah since 'E',
    dealloc_mw,
    dealloc_pd,
    dealloc_td,
    dereg_mr,
    destroy_ah,
    destroy_comp_cntr since 'H',
    destroy_counters,
    destroy_cq,
    destroy_flow,
    destroy_flow_action,
    destroy_qp,
    destroy_rwq_ind_table,
    destroy_srq,
    destroy_wq,
    detach_mcast,
    dm_export_dmabuf_fd since 'F',
    free_buf since 'G',
    free_context,
    free_dm,
    get_srq_num,
    import_dm,
    import_mr,
    import_pd,
    inc_comp_cntr since 'H',
    inc_err_comp_cntr since 'H',
    modify_cq,
    modify_flow_action_esp,
    modify_qp,
    modify_qp_rate_limit,
    modify_srq,
    modify_wq,
    open_qp,
    open_xrcd,
    poll_cq,
    post_recv,
    post_send,
    post_srq_ops,
    post_srq_recv,
    qp_attach_comp_cntr since 'H',
    query_comp_cntr_caps since 'H',
    query_device_ex,
    query_ece,
    query_port,
    query_port_speed since 'F',
    query_qp,
    query_qp_data_in_order,
    query_rt_values,
    query_srq,
    read_comp_cntr since 'H',
    read_counters,
    read_err_comp_cntr since 'H',
    reg_dm_mr,
    reg_dmabuf_mr,
    reg_mr,
    reg_mr_ex since 'E',
    req_notify_cq,
    rereg_mr,
    resize_cq,
    set_comp_cntr since 'H',
    set_ece,
    set_err_comp_cntr since 'H',
    unimport_dm,
    unimport_mr,
    unimport_pd,
}

macro_rules! context_ops {
    ($($(#[$doc:meta])* fn $name:ident($($argument:ident: $type:ty),* $(,)?) $(-> $result:ty)?;)*) => {
        /// The operations a provider implements, for [`Library::set_ops`](crate::Library::set_ops).
        ///
        /// `None` leaves libibverbs' own stub in place, which fails with `EOPNOTSUPP` or does
        /// nothing. Where the members stand in libibverbs' table is not this struct's business.
        #[derive(Clone, Copy, Debug, Default)]
        pub struct ContextOps {
            $($(#[$doc])* pub $name: Option<unsafe extern "C" fn($($argument: $type),*) $(-> $result)?>,)*
        }

        impl ContextOps {
            /// The address of `op`, if the provider implements it.
            pub(crate) fn address(&self, op: Op) -> Option<*const c_void> {
                match op {
                    // CAST: a function pointer becomes the address a table of pointers holds.
                    $(Op::$name => self.$name.map(|op| op as *const c_void),)*
                    _ => None,
                }
            }
        }
    };
}

context_ops! {
    /// Serves `ibv_advise_mr`(3).
    fn advise_mr(pd: *mut ibv_pd, advice: u32, flags: u32, list: *mut ibv_sge, entries: u32) -> c_int;
    /// Serves `ibv_alloc_mw`(3).
    fn alloc_mw(pd: *mut ibv_pd, mw_type: ibv_mw_type) -> *mut ibv_mw;
    /// Serves `ibv_alloc_parent_domain`(3).
    fn alloc_parent_domain(
        context: *mut ibv_context,
        attributes: *mut ibv_parent_domain_init_attr,
    ) -> *mut ibv_pd;
    /// Serves `ibv_alloc_pd`(3).
    fn alloc_pd(context: *mut ibv_context) -> *mut ibv_pd;
    /// Serves `ibv_alloc_td`(3).
    fn alloc_td(context: *mut ibv_context, attributes: *mut ibv_td_init_attr) -> *mut ibv_td;
    /// Sees each event that `ibv_get_async_event`(3) is about to return.
    fn async_event(context: *mut ibv_context, event: *mut ibv_async_event);
    /// Serves `ibv_attach_mcast`(3).
    fn attach_mcast(qp: *mut ibv_qp, gid: *const ibv_gid, lid: u16) -> c_int;
    /// Serves `ibv_bind_mw`(3).
    fn bind_mw(qp: *mut ibv_qp, mw: *mut ibv_mw, bind: *mut ibv_mw_bind) -> c_int;
    /// Sees each event that `ibv_get_cq_event`(3) is about to return.
    fn cq_event(cq: *mut ibv_cq);
    /// Serves `ibv_create_ah`(3).
    fn create_ah(pd: *mut ibv_pd, attributes: *mut ibv_ah_attr) -> *mut ibv_ah;
    /// Serves `ibv_create_cq`(3).
    fn create_cq(
        context: *mut ibv_context,
        entries: c_int,
        channel: *mut ibv_comp_channel,
        vector: c_int,
    ) -> *mut ibv_cq;
    /// Serves `ibv_create_cq_ex`(3).
    fn create_cq_ex(
        context: *mut ibv_context,
        attributes: *mut ibv_cq_init_attr_ex,
    ) -> *mut ibv_cq_ex;
    /// Serves `ibv_create_qp`(3).
    fn create_qp(pd: *mut ibv_pd, attributes: *mut ibv_qp_init_attr) -> *mut ibv_qp;
    /// Serves `ibv_create_qp_ex`(3).
    fn create_qp_ex(context: *mut ibv_context, attributes: *mut ibv_qp_init_attr_ex) -> *mut ibv_qp;
    /// Serves `ibv_create_srq`(3).
    fn create_srq(pd: *mut ibv_pd, attributes: *mut ibv_srq_init_attr) -> *mut ibv_srq;
    /// Serves `ibv_create_srq_ex`(3).
    fn create_srq_ex(
        context: *mut ibv_context,
        attributes: *mut ibv_srq_init_attr_ex,
    ) -> *mut ibv_srq;
    /// Serves `ibv_dealloc_mw`(3).
    fn dealloc_mw(mw: *mut ibv_mw) -> c_int;
    /// Serves `ibv_dealloc_pd`(3).
    fn dealloc_pd(pd: *mut ibv_pd) -> c_int;
    /// Serves `ibv_dealloc_td`(3).
    fn dealloc_td(td: *mut ibv_td) -> c_int;
    /// Serves `ibv_dereg_mr`(3).
    fn dereg_mr(mr: *mut verbs_mr) -> c_int;
    /// Serves `ibv_destroy_ah`(3).
    fn destroy_ah(ah: *mut ibv_ah) -> c_int;
    /// Serves `ibv_destroy_cq`(3).
    fn destroy_cq(cq: *mut ibv_cq) -> c_int;
    /// Serves `ibv_destroy_qp`(3).
    fn destroy_qp(qp: *mut ibv_qp) -> c_int;
    /// Serves `ibv_destroy_srq`(3).
    fn destroy_srq(srq: *mut ibv_srq) -> c_int;
    /// Serves `ibv_detach_mcast`(3).
    fn detach_mcast(qp: *mut ibv_qp, gid: *const ibv_gid, lid: u16) -> c_int;
    /// Frees a context that `alloc_context` made; serves `ibv_close_device`(3).
    fn free_context(context: *mut ibv_context);
    /// Serves `ibv_get_srq_num`(3).
    fn get_srq_num(srq: *mut ibv_srq, number: *mut u32) -> c_int;
    /// Serves `ibv_import_mr`(3).
    fn import_mr(pd: *mut ibv_pd, handle: u32) -> *mut ibv_mr;
    /// Serves `ibv_import_pd`(3).
    fn import_pd(context: *mut ibv_context, handle: u32) -> *mut ibv_pd;
    /// Serves `ibv_modify_cq`(3).
    fn modify_cq(cq: *mut ibv_cq, attributes: *mut ibv_modify_cq_attr) -> c_int;
    /// Serves `ibv_modify_qp`(3).
    fn modify_qp(qp: *mut ibv_qp, attributes: *mut ibv_qp_attr, mask: c_int) -> c_int;
    /// Serves `ibv_modify_srq`(3).
    fn modify_srq(srq: *mut ibv_srq, attributes: *mut ibv_srq_attr, mask: c_int) -> c_int;
    /// Serves `ibv_poll_cq`(3).
    fn poll_cq(cq: *mut ibv_cq, entries: c_int, wc: *mut ibv_wc) -> c_int;
    /// Serves `ibv_post_recv`(3).
    fn post_recv(qp: *mut ibv_qp, wr: *mut ibv_recv_wr, bad_wr: *mut *mut ibv_recv_wr) -> c_int;
    /// Serves `ibv_post_send`(3).
    fn post_send(qp: *mut ibv_qp, wr: *mut ibv_send_wr, bad_wr: *mut *mut ibv_send_wr) -> c_int;
    /// Serves `ibv_post_srq_recv`(3).
    fn post_srq_recv(srq: *mut ibv_srq, wr: *mut ibv_recv_wr, bad_wr: *mut *mut ibv_recv_wr) -> c_int;
    /// Serves `ibv_query_device`(3) and `ibv_query_device_ex`(3).
    fn query_device_ex(
        context: *mut ibv_context,
        input: *const ibv_query_device_ex_input,
        attributes: *mut ibv_device_attr_ex,
        size: usize,
    ) -> c_int;
    /// Serves `ibv_query_port`(3).
    fn query_port(context: *mut ibv_context, port: u8, attributes: *mut ibv_port_attr) -> c_int;
    /// Serves `ibv_query_qp`(3).
    fn query_qp(
        qp: *mut ibv_qp,
        attributes: *mut ibv_qp_attr,
        mask: c_int,
        init_attributes: *mut ibv_qp_init_attr,
    ) -> c_int;
    /// Serves `ibv_query_qp_data_in_order`(3).
    fn query_qp_data_in_order(qp: *mut ibv_qp, opcode: ibv_wr_opcode, flags: u32) -> c_int;
    /// Serves `ibv_query_rt_values_ex`(3).
    fn query_rt_values(context: *mut ibv_context, values: *mut ibv_values_ex) -> c_int;
    /// Serves `ibv_query_srq`(3).
    fn query_srq(srq: *mut ibv_srq, attributes: *mut ibv_srq_attr) -> c_int;
    /// Serves `ibv_reg_dmabuf_mr`(3).
    fn reg_dmabuf_mr(
        pd: *mut ibv_pd,
        offset: u64,
        length: usize,
        iova: u64,
        fd: c_int,
        access: c_int,
    ) -> *mut ibv_mr;
    /// Serves `ibv_reg_mr`(3) and `ibv_reg_mr_iova`(3).
    fn reg_mr(
        pd: *mut ibv_pd,
        address: *mut c_void,
        length: usize,
        iova: u64,
        access: c_int,
    ) -> *mut ibv_mr;
    /// Serves `ibv_req_notify_cq`(3).
    fn req_notify_cq(cq: *mut ibv_cq, solicited_only: c_int) -> c_int;
    /// Serves `ibv_rereg_mr`(3).
    fn rereg_mr(
        mr: *mut verbs_mr,
        flags: c_int,
        pd: *mut ibv_pd,
        address: *mut c_void,
        length: usize,
        access: c_int,
    ) -> c_int;
    /// Serves `ibv_resize_cq`(3).
    fn resize_cq(cq: *mut ibv_cq, entries: c_int) -> c_int;
    /// Serves `ibv_unimport_mr`(3).
    fn unimport_mr(mr: *mut ibv_mr);
    /// Serves `ibv_unimport_pd`(3).
    fn unimport_pd(pd: *mut ibv_pd);
}
