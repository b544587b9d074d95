// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause

//! Acknowledging an event that the application does not see, as `ibv_ack_async_event`(3) does: the
//! destruction of its object waits for that.

use rdma_core_sys::{
    IBV_EVENT_CQ_ERR, IBV_EVENT_QP_LAST_WQE_REACHED, IBV_EVENT_SQ_DRAINED, ibv_async_event,
};

/// Acknowledges an event of a kind that is passed over.
pub(crate) fn event(event: &ibv_async_event) {
    // SAFETY: the event names a living object of the kind that its type says: it counts the event, so
    // it is there until the event is acknowledged. The counters are used under the mutex beside them.
    unsafe {
        match event.event_type {
            IBV_EVENT_CQ_ERR => {
                let cq = event.element.cq;
                count(
                    (&raw mut (*cq).mutex).cast(),
                    (&raw mut (*cq).cond).cast(),
                    &raw mut (*cq).async_events_completed,
                );
            }
            IBV_EVENT_QP_LAST_WQE_REACHED | IBV_EVENT_SQ_DRAINED => {
                let qp = event.element.qp;
                count(
                    (&raw mut (*qp).mutex).cast(),
                    (&raw mut (*qp).cond).cast(),
                    &raw mut (*qp).events_completed,
                );
            }
            _ => {}
        }
    }
}

/// # Safety
///
/// The mutex guards the counter, and the condition tells of its changes.
unsafe fn count(
    mutex: *mut libc::pthread_mutex_t,
    cond: *mut libc::pthread_cond_t,
    counter: *mut u32,
) {
    // SAFETY: the caller's promise.
    unsafe {
        libc::pthread_mutex_lock(mutex);
        counter.write(counter.read().wrapping_add(1));
        libc::pthread_cond_signal(cond);
        libc::pthread_mutex_unlock(mutex);
    }
}
