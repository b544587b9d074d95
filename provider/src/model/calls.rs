// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause

//! The kernel's commands: what libibverbs' `ibv_cmd_*` functions and `write(2)` do here.
//!
//! Each takes a breath before and after: meanwhile the kernel has gone on.

use std::collections::BTreeMap;
use std::ffi::{c_int, c_void};
use std::os::fd::RawFd;
use std::sync::{Arc, OnceLock};

use kernel_abi::{rxe as rxe_abi, siw as siw_abi, uverbs};
use rdma_core_sys::provider::verbs_context;
use rdma_core_sys::{
    IBV_QP_STATE, IBV_QPS_RESET, Library, ibv_comp_channel, ibv_context, ibv_cq,
    ibv_device_attr_ex, ibv_pd, ibv_qp, ibv_qp_attr, ibv_qp_init_attr, ibv_query_device_ex_input,
    ibv_srq, ibv_srq_init_attr,
};

use super::cq::Cq;
use super::kernel::{Act, Kernel, Kind, Machine, Place, Qp};
use super::srq::Srq;
use super::{resizing, rxe, siw};
use crate::lock::{Mutex, MutexGuard, lock};

/// A device that is plugged in.
pub(super) type Device = Arc<Mutex<Kernel>>;

static DEVICES: Mutex<BTreeMap<RawFd, Device>> = Mutex::new(BTreeMap::new());

/// Lets the commands on the kernel's file reach it.
pub(super) fn plug(kernel: Kernel) -> Device {
    let fd = kernel.core.memory.fd();
    let device = Arc::new(Mutex::new(kernel));
    lock(&DEVICES).insert(fd, Arc::clone(&device));
    device
}

/// Undoes [`plug`].
pub(super) fn unplug(fd: RawFd) {
    let device = lock(&DEVICES).remove(&fd);
    drop(device);
}

fn device(fd: RawFd) -> Device {
    Arc::clone(lock(&DEVICES).get(&fd).unwrap())
}

/// The device of a context.
///
/// # Safety
///
/// A context whose `cmd_fd` is that of a device.
pub(super) unsafe fn device_of(context: *mut ibv_context) -> Device {
    // SAFETY: the caller's promise.
    device(unsafe { (*context).cmd_fd })
}

pub(super) fn breath(device: &Device) -> MutexGuard<'_, Kernel> {
    let mut kernel = lock(device);
    kernel.breathe();
    kernel
}

/// The loaded libibverbs with these commands in the place of its own.
pub(super) fn library() -> &'static Library {
    static LIBRARY: OnceLock<Library> = OnceLock::new();
    LIBRARY.get_or_init(|| {
        // SAFETY: a NUL-terminated name. It stays loaded.
        let handle = unsafe { libc::dlopen(c"libibverbs.so.1".as_ptr(), libc::RTLD_NOW) };
        assert!(!handle.is_null(), "libibverbs is needed");
        let mut library = Library::discover().unwrap();
        let calls = &mut library.calls;
        calls.verbs_uninit_context = uninit_context;
        calls.ibv_cmd_query_device_any = query_device;
        calls.ibv_cmd_alloc_pd = alloc_pd;
        calls.ibv_cmd_dealloc_pd = dealloc_pd;
        calls.ibv_cmd_create_cq = create_cq;
        calls.ibv_cmd_req_notify_cq = req_notify_cq;
        calls.ibv_cmd_resize_cq = resizing::resize_cq;
        calls.ibv_cmd_destroy_cq = destroy_cq;
        calls.ibv_cmd_create_srq = create_srq;
        calls.ibv_cmd_destroy_srq = destroy_srq;
        calls.ibv_cmd_create_qp = create_qp;
        calls.ibv_cmd_modify_qp = modify_qp;
        calls.ibv_cmd_query_qp = query_qp;
        calls.ibv_cmd_destroy_qp = destroy_qp;
        library
    })
}

unsafe extern "C" fn uninit_context(_: *mut verbs_context) {}

unsafe extern "C" fn query_device(
    context: *mut ibv_context,
    _: *const ibv_query_device_ex_input,
    attributes: *mut ibv_device_attr_ex,
    _: usize,
    _: *mut c_void,
    _: *mut usize,
) -> c_int {
    // SAFETY: the caller's context.
    let device = unsafe { device_of(context) };
    // IB_DEVICE_ATOMIC_WRITE came with linux 6.2.
    let caps = u64::from(lock(&device).core.kind == Kind::Rxe612) << 40;
    // SAFETY: the caller's attributes.
    unsafe { (*attributes).device_cap_flags_ex = caps };
    0
}

unsafe extern "C" fn alloc_pd(
    context: *mut ibv_context,
    pd: *mut ibv_pd,
    _: *mut c_void,
    _: usize,
    _: *mut c_void,
    _: usize,
) -> c_int {
    // SAFETY: the caller's PD.
    unsafe { (*pd).context = context };
    0
}

unsafe extern "C" fn dealloc_pd(_: *mut ibv_pd) -> c_int {
    0
}

/// Writes the driver's part of an answer.
///
/// # Safety
///
/// `resp` is room for an answer whose parts are `C` and `D`.
pub(super) unsafe fn answer<C, D>(resp: *mut c_void, driver: D) {
    let resp = resp.cast::<uverbs::Response<C, D>>();
    // SAFETY: the caller's room.
    unsafe { (*resp).driver = driver };
}

unsafe extern "C" fn create_cq(
    context: *mut ibv_context,
    entries: c_int,
    _: *mut ibv_comp_channel,
    _: c_int,
    cq: *mut ibv_cq,
    _: *mut c_void,
    _: usize,
    resp: *mut c_void,
    _: usize,
) -> c_int {
    type Core = uverbs::CreateCqResp;
    // SAFETY: the caller's context.
    let device = unsafe { device_of(context) };
    let mut kernel = breath(&device);
    let core = &mut kernel.core;
    let (user, entries) = (cq.expose_provenance() as u64, entries.unsigned_abs());
    let made = if core.kind == Kind::Siw {
        let (made, driver) = Cq::siw(&mut core.memory, user, entries);
        // SAFETY: the caller's room for siw's answer.
        unsafe { answer::<Core, siw_abi::CreateCqResp>(resp, driver) };
        made
    } else {
        let (made, driver) = Cq::rxe(&mut core.memory, user, entries);
        // SAFETY: the caller's room for rxe's answer.
        unsafe { answer::<Core, rxe_abi::CreateCqResp>(resp, driver) };
        made
    };
    let handle = core.handle();
    core.cqs.insert(handle, made);
    // SAFETY: the caller's CQ.
    unsafe {
        (*cq).context = context;
        (*cq).handle = handle;
    }
    0
}

unsafe extern "C" fn req_notify_cq(cq: *mut ibv_cq, _: c_int) -> c_int {
    // SAFETY: the caller's CQ, and its context.
    let (device, handle) = unsafe { (device_of((*cq).context), (*cq).handle) };
    let mut kernel = breath(&device);
    if let Some(cq) = kernel.core.cqs.get_mut(&handle) {
        cq.arm();
    }
    kernel.breathe();
    0
}

unsafe extern "C" fn destroy_cq(cq: *mut ibv_cq) -> c_int {
    // SAFETY: the caller's CQ, and its context.
    let (device, handle) = unsafe { (device_of((*cq).context), (*cq).handle) };
    let mut kernel = lock(&device);
    if kernel.qps.values().any(|qp| qp.uses_cq(handle)) {
        return libc::EBUSY;
    }
    kernel.core.cqs.remove(&handle);
    let reported = kernel.core.events.withdraw(cq.expose_provenance() as u64);
    // SAFETY: as above.
    let acknowledged = unsafe { (*cq).async_events_completed };
    kernel.expect_acknowledged("CQ", reported, acknowledged);
    0
}

unsafe extern "C" fn create_srq(
    pd: *mut ibv_pd,
    srq: *mut ibv_srq,
    attributes: *mut ibv_srq_init_attr,
    _: *mut c_void,
    _: usize,
    resp: *mut c_void,
    _: usize,
) -> c_int {
    type Core = uverbs::CreateSrqResp;
    // SAFETY: the caller's PD, its context, and the attributes.
    let (context, wanted) = unsafe { ((*pd).context, (*attributes).attr.max_wr) };
    // SAFETY: as above.
    let device = unsafe { device_of(context) };
    let mut kernel = breath(&device);
    let core = &mut kernel.core;
    let made = if core.kind == Kind::Siw {
        let (made, driver) = Srq::siw(&mut core.memory, wanted);
        // SAFETY: the caller's room for siw's answer.
        unsafe { answer::<Core, siw_abi::CreateSrqResp>(resp, driver) };
        made
    } else {
        let (made, driver) = Srq::rxe(&mut core.memory, wanted);
        // SAFETY: the caller's room for rxe's answer.
        unsafe { answer::<Core, rxe_abi::CreateSrqResp>(resp, driver) };
        made
    };
    let handle = core.handle();
    core.srqs.insert(handle, made);
    // SAFETY: the caller's SRQ.
    unsafe {
        (*srq).context = context;
        (*srq).handle = handle;
    }
    0
}

unsafe extern "C" fn destroy_srq(srq: *mut ibv_srq) -> c_int {
    // SAFETY: the caller's SRQ, and its context.
    let (device, handle) = unsafe { (device_of((*srq).context), (*srq).handle) };
    let mut kernel = lock(&device);
    if kernel.qps.values().any(|qp| qp.place.srq == Some(handle)) {
        return libc::EBUSY;
    }
    kernel.core.srqs.remove(&handle);
    0
}

unsafe extern "C" fn create_qp(
    pd: *mut ibv_pd,
    qp: *mut ibv_qp,
    attributes: *mut ibv_qp_init_attr,
    _: *mut c_void,
    _: usize,
    resp: *mut c_void,
    _: usize,
) -> c_int {
    type Core = uverbs::CreateQpResp;
    // SAFETY: the caller's PD and attributes.
    let (context, attr) = unsafe { ((*pd).context, &*attributes) };
    // SAFETY: the PD's context.
    let device = unsafe { device_of(context) };
    let mut kernel = breath(&device);
    let number = kernel.number();
    let core = &mut kernel.core;
    // SAFETY: the objects that the attributes name, or NULL for no SRQ.
    let place = unsafe {
        Place {
            handle: core.handle(),
            number,
            user: qp.expose_provenance() as u64,
            send_cq: (*attr.send_cq).handle,
            recv_cq: (*attr.recv_cq).handle,
            srq: attr.srq.as_ref().map(|srq| srq.handle),
        }
    };
    let (sends, recvs) = (attr.cap.max_send_wr, attr.cap.max_recv_wr);
    let machine: Box<dyn Machine> = if core.kind == Kind::Siw {
        let (machine, driver) = siw::Machine::new(core, place, sends, recvs);
        // SAFETY: the caller's room for siw's answer.
        unsafe { answer::<Core, siw_abi::CreateQpResp>(resp, driver) };
        Box::new(machine)
    } else {
        let signal_all = attr.sq_sig_all != 0;
        let (machine, driver) = rxe::Machine::new(core, place, sends, recvs, signal_all);
        // SAFETY: the caller's room for rxe's answer.
        unsafe { answer::<Core, rxe_abi::CreateQpResp>(resp, driver) };
        Box::new(machine)
    };
    // SAFETY: the caller's QP; what rdma-core v44.0 `cmd_qp.c: set_qp_attr` fills in.
    unsafe {
        (*qp).context = context;
        (*qp).pd = pd;
        (*qp).send_cq = attr.send_cq;
        (*qp).recv_cq = attr.recv_cq;
        (*qp).srq = attr.srq;
        (*qp).handle = place.handle;
        (*qp).qp_num = number;
        (*qp).qp_type = attr.qp_type;
        (*qp).state = IBV_QPS_RESET;
    }
    kernel.qps.insert(place.handle, Qp { place, machine });
    0
}

unsafe extern "C" fn modify_qp(
    qp: *mut ibv_qp,
    attr: *mut ibv_qp_attr,
    mask: c_int,
    _: *mut c_void,
    _: usize,
) -> c_int {
    // SAFETY: the caller's QP, and its context.
    let (device, handle) = unsafe { (device_of((*qp).context), (*qp).handle) };
    if mask.unsigned_abs() & IBV_QP_STATE == 0 {
        return 0;
    }
    // SAFETY: the mask says that the state is given.
    let to = unsafe { (*attr).qp_state };
    let mut kernel = breath(&device);
    let answer = kernel.modify(handle, to);
    kernel.breathe();
    if answer == 0 {
        // SAFETY: as above.
        unsafe { (*qp).state = to };
    }
    answer
}

unsafe extern "C" fn query_qp(
    qp: *mut ibv_qp,
    attr: *mut ibv_qp_attr,
    _: c_int,
    _: *mut ibv_qp_init_attr,
    _: *mut c_void,
    _: usize,
) -> c_int {
    // SAFETY: the caller's QP, and its context.
    let (device, handle) = unsafe { (device_of((*qp).context), (*qp).handle) };
    let mut kernel = breath(&device);
    let state = kernel.query(handle);
    // SAFETY: the caller's attributes and QP.
    unsafe {
        (*attr).qp_state = state;
        (*qp).state = state;
    }
    0
}

unsafe extern "C" fn destroy_qp(qp: *mut ibv_qp) -> c_int {
    // SAFETY: the caller's QP, and its context.
    let (device, handle) = unsafe { (device_of((*qp).context), (*qp).handle) };
    let mut kernel = breath(&device);
    kernel.destroy(handle);
    let reported = kernel.core.events.withdraw(qp.expose_provenance() as u64);
    // SAFETY: as above.
    let acknowledged = unsafe { (*qp).events_completed };
    kernel.expect_acknowledged("QP", reported, acknowledged);
    0
}

/// `write(2)` on the device's file: the doorbell.
///
/// # Safety
///
/// `request` is a POST_SEND command of `len` bytes.
pub(crate) unsafe fn write(fd: RawFd, request: *const c_void, len: usize) -> isize {
    type Command = uverbs::Request<uverbs::PostSend>;
    assert_eq!(len, size_of::<Command>());
    // SAFETY: the caller's command.
    let handle = unsafe { (*request.cast::<Command>()).core.qp_handle };
    let device = device(fd);
    let mut kernel = breath(&device);
    if kernel.core.whims.once_in(16) {
        kernel.act(handle, Act::Die);
    }
    let answer = kernel.doorbell(handle);
    kernel.breathe();
    if answer == 0 {
        return len.cast_signed();
    }
    // SAFETY: the calling thread's own.
    unsafe { *libc::__errno_location() = answer };
    -1
}
