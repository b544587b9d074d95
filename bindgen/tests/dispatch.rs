// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
//! Every verb reaches the operation it is meant for.
//!
//! A device that exists in memory only is opened, with operations that just note their name. An
//! ops table that is off by a slot, or a context of the wrong size, fails at the first verb. Needs
//! no device. Those that `verbs.h` dispatches inline are called by their twins.

#![expect(clippy::expect_used, reason = "a test fails where it stands")]

use std::{
    cell::Cell,
    ffi::{c_int, c_void},
    fs::File,
    io::{Write, pipe},
    mem::zeroed,
    os::fd::{AsRawFd, IntoRawFd, OwnedFd},
    ptr::{null, null_mut},
    sync::atomic::Ordering::Relaxed,
};

use rdma_core_sys::{
    extended, inline,
    provider::{private_data, verbs_context, verbs_device, verbs_device_ops, verbs_mr},
    *,
};

#[link(name = "ibverbs")]
unsafe extern "C" {}

thread_local! {
    /// The operation that ran last.
    static LAST: Cell<&'static str> = const { Cell::new("none") };
    /// The context whose objects the operations make.
    static CONTEXT: Cell<*mut ibv_context> = const { Cell::new(null_mut()) };
}

/// Runs `verb`, which must be served by `op`.
#[track_caller]
fn serves<T>(op: &str, verb: impl FnOnce() -> T) -> T {
    LAST.set("none");
    let result = verb();
    assert_eq!(LAST.get(), op);
    result
}

/// What an operation answers.
trait Answer {
    fn answer() -> Self;
}

impl Answer for () {
    fn answer() {}
}

impl Answer for c_int {
    fn answer() -> Self {
        0
    }
}

impl<T> Answer for *mut T {
    /// A zeroed object of the context, which every object begins with; it outlives the test.
    fn answer() -> Self {
        let words = Box::leak(Box::new([0_usize; 128]));
        assert!(size_of::<T>() <= size_of_val(words));
        words[0] = CONTEXT.get().expose_provenance();
        words.as_mut_ptr().cast()
    }
}

macro_rules! ops {
    ($($name:ident($($argument:ty),*) $(-> $result:ty)?,)*) => {
        ContextOps {
            $($name: {
                unsafe extern "C" fn $name($(_: $argument),*) $(-> $result)? {
                    LAST.set(stringify!($name));
                    Answer::answer()
                }
                Some($name)
            },)*
            ..ContextOps::default()
        }
    };
}

fn ops() -> ContextOps {
    ContextOps {
        free_context: Some(free_context),
        ..ops! {
            advise_mr(*mut ibv_pd, u32, u32, *mut ibv_sge, u32) -> c_int,
            alloc_parent_domain(*mut ibv_context, *mut ibv_parent_domain_init_attr) -> *mut ibv_pd,
            alloc_pd(*mut ibv_context) -> *mut ibv_pd,
            alloc_td(*mut ibv_context, *mut ibv_td_init_attr) -> *mut ibv_td,
            async_event(*mut ibv_context, *mut ibv_async_event),
            attach_mcast(*mut ibv_qp, *const ibv_gid, u16) -> c_int,
            cq_event(*mut ibv_cq),
            create_ah(*mut ibv_pd, *mut ibv_ah_attr) -> *mut ibv_ah,
            create_cq(*mut ibv_context, c_int, *mut ibv_comp_channel, c_int) -> *mut ibv_cq,
            create_cq_ex(*mut ibv_context, *mut ibv_cq_init_attr_ex) -> *mut ibv_cq_ex,
            create_qp(*mut ibv_pd, *mut ibv_qp_init_attr) -> *mut ibv_qp,
            create_qp_ex(*mut ibv_context, *mut ibv_qp_init_attr_ex) -> *mut ibv_qp,
            create_srq(*mut ibv_pd, *mut ibv_srq_init_attr) -> *mut ibv_srq,
            create_srq_ex(*mut ibv_context, *mut ibv_srq_init_attr_ex) -> *mut ibv_srq,
            dealloc_pd(*mut ibv_pd) -> c_int,
            dealloc_td(*mut ibv_td) -> c_int,
            dereg_mr(*mut verbs_mr) -> c_int,
            destroy_ah(*mut ibv_ah) -> c_int,
            destroy_cq(*mut ibv_cq) -> c_int,
            destroy_qp(*mut ibv_qp) -> c_int,
            destroy_srq(*mut ibv_srq) -> c_int,
            detach_mcast(*mut ibv_qp, *const ibv_gid, u16) -> c_int,
            import_mr(*mut ibv_pd, u32) -> *mut ibv_mr,
            import_pd(*mut ibv_context, u32) -> *mut ibv_pd,
            modify_qp(*mut ibv_qp, *mut ibv_qp_attr, c_int) -> c_int,
            modify_srq(*mut ibv_srq, *mut ibv_srq_attr, c_int) -> c_int,
            poll_cq(*mut ibv_cq, c_int, *mut ibv_wc) -> c_int,
            post_recv(*mut ibv_qp, *mut ibv_recv_wr, *mut *mut ibv_recv_wr) -> c_int,
            post_send(*mut ibv_qp, *mut ibv_send_wr, *mut *mut ibv_send_wr) -> c_int,
            post_srq_recv(*mut ibv_srq, *mut ibv_recv_wr, *mut *mut ibv_recv_wr) -> c_int,
            query_device_ex(
                *mut ibv_context,
                *const ibv_query_device_ex_input,
                *mut ibv_device_attr_ex,
                usize
            ) -> c_int,
            query_port(*mut ibv_context, u8, *mut ibv_port_attr) -> c_int,
            query_qp(*mut ibv_qp, *mut ibv_qp_attr, c_int, *mut ibv_qp_init_attr) -> c_int,
            query_qp_data_in_order(*mut ibv_qp, ibv_wr_opcode, u32) -> c_int,
            query_rt_values(*mut ibv_context, *mut ibv_values_ex) -> c_int,
            query_srq(*mut ibv_srq, *mut ibv_srq_attr) -> c_int,
            reg_dmabuf_mr(*mut ibv_pd, u64, usize, u64, c_int, c_int) -> *mut ibv_mr,
            reg_mr(*mut ibv_pd, *mut c_void, usize, u64, c_int) -> *mut ibv_mr,
            req_notify_cq(*mut ibv_cq, c_int) -> c_int,
            rereg_mr(*mut verbs_mr, c_int, *mut ibv_pd, *mut c_void, usize, c_int) -> c_int,
            resize_cq(*mut ibv_cq, c_int) -> c_int,
            unimport_mr(*mut ibv_mr),
            unimport_pd(*mut ibv_pd),
        }
    }
}

/// What the test keeps behind each context.
const PRIVATE: u64 = 0x0123_4567_89ab_cdef;

unsafe extern "C" fn alloc_context(
    device: *mut ibv_device,
    cmd_fd: c_int,
    _: *mut c_void,
) -> *mut verbs_context {
    let library = Library::get().expect("the installed libibverbs is served");
    // SAFETY: libibverbs asks for its device to be opened; nobody else uses the new context, and
    // the operations are made for what this test does.
    unsafe {
        let size = size_of_val(&PRIVATE);
        let context = library.alloc_context(device, cmd_fd, size, RDMA_DRIVER_UNKNOWN);
        library.set_ops(context, &ops());
        let public = library.ibv_context_of(context);
        private_data(public).cast::<u64>().write(PRIVATE);
        context
    }
}

unsafe extern "C" fn free_context(context: *mut ibv_context) {
    LAST.set("free_context");
    let library = Library::get().expect("the installed libibverbs is served");
    // SAFETY: libibverbs gives a context back that `alloc_context` made.
    unsafe {
        assert_eq!(private_data(context).cast::<u64>().read(), PRIVATE);
        library.free_context(library.verbs_context_of(context));
    }
}

static DEVICE_OPS: verbs_device_ops = verbs_device_ops {
    name: c"dispatch".as_ptr(),
    match_min_abi_version: 0,
    match_max_abi_version: 0,
    match_table: null(),
    static_providers: null_mut(),
    match_device: None,
    alloc_context: Some(alloc_context),
    import_context: None,
    alloc_device: None,
    uninit_device: None,
};

/// A descriptor that `event` can be read from.
fn readable(event: &[u64]) -> OwnedFd {
    let (reader, writer) = pipe().expect("a pipe");
    let bytes: Vec<u8> = event.iter().flat_map(|word| word.to_ne_bytes()).collect();
    File::from(OwnedFd::from(writer))
        .write_all(&bytes)
        .expect("a pipe takes a few bytes");
    reader.into()
}

#[test]
fn every_verb_reaches_its_operation() {
    // SAFETY: zeroes are a valid device.
    let mut device: verbs_device = unsafe { zeroed() };
    device.ops = &raw const DEVICE_OPS;
    device.refcount.store(1, Relaxed);

    // SAFETY: the device has operations; without a sysfs part it needs no character device. Each
    // object is from an operation above, and none of those looks at its arguments.
    unsafe {
        let context = ibv_open_device((&raw mut device).cast());
        assert!(!context.is_null());
        CONTEXT.set(context);
        context_verbs(context);
        let pd = serves("alloc_pd", || ibv_alloc_pd(context));
        memory_verbs(pd);
        completion_verbs(context);
        queue_verbs(pd);
        serves("dealloc_pd", || ibv_dealloc_pd(pd));
        serves("free_context", || ibv_close_device(context));
    }
    assert_eq!(device.refcount.load(Relaxed), 1);
}

/// # Safety
///
/// * `context` was opened by the test.
unsafe fn context_verbs(context: *mut ibv_context) {
    // SAFETY: the arguments are valid and the operations do not look at them.
    unsafe {
        let mut attributes = zeroed();
        serves("query_device_ex", || {
            ibv_query_device(context, &raw mut attributes)
        });
        let mut attributes = zeroed();
        serves("query_port", || {
            inline::query_port(context, 1, &mut attributes)
        });
        let mut attributes = zeroed();
        serves("query_device_ex", || {
            extended::query_device_ex(context, &mut attributes)
        });
        let mut values = zeroed();
        serves("query_rt_values", || {
            extended::query_rt_values_ex(context, &mut values)
        });
        let td = serves("alloc_td", || extended::alloc_td(context, &mut zeroed()));
        serves("alloc_parent_domain", || {
            extended::alloc_parent_domain(context, &mut zeroed())
        });
        serves("dealloc_td", || extended::dealloc_td(td));
        let pd = serves("import_pd", || ibv_import_pd(context, 0));
        serves("unimport_pd", || ibv_unimport_pd(pd));

        // The kernel's `struct ib_uverbs_async_event_desc`: element, type.
        let event = [0, IBV_EVENT_DEVICE_FATAL.into()];
        // The context closes it.
        (*context).async_fd = readable(&event).into_raw_fd();
        let mut event = zeroed();
        serves("async_event", || {
            ibv_get_async_event(context, &raw mut event)
        });
        assert_eq!(event.event_type, IBV_EVENT_DEVICE_FATAL);
    }
}

/// # Safety
///
/// * `pd` is from the test's operation.
unsafe fn memory_verbs(pd: *mut ibv_pd) {
    let mut memory = [0_u8; 64];
    let address = memory.as_mut_ptr().cast();
    // SAFETY: the arguments are valid and the operations do not look at them.
    unsafe {
        let mr = serves("reg_mr", || inline::reg_mr(pd, address, memory.len(), 0));
        serves("rereg_mr", || {
            ibv_rereg_mr(mr, 0, null_mut(), null_mut(), 0, 0)
        });
        serves("dereg_mr", || ibv_dereg_mr(mr));
        serves("reg_dmabuf_mr", || ibv_reg_dmabuf_mr(pd, 0, 64, 0, -1, 0));
        let mr = serves("import_mr", || ibv_import_mr(pd, 0));
        serves("unimport_mr", || ibv_unimport_mr(mr));
        serves("advise_mr", || extended::advise_mr(pd, 0, 0, null_mut(), 0));
        let ah = serves("create_ah", || ibv_create_ah(pd, &mut zeroed()));
        serves("destroy_ah", || ibv_destroy_ah(ah));
    }
}

/// # Safety
///
/// * `context` was opened by the test.
unsafe fn completion_verbs(context: *mut ibv_context) {
    // SAFETY: the arguments are valid and the operations do not look at them.
    unsafe {
        let cq = serves("create_cq", || {
            ibv_create_cq(context, 1, null_mut(), null_mut(), 0)
        });
        serves("resize_cq", || ibv_resize_cq(cq, 2));
        serves("poll_cq", || inline::poll_cq(cq, 0, null_mut()));
        serves("req_notify_cq", || inline::req_notify_cq(cq, 0));

        // The kernel's `struct ib_uverbs_comp_event_desc`: the queue.
        let events = readable(&[cq.expose_provenance().try_into().expect("LP64")]);
        let mut channel = ibv_comp_channel {
            context,
            fd: events.as_raw_fd(),
            refcnt: 0,
        };
        let (mut of, mut cq_context) = (null_mut(), null_mut());
        serves("cq_event", || {
            ibv_get_cq_event(&raw mut channel, &raw mut of, &raw mut cq_context)
        });
        assert_eq!(of, cq);
        serves("destroy_cq", || ibv_destroy_cq(cq));

        serves("create_cq_ex", || {
            extended::create_cq_ex(context, &mut zeroed())
        });
    }
}

/// # Safety
///
/// * `pd` is from the test's operation.
unsafe fn queue_verbs(pd: *mut ibv_pd) {
    // SAFETY: the arguments are valid and the operations do not look at them.
    unsafe {
        let srq = serves("create_srq", || ibv_create_srq(pd, &mut zeroed()));
        serves("modify_srq", || ibv_modify_srq(srq, &mut zeroed(), 0));
        serves("query_srq", || ibv_query_srq(srq, &mut zeroed()));
        serves("post_srq_recv", || {
            inline::post_srq_recv(srq, null_mut(), &mut null_mut())
        });
        serves("destroy_srq", || ibv_destroy_srq(srq));
        let mut attributes = ibv_srq_init_attr_ex {
            comp_mask: IBV_SRQ_INIT_ATTR_PD,
            pd,
            ..zeroed()
        };
        serves("create_srq", || {
            extended::create_srq_ex((*pd).context, &raw mut attributes)
        });
        attributes.comp_mask |= IBV_SRQ_INIT_ATTR_CQ;
        serves("create_srq_ex", || {
            extended::create_srq_ex((*pd).context, &raw mut attributes)
        });

        let qp = serves("create_qp", || ibv_create_qp(pd, &mut zeroed()));
        let mut attributes = ibv_qp_init_attr_ex {
            comp_mask: IBV_QP_INIT_ATTR_PD,
            pd,
            ..zeroed()
        };
        serves("create_qp", || {
            extended::create_qp_ex((*pd).context, &raw mut attributes)
        });
        attributes.comp_mask |= IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;
        serves("create_qp_ex", || {
            extended::create_qp_ex((*pd).context, &raw mut attributes)
        });
        serves("modify_qp", || ibv_modify_qp(qp, &mut zeroed(), 0));
        serves("query_qp", || {
            ibv_query_qp(qp, &mut zeroed(), 0, &mut zeroed())
        });
        serves("post_send", || {
            inline::post_send(qp, null_mut(), &mut null_mut())
        });
        serves("post_recv", || {
            inline::post_recv(qp, null_mut(), &mut null_mut())
        });
        serves("attach_mcast", || ibv_attach_mcast(qp, &zeroed(), 0));
        serves("detach_mcast", || ibv_detach_mcast(qp, &zeroed(), 0));
        // libibverbs asks the provider on x86 only.
        #[cfg(target_arch = "x86_64")]
        serves("query_qp_data_in_order", || {
            ibv_query_qp_data_in_order(qp, 0, 0)
        });
        serves("destroy_qp", || ibv_destroy_qp(qp));
    }
}
