// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause

//! The `async_event` operation: libibverbs calls it for every event that the application reaps,
//! before the application sees it (rdma-core v44.0 `device.c: ibv_get_async_event`).
//!
//! An event that tells of a death flushes. Some are not for the application: they are passed over, and
//! the next one takes their place. If there is none yet, the application gets one that means nothing:
//! it may have looked whether there is an event before it asked, and must not be made to wait.

use std::mem;
use std::os::fd::RawFd;
use std::sync::atomic::Ordering;

use kernel_abi::uverbs::AsyncEventDesc;
use rdma_core_sys::{
    IBV_EVENT_CLIENT_REREGISTER, IBV_EVENT_COMM_EST, IBV_EVENT_CQ_ERR, IBV_EVENT_DEVICE_FATAL,
    IBV_EVENT_PATH_MIG, IBV_EVENT_PATH_MIG_ERR, IBV_EVENT_QP_ACCESS_ERR, IBV_EVENT_QP_FATAL,
    IBV_EVENT_QP_LAST_WQE_REACHED, IBV_EVENT_QP_REQ_ERR, IBV_EVENT_SQ_DRAINED, IBV_EVENT_SRQ_ERR,
    IBV_EVENT_SRQ_LIMIT_REACHED, IBV_EVENT_WQ_FATAL, ibv_async_event, ibv_context, ibv_event_type,
    ibv_qp,
};
use zerocopy::IntoBytes;

use crate::acknowledge;
use crate::announcer::Announcer;
use crate::boundary::status;
use crate::context::Context;
use crate::cq::Cq;
use crate::death::Cause;
use crate::driver::Driver;
use crate::last_wqe::is_catastrophic;
use crate::qp::Qp;
use crate::srq::Srq;

/// What becomes of an event.
enum Verdict {
    /// The application sees it as it stands.
    Told,
    /// It is not for the application.
    PassedOver,
}

/// The hook.
///
/// # Safety
///
/// Called by libibverbs, with a context of ours and an event that names objects of ours.
pub(crate) unsafe extern "C" fn async_event<D: Driver>(
    context: *mut ibv_context,
    event: *mut ibv_async_event,
) {
    status(|| {
        // SAFETY: a context of ours, and the caller's event.
        let (ours, file, event) =
            unsafe { (Context::of(context), (*context).async_fd, &mut *event) };
        loop {
            // SAFETY: libibverbs' event, or one that was read as libibverbs does.
            let verdict = unsafe { judge::<D>(&ours, event) };
            if matches!(verdict, Verdict::Told) {
                return Ok(());
            }
            // SAFETY: as above.
            if !unsafe { pass_over(file, event) } {
                return Ok(());
            }
        }
    });
}

/// # Safety
///
/// The event names objects of ours.
unsafe fn judge<D: Driver>(context: &Context, event: &mut ibv_async_event) -> Verdict {
    let cause = Cause::Event(event.event_type);
    match event.event_type {
        IBV_EVENT_QP_FATAL
        | IBV_EVENT_QP_REQ_ERR
        | IBV_EVENT_QP_ACCESS_ERR
        | IBV_EVENT_PATH_MIG_ERR => {
            // SAFETY: these events name a QP, which is ours.
            if let Some(qp) = unsafe { Qp::<D>::of(event.element.qp) } {
                if is_catastrophic(event.event_type) {
                    qp.pair.forgo_last_wqe();
                }
                qp.pair.die(cause);
            }
            Verdict::Told
        }
        // The kernel has flushed the mark. Where there is none, it is what it says.
        IBV_EVENT_SQ_DRAINED if D::MARKS_AHEAD => {
            // SAFETY: as above.
            if let Some(qp) = unsafe { Qp::<D>::of(event.element.qp) } {
                qp.pair.die(cause);
                if qp.pair.tell_last_wqe(false) {
                    event.event_type = IBV_EVENT_QP_LAST_WQE_REACHED;
                }
            }
            Verdict::Told
        }
        IBV_EVENT_QP_LAST_WQE_REACHED => {
            // SAFETY: as above.
            let qp = unsafe { Qp::<D>::of(event.element.qp) };
            qp.map_or(Verdict::Told, |qp| {
                if D::MARKS_AHEAD {
                    // The companion's: siw raises none, and its QPs have one life.
                    qp.pair.die(cause);
                } else {
                    // It may be of a life before a RESET.
                    qp.pair.ask_after();
                }
                if !qp.pair.is_of_this_life() {
                    return Verdict::PassedOver;
                }
                qp.pair.claim();
                if qp.pair.tell_last_wqe(false) {
                    Verdict::Told
                } else {
                    Verdict::PassedOver
                }
            })
        }
        IBV_EVENT_CQ_ERR => {
            // SAFETY: this event names a CQ, which is ours.
            let cq = unsafe { event.element.cq };
            let mut announcers = context.announcers::<D>().into_iter();
            if let Some(announcer) = announcers.find(|announcer| announcer.is_own(cq)) {
                return injected(&announcer, event);
            }
            // SAFETY: as above.
            match unsafe { Cq::<D>::of(cq) } {
                Some(cq) if !cq.queue.tell_overrun(cause) => Verdict::PassedOver,
                _ => Verdict::Told,
            }
        }
        IBV_EVENT_SRQ_ERR => {
            // SAFETY: this event names an SRQ, which is ours.
            if let Some(srq) = unsafe { Srq::<D>::of(event.element.srq) } {
                srq.queue.fail(cause);
            }
            Verdict::Told
        }
        IBV_EVENT_SRQ_LIMIT_REACHED => {
            // SAFETY: as above.
            if let Some(srq) = unsafe { Srq::<D>::of(event.element.srq) } {
                // Relaxed: see `srq::modify`.
                srq.queue.limit_reached.store(true, Ordering::Relaxed);
            }
            Verdict::Told
        }
        IBV_EVENT_DEVICE_FATAL => {
            context.fail(cause);
            Verdict::Told
        }
        _ => Verdict::Told,
    }
}

/// The announcer's CQ has overflowed once more: the event becomes the one that it stands for.
fn injected<D: Driver>(announcer: &Announcer<D>, event: &mut ibv_async_event) -> Verdict {
    // The kernel counts it as the announcer's, where nobody else would acknowledge it, and whose end
    // may be waiting for that.
    acknowledge::event(event);
    event.event_type = IBV_EVENT_CLIENT_REREGISTER;
    event.element.port_num = 1;
    let Some(pair) = announcer.next().filter(|pair| pair.tell_last_wqe(true)) else {
        return Verdict::PassedOver;
    };
    event.event_type = IBV_EVENT_QP_LAST_WQE_REACHED;
    event.element.qp = pair.base.0;
    Verdict::Told
}

/// Puts the next event in the place of one that is not for the application; false if there is none,
/// and this has become one that means nothing.
///
/// # Safety
///
/// The event names objects of ours.
unsafe fn pass_over(file: RawFd, event: &mut ibv_async_event) -> bool {
    if let Some(next) = read(file) {
        acknowledge::event(event);
        event.event_type = next.event_type;
        event.element = element(next);
        return true;
    }
    if names_qp(event.event_type) {
        // The application acknowledges it in place of the one that the kernel counted.
        event.event_type = IBV_EVENT_COMM_EST;
    } else {
        acknowledge::event(event);
        event.event_type = IBV_EVENT_CLIENT_REREGISTER;
        event.element.port_num = 1;
    }
    false
}

/// Reads one event from the context's file, if there is one.
fn read(file: RawFd) -> Option<AsyncEventDesc> {
    if !has_unread(file) {
        return None;
    }
    let mut desc = AsyncEventDesc::default();
    let room = desc.as_mut_bytes();
    // SAFETY: as much room as the length says. Another thread may be faster, on a blocking file: then
    // this one waits as its application asked for.
    let got = unsafe { libc::read(file, room.as_mut_ptr().cast(), room.len()) };
    (usize::try_from(got) == Ok(size_of::<AsyncEventDesc>())).then_some(desc)
}

/// Whether events wait in a context's file.
pub(crate) fn has_unread(file: RawFd) -> bool {
    let mut ready = libc::pollfd {
        fd: file,
        events: libc::POLLIN,
        revents: 0,
    };
    // SAFETY: one entry.
    unsafe { libc::poll(&raw mut ready, 1, 0) == 1 }
}

fn names_qp(event: ibv_event_type) -> bool {
    matches!(
        event,
        IBV_EVENT_QP_FATAL
            | IBV_EVENT_QP_REQ_ERR
            | IBV_EVENT_QP_ACCESS_ERR
            | IBV_EVENT_COMM_EST
            | IBV_EVENT_SQ_DRAINED
            | IBV_EVENT_PATH_MIG
            | IBV_EVENT_PATH_MIG_ERR
            | IBV_EVENT_QP_LAST_WQE_REACHED
    )
}

/// What an event names, as libibverbs gives it to the application.
fn element(desc: AsyncEventDesc) -> rdma_core_sys::ibv_async_event__bindgen_ty_1 {
    // SAFETY: a union of pointers and an integer, for which zeros will do.
    let mut element: rdma_core_sys::ibv_async_event__bindgen_ty_1 = unsafe { mem::zeroed() };
    let is_object = names_qp(desc.event_type)
        || matches!(
            desc.event_type,
            IBV_EVENT_CQ_ERR | IBV_EVENT_SRQ_ERR | IBV_EVENT_SRQ_LIMIT_REACHED | IBV_EVENT_WQ_FATAL
        );
    if is_object {
        // The address that libibverbs gave the kernel as the object's handle; all the pointers of the
        // union are alike.
        let address = usize::try_from(desc.element).unwrap_or_default();
        element.qp = std::ptr::with_exposed_provenance_mut::<ibv_qp>(address);
    } else {
        let [a, b, c, d, ..] = desc.element.to_le_bytes();
        element.port_num = i32::from_le_bytes([a, b, c, d]);
    }
    element
}
