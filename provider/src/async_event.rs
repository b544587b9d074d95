// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause

//! The `async_event` operation: libibverbs calls it for every event that the application reaps,
//! before the application sees it (rdma-core v44.0 `device.c: ibv_get_async_event`).

use rdma_core_sys::{
    IBV_EVENT_PATH_MIG_ERR, IBV_EVENT_QP_ACCESS_ERR, IBV_EVENT_QP_FATAL, IBV_EVENT_QP_REQ_ERR,
    IBV_EVENT_SQ_DRAINED, ibv_async_event, ibv_context,
};

use crate::boundary::status;
use crate::death::Cause;
use crate::driver::Driver;
use crate::qp::Qp;

/// The hook.
///
/// # Safety
///
/// Called by libibverbs, with a context of ours and an event that names objects of ours.
pub(crate) unsafe extern "C" fn async_event<D: Driver>(
    _context: *mut ibv_context,
    event: *mut ibv_async_event,
) {
    status(|| {
        // SAFETY: the caller's event.
        let event = unsafe { &*event };
        match event.event_type {
            IBV_EVENT_QP_FATAL
            | IBV_EVENT_QP_REQ_ERR
            | IBV_EVENT_QP_ACCESS_ERR
            | IBV_EVENT_PATH_MIG_ERR
            | IBV_EVENT_SQ_DRAINED => {
                if event.event_type == IBV_EVENT_SQ_DRAINED && !D::MARKS_AHEAD {
                    return Ok(());
                }
                // SAFETY: these events name a QP, which is ours.
                if let Some(qp) = unsafe { Qp::<D>::of(event.element.qp) } {
                    qp.pair.die(Cause::Event(event.event_type));
                }
            }
            _ => {}
        }
        Ok(())
    });
}
