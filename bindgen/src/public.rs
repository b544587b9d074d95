// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
//! The public declarations of `infiniband/verbs.h`, as bindgen reads the installed header.
//!
//! Enumerations are plain integers (`ibv_wc_status` is a `u32`) and their values constants
//! without prefix (`IBV_WC_SUCCESS`), because a C library and a kernel may hand out values that a
//! Rust `enum` must never hold. With the feature `cm` the module also has `rdma/rdma_cma.h`.

#![allow(
    clippy::all,
    clippy::pedantic,
    clippy::restriction,
    missing_debug_implementations,
    missing_docs,
    non_camel_case_types,
    non_snake_case,
    non_upper_case_globals,
    unreachable_pub,
    reason = "generated from C headers, names and all"
)]

include!(concat!(env!("OUT_DIR"), "/verbs.rs"));

/// The layouts that a provider relies on; the same in every release from v33 to v65.
const _: () = {
    assert!(size_of::<ibv_ah>() == 24);
    assert!(size_of::<ibv_context>() == 328);
    assert!(size_of::<ibv_context_ops>() == 256);
    assert!(size_of::<ibv_cq>() == 128);
    assert!(size_of::<ibv_cq_ex>() == 288);
    assert!(size_of::<ibv_cq_init_attr_ex>() == 56);
    assert!(size_of::<ibv_device>() == 664);
    assert!(size_of::<ibv_mw>() == 32);
    assert!(size_of::<ibv_pd>() == 16);
    assert!(size_of::<ibv_qp>() == 160);
    assert!(size_of::<ibv_qp_init_attr_ex>() == 136);
    assert!(size_of::<ibv_recv_wr>() == 32);
    assert!(size_of::<ibv_send_wr>() == 128);
    assert!(size_of::<ibv_srq>() == 128);
    assert!(size_of::<ibv_srq_init_attr_ex>() == 64);
    assert!(size_of::<ibv_wc>() == 48);
};
