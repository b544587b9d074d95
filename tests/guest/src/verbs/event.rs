// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause

//! Asynchronous events.

use std::ffi::CStr;
use std::fmt;
use std::io;
use std::mem::MaybeUninit;
use std::sync::Arc;

use super::{Context, Cq, Qp, Srq, check, sys};

/// An asynchronous event; dropping it acknowledges it.
///
/// `ibv_destroy_qp`, `ibv_destroy_cq` and `ibv_destroy_srq` wait until all events of the object
/// are acknowledged.
pub struct AsyncEvent {
    raw: sys::ibv_async_event,
    _context: Arc<Context>,
}

impl AsyncEvent {
    /// Takes the next event of `context`, and waits for it if there is none.
    pub(super) fn get(context: &Arc<Context>) -> io::Result<Self> {
        let mut event = MaybeUninit::zeroed();
        // SAFETY: the context is open, and the place is big enough for an event.
        check(unsafe { sys::ibv_get_async_event(context.raw(), event.as_mut_ptr()) })?;
        // SAFETY: all-zero is a valid value, and the verb has filled it in.
        let raw = unsafe { event.assume_init() };
        Ok(Self {
            raw,
            _context: Arc::clone(context),
        })
    }

    /// What has happened: `IBV_EVENT_*`.
    #[must_use]
    pub fn kind(&self) -> sys::ibv_event_type {
        self.raw.event_type
    }

    /// Whether the event belongs to `qp`; meaningful for QP events only.
    #[must_use]
    pub fn is_of_qp(&self, qp: &Qp) -> bool {
        // SAFETY: the members of the union are pointers and an integer: any bits will do, and the
        // pointer is only compared.
        unsafe { self.raw.element.qp == qp.raw() }
    }

    /// Whether the event belongs to `cq`; meaningful for CQ events only.
    #[must_use]
    pub fn is_of_cq(&self, cq: &Cq) -> bool {
        // SAFETY: as above.
        unsafe { self.raw.element.cq == cq.raw() }
    }

    /// Whether the event belongs to `srq`; meaningful for SRQ events only.
    #[must_use]
    pub fn is_of_srq(&self, srq: &Srq) -> bool {
        // SAFETY: as above.
        unsafe { self.raw.element.srq == srq.raw() }
    }

    /// The port that the event belongs to; meaningful for port events only.
    #[must_use]
    pub fn port(&self) -> i32 {
        // SAFETY: as above.
        unsafe { self.raw.element.port_num }
    }
}

impl fmt::Debug for AsyncEvent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // SAFETY: libibverbs returns a constant string for every value.
        let name = unsafe { CStr::from_ptr(sys::ibv_event_type_str(self.kind())) };
        write!(f, "event {} ({})", self.kind(), name.to_string_lossy())
    }
}

impl Drop for AsyncEvent {
    fn drop(&mut self) {
        // SAFETY: libibverbs has delivered the event, whose object cannot be destroyed before this
        // very call.
        unsafe { sys::ibv_ack_async_event(&raw mut self.raw) };
    }
}
