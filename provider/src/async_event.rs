// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause

//! The `async_event` operation: libibverbs calls it for every event that the application reaps,
//! before the application sees it (rdma-core v44.0 `device.c: ibv_get_async_event`).

use std::ffi::CString;

use rdma_core_sys::provider::VERBS_LOG_DEBUG;
use rdma_core_sys::{ibv_async_event, ibv_context};

use crate::boundary::status;
use crate::context::Context;

/// Notes an event in libibverbs' log, at its debug level, and leaves it as it is.
///
/// # Safety
///
/// Called by libibverbs, with a context of ours and an event that names objects of ours.
pub(crate) unsafe extern "C" fn async_event(
    context: *mut ibv_context,
    event: *mut ibv_async_event,
) {
    status(|| {
        // SAFETY: a context of ours, and the caller's event.
        let (ours, event) = unsafe { (Context::of(context), &*event) };
        if let Ok(line) = CString::new(format!("lastwqe: async event {}", event.event_type)) {
            ours.library.log(VERBS_LOG_DEBUG, &line);
        }
        Ok(())
    });
}
