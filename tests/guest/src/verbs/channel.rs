// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause

//! Completion channels and their events.

use std::io;
use std::os::fd::RawFd;
use std::ptr::NonNull;
use std::sync::Arc;
use std::time::Duration;

use super::context::none;
use super::{Context, Cq, check, destroyed, object, readable, sys};

/// A completion channel, `ibv_comp_channel`.
#[derive(Debug)]
pub struct CompChannel {
    raw: NonNull<sys::ibv_comp_channel>,
    context: Arc<Context>,
}

// SAFETY: libibverbs allows any thread to use a channel, and the wrapper holds no other state.
unsafe impl Send for CompChannel {}
// SAFETY: as above.
unsafe impl Sync for CompChannel {}

/// A completion event; dropping it acknowledges it.
///
/// `ibv_destroy_cq` waits until all events of the CQ are acknowledged.
#[derive(Debug)]
pub struct CqEvent {
    cq: NonNull<sys::ibv_cq>,
}

impl CompChannel {
    /// Creates a channel.
    ///
    /// # Errors
    ///
    /// The errno of `ibv_create_comp_channel`.
    pub fn create(context: &Arc<Context>) -> io::Result<Arc<Self>> {
        // SAFETY: the context is open.
        let raw = object(unsafe { sys::ibv_create_comp_channel(context.raw()) })?;
        Ok(Arc::new(Self {
            raw,
            context: Arc::clone(context),
        }))
    }

    /// The object that libibverbs knows.
    #[must_use]
    pub fn raw(&self) -> *mut sys::ibv_comp_channel {
        self.raw.as_ptr()
    }

    /// The device that it belongs to.
    #[must_use]
    pub fn context(&self) -> &Arc<Context> {
        &self.context
    }

    /// File descriptor of the events.
    #[must_use]
    pub fn fd(&self) -> RawFd {
        // SAFETY: the channel is alive; libibverbs does not change the descriptor.
        unsafe { (*self.raw()).fd }
    }

    /// The next event, or `None` if none comes within `limit`.
    ///
    /// # Errors
    ///
    /// The errno of poll(2) or of `ibv_get_cq_event`.
    pub fn next_event(&self, limit: Duration) -> io::Result<Option<CqEvent>> {
        if !readable(self.fd(), limit)? {
            return Ok(None);
        }
        self.get_event().map(Some)
    }

    /// The next event; sleeps in `ibv_get_cq_event` until there is one.
    ///
    /// # Errors
    ///
    /// The errno of `ibv_get_cq_event`.
    pub fn get_event(&self) -> io::Result<CqEvent> {
        let (mut cq, mut cookie) = (none(), none());
        // SAFETY: the channel is alive, and both places are valid for a pointer.
        check(unsafe { sys::ibv_get_cq_event(self.raw(), &raw mut cq, &raw mut cookie) })?;
        Ok(CqEvent { cq: object(cq)? })
    }

    /// Takes one event and acknowledges it.
    ///
    /// # Errors
    ///
    /// `TimedOut` if none comes within `limit`; `Other` if it is of another CQ.
    pub fn expect_event(&self, cq: &Cq, limit: Duration) -> io::Result<()> {
        match self.next_event(limit)? {
            Some(event) if event.cq() == cq.raw() => Ok(()),
            Some(_) => Err(io::Error::other("a completion event of another CQ")),
            None => Err(io::Error::new(
                io::ErrorKind::TimedOut,
                format!("no completion event within {limit:?}"),
            )),
        }
    }
}

impl CqEvent {
    /// The CQ that the event belongs to.
    #[must_use]
    pub fn cq(&self) -> *mut sys::ibv_cq {
        self.cq.as_ptr()
    }
}

impl Drop for CqEvent {
    fn drop(&mut self) {
        // SAFETY: libibverbs has delivered the event for this CQ, whose destruction waits for this
        // very call.
        unsafe { sys::ibv_ack_cq_events(self.cq(), 1) };
    }
}

impl Drop for CompChannel {
    fn drop(&mut self) {
        // SAFETY: the channel is ours, and every CQ on it holds an `Arc` of it.
        destroyed("ibv_destroy_comp_channel", unsafe {
            sys::ibv_destroy_comp_channel(self.raw())
        });
    }
}
