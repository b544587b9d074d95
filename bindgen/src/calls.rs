// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
//! The functions of libibverbs that a provider calls.
//!
//! C counterpart: rdma-core `libibverbs/driver.h`, and `verbs.h` for the two public ones. `cmd` and
//! `resp` point to the request and response of the kernel's uverbs interface
//! (`rdma/ib_user_verbs.h`), each with its header in front and the driver's own fields behind, and
//! `cmd_size` and `resp_size` are their sizes in bytes. A function that returns `c_int` returns 0 or
//! a positive errno unless it says otherwise.

use std::{
    ffi::{CStr, c_int, c_void},
    mem::transmute,
};

use crate::{
    Decline,
    private_abi::PrivateAbi,
    provider::{verbs_context, verbs_mr, verbs_srq},
    public::*,
};

/// The C string of an identifier.
macro_rules! c_name {
    ($name:ident) => {
        const {
            match CStr::from_bytes_with_nul(concat!(stringify!($name), "\0").as_bytes()) {
                Ok(name) => name,
                Err(_) => unreachable!(),
            }
        }
    };
}

macro_rules! calls {
    ($(
        $(#[$doc:meta])*
        $($version:literal)? fn $name:ident($($argument:ident: $type:ty),* $(,)?) $(-> $result:ty)?;
    )*) => {
        /// The functions every known generation has with one and the same type.
        #[derive(Clone, Copy, Debug)]
        pub struct Calls {
            $($(#[$doc])* pub $name: unsafe extern "C" fn($($argument: $type),*) $(-> $result)?,)*
        }

        impl Calls {
            pub(crate) fn find(abi: &PrivateAbi<'_>) -> Result<Self, Decline> {
                Ok(Self {
                    $($name: {
                        let address = calls!(@find abi, c_name!($name) $(, $version)?)?;
                        // SAFETY: libibverbs' function of this name and version has this type in
                        // every known generation.
                        unsafe {
                            transmute::<*mut c_void, unsafe extern "C" fn($($type),*) $(-> $result)?>(address)
                        }
                    },)*
                })
            }
        }
    };
    (@find $abi:ident, $name:expr) => { $abi.private($name) };
    (@find $abi:ident, $name:expr, $version:literal) => { $abi.public($name, $version) };
}

calls! {
    /// Allocates `alloc_size` zeroed bytes with a `verbs_context` at `context_offset` in it.
    ///
    /// Takes ownership of `cmd_fd`. Returns NULL with `errno` set on failure.
    fn _verbs_init_and_alloc_context(
        device: *mut ibv_device,
        cmd_fd: c_int,
        alloc_size: usize,
        context_offset: *mut verbs_context,
        driver_id: u32,
    ) -> *mut c_void;
    /// Closes a context's descriptors and releases its device; the memory is freed by `free`(3).
    fn verbs_uninit_context(context: *mut verbs_context);
    /// Installs the operations of a table that starts at `ops`; NULL ones are left as they are.
    fn verbs_set_ops(context: *mut verbs_context, ops: *const c_void);
    /// Fills in the members of a CQ that libibverbs keeps, as `ibv_create_cq` does.
    fn verbs_init_cq(
        cq: *mut ibv_cq,
        context: *mut ibv_context,
        channel: *mut ibv_comp_channel,
        cq_context: *mut c_void,
    );
    /// Asks the kernel for the device's attributes.
    fn ibv_cmd_query_device_any(
        context: *mut ibv_context,
        input: *const ibv_query_device_ex_input,
        attributes: *mut ibv_device_attr_ex,
        attributes_size: usize,
        resp: *mut c_void,
        resp_size: *mut usize,
    ) -> c_int;
    /// Asks the kernel for a port's attributes.
    fn ibv_cmd_query_port(
        context: *mut ibv_context,
        port: u8,
        attributes: *mut ibv_port_attr,
        cmd: *mut c_void,
        cmd_size: usize,
    ) -> c_int;
    /// Makes the kernel's protection domain.
    fn ibv_cmd_alloc_pd(
        context: *mut ibv_context,
        pd: *mut ibv_pd,
        cmd: *mut c_void,
        cmd_size: usize,
        resp: *mut c_void,
        resp_size: usize,
    ) -> c_int;
    /// Destroys the kernel's protection domain.
    fn ibv_cmd_dealloc_pd(pd: *mut ibv_pd) -> c_int;
    /// Makes the kernel's memory region.
    fn ibv_cmd_reg_mr(
        pd: *mut ibv_pd,
        address: *mut c_void,
        length: usize,
        iova: u64,
        access: c_int,
        mr: *mut verbs_mr,
        cmd: *mut c_void,
        cmd_size: usize,
        resp: *mut c_void,
        resp_size: usize,
    ) -> c_int;
    /// Changes the kernel's memory region.
    fn ibv_cmd_rereg_mr(
        mr: *mut verbs_mr,
        flags: u32,
        address: *mut c_void,
        length: usize,
        iova: u64,
        access: c_int,
        pd: *mut ibv_pd,
        cmd: *mut c_void,
        cmd_size: usize,
        resp: *mut c_void,
        resp_size: usize,
    ) -> c_int;
    /// Destroys the kernel's memory region.
    fn ibv_cmd_dereg_mr(mr: *mut verbs_mr) -> c_int;
    /// Asks the kernel for an imported memory region.
    fn ibv_cmd_query_mr(pd: *mut ibv_pd, mr: *mut verbs_mr, handle: u32) -> c_int;
    /// Gives the kernel advice about memory.
    fn ibv_cmd_advise_mr(
        pd: *mut ibv_pd,
        advice: u32,
        flags: u32,
        list: *mut ibv_sge,
        entries: u32,
    ) -> c_int;
    /// Makes the kernel's memory window.
    fn ibv_cmd_alloc_mw(
        pd: *mut ibv_pd,
        mw_type: ibv_mw_type,
        mw: *mut ibv_mw,
        cmd: *mut c_void,
        cmd_size: usize,
        resp: *mut c_void,
        resp_size: usize,
    ) -> c_int;
    /// Destroys the kernel's memory window.
    fn ibv_cmd_dealloc_mw(mw: *mut ibv_mw) -> c_int;
    /// Makes the kernel's completion queue.
    fn ibv_cmd_create_cq(
        context: *mut ibv_context,
        entries: c_int,
        channel: *mut ibv_comp_channel,
        vector: c_int,
        cq: *mut ibv_cq,
        cmd: *mut c_void,
        cmd_size: usize,
        resp: *mut c_void,
        resp_size: usize,
    ) -> c_int;
    /// Polls the kernel's completion queue; returns a count or a negative errno.
    fn ibv_cmd_poll_cq(cq: *mut ibv_cq, entries: c_int, wc: *mut ibv_wc) -> c_int;
    /// Arms the kernel's completion queue.
    fn ibv_cmd_req_notify_cq(cq: *mut ibv_cq, solicited_only: c_int) -> c_int;
    /// Resizes the kernel's completion queue.
    fn ibv_cmd_resize_cq(
        cq: *mut ibv_cq,
        entries: c_int,
        cmd: *mut c_void,
        cmd_size: usize,
        resp: *mut c_void,
        resp_size: usize,
    ) -> c_int;
    /// Changes the kernel's completion queue.
    fn ibv_cmd_modify_cq(
        cq: *mut ibv_cq,
        attributes: *mut ibv_modify_cq_attr,
        cmd: *mut c_void,
        cmd_size: usize,
    ) -> c_int;
    /// Destroys the kernel's completion queue, once every event of it is acknowledged.
    fn ibv_cmd_destroy_cq(cq: *mut ibv_cq) -> c_int;
    /// Makes the kernel's shared receive queue.
    fn ibv_cmd_create_srq(
        pd: *mut ibv_pd,
        srq: *mut ibv_srq,
        attributes: *mut ibv_srq_init_attr,
        cmd: *mut c_void,
        cmd_size: usize,
        resp: *mut c_void,
        resp_size: usize,
    ) -> c_int;
    /// Makes the kernel's shared receive queue of any type.
    fn ibv_cmd_create_srq_ex(
        context: *mut ibv_context,
        srq: *mut verbs_srq,
        attributes: *mut ibv_srq_init_attr_ex,
        cmd: *mut c_void,
        cmd_size: usize,
        resp: *mut c_void,
        resp_size: usize,
    ) -> c_int;
    /// Changes the kernel's shared receive queue.
    fn ibv_cmd_modify_srq(
        srq: *mut ibv_srq,
        attributes: *mut ibv_srq_attr,
        mask: c_int,
        cmd: *mut c_void,
        cmd_size: usize,
    ) -> c_int;
    /// Asks the kernel for a shared receive queue's attributes.
    fn ibv_cmd_query_srq(
        srq: *mut ibv_srq,
        attributes: *mut ibv_srq_attr,
        cmd: *mut c_void,
        cmd_size: usize,
    ) -> c_int;
    /// Destroys the kernel's shared receive queue, once every event of it is acknowledged.
    fn ibv_cmd_destroy_srq(srq: *mut ibv_srq) -> c_int;
    /// Makes the kernel's queue pair.
    fn ibv_cmd_create_qp(
        pd: *mut ibv_pd,
        qp: *mut ibv_qp,
        attributes: *mut ibv_qp_init_attr,
        cmd: *mut c_void,
        cmd_size: usize,
        resp: *mut c_void,
        resp_size: usize,
    ) -> c_int;
    /// Asks the kernel for a queue pair's attributes.
    fn ibv_cmd_query_qp(
        qp: *mut ibv_qp,
        attributes: *mut ibv_qp_attr,
        mask: c_int,
        init_attributes: *mut ibv_qp_init_attr,
        cmd: *mut c_void,
        cmd_size: usize,
    ) -> c_int;
    /// Changes the kernel's queue pair.
    fn ibv_cmd_modify_qp(
        qp: *mut ibv_qp,
        attributes: *mut ibv_qp_attr,
        mask: c_int,
        cmd: *mut c_void,
        cmd_size: usize,
    ) -> c_int;
    /// Destroys the kernel's queue pair, once every event of it is acknowledged.
    fn ibv_cmd_destroy_qp(qp: *mut ibv_qp) -> c_int;
    /// Posts send work requests by a system call.
    fn ibv_cmd_post_send(
        qp: *mut ibv_qp,
        wr: *mut ibv_send_wr,
        bad_wr: *mut *mut ibv_send_wr,
    ) -> c_int;
    /// Posts receive work requests by a system call.
    fn ibv_cmd_post_recv(
        qp: *mut ibv_qp,
        wr: *mut ibv_recv_wr,
        bad_wr: *mut *mut ibv_recv_wr,
    ) -> c_int;
    /// Posts receive work requests to a shared receive queue by a system call.
    fn ibv_cmd_post_srq_recv(
        srq: *mut ibv_srq,
        wr: *mut ibv_recv_wr,
        bad_wr: *mut *mut ibv_recv_wr,
    ) -> c_int;
    /// Makes the kernel's address handle.
    fn ibv_cmd_create_ah(
        pd: *mut ibv_pd,
        ah: *mut ibv_ah,
        attributes: *mut ibv_ah_attr,
        resp: *mut c_void,
        resp_size: usize,
    ) -> c_int;
    /// Destroys the kernel's address handle.
    fn ibv_cmd_destroy_ah(ah: *mut ibv_ah) -> c_int;
    /// Attaches a queue pair to a multicast group.
    fn ibv_cmd_attach_mcast(qp: *mut ibv_qp, gid: *const ibv_gid, lid: u16) -> c_int;
    /// Detaches a queue pair from a multicast group.
    fn ibv_cmd_detach_mcast(qp: *mut ibv_qp, gid: *const ibv_gid, lid: u16) -> c_int;
    /// Reads an entry of a port's GID table; returns 0 or −1 (`ibv_query_gid`(3)).
    c"IBVERBS_1.1" fn ibv_query_gid(
        context: *mut ibv_context,
        port: u8,
        index: c_int,
        gid: *mut ibv_gid,
    ) -> c_int;
    /// Resolves an address's Ethernet addressing (`ibv_create_ah`(3) over Ethernet).
    c"IBVERBS_1.1" fn ibv_resolve_eth_l2_from_gid(
        context: *mut ibv_context,
        attributes: *mut ibv_ah_attr,
        mac: *mut u8,
        vlan: *mut u16,
    ) -> c_int;
    /// A queue pair's extended view, or NULL if it has none (`ibv_qp_to_qp_ex`(3)).
    c"IBVERBS_1.6" fn ibv_qp_to_qp_ex(qp: *mut ibv_qp) -> *mut ibv_qp_ex;
}
