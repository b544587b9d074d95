// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause

//! The completion queue.

use std::ffi::c_int;
use std::io;
use std::ptr::NonNull;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use super::context::none;
use super::{CompChannel, Context, Pd, Wc, check, destroyed, object, sys};

/// How long a completion may take before its absence is a failure; generous, because an emulated
/// machine on a busy host is slow.
pub const PATIENCE: Duration = Duration::from_secs(8);

/// A completion queue, `ibv_cq`.
#[derive(Debug)]
pub struct Cq {
    raw: NonNull<sys::ibv_cq>,
    /// It is an extended one, and polled as such.
    is_extended: bool,
    channel: Option<Arc<CompChannel>>,
    /// The parent domain that it is in, if it is in one.
    _domain: Option<Arc<Pd>>,
    _context: Arc<Context>,
}

// SAFETY: libibverbs allows any thread to use a CQ, and the wrapper holds no other state.
unsafe impl Send for Cq {}
// SAFETY: as above.
unsafe impl Sync for Cq {}

impl Cq {
    /// Creates a CQ of at least `entries` entries without a channel.
    ///
    /// # Errors
    ///
    /// The errno of `ibv_create_cq`.
    pub fn create(context: &Arc<Context>, entries: usize) -> io::Result<Arc<Self>> {
        Self::build(context, entries, None)
    }

    /// Creates a CQ of at least `entries` entries whose events go to `channel`.
    ///
    /// # Errors
    ///
    /// The errno of `ibv_create_cq`.
    pub fn on_channel(channel: &Arc<CompChannel>, entries: usize) -> io::Result<Arc<Self>> {
        Self::build(channel.context(), entries, Some(channel))
    }

    fn build(
        context: &Arc<Context>,
        entries: usize,
        channel: Option<&Arc<CompChannel>>,
    ) -> io::Result<Arc<Self>> {
        let entries = c_int::try_from(entries).map_err(io::Error::other)?;
        let raw_channel = channel.map_or(none(), |channel| channel.raw());
        // SAFETY: context and channel are alive and belong together.
        let raw =
            object(unsafe { sys::ibv_create_cq(context.raw(), entries, none(), raw_channel, 0) })?;
        Ok(Arc::new(Self {
            raw,
            is_extended: false,
            channel: channel.cloned(),
            _domain: None,
            _context: Arc::clone(context),
        }))
    }

    /// Creates an extended CQ, whose events go to `channel` if there is one. [`Self::poll`] polls it in
    /// batches, and reads the fields that `attributes` ask for; the others are 0.
    ///
    /// # Errors
    ///
    /// The errno of `ibv_create_cq_ex`.
    pub fn create_ex(
        context: &Arc<Context>,
        channel: Option<&Arc<CompChannel>>,
        attributes: sys::ibv_cq_init_attr_ex,
    ) -> io::Result<Arc<Self>> {
        Self::build_ex(context, channel, None, attributes)
    }

    /// As [`Self::create_ex`], in a parent domain.
    ///
    /// # Errors
    ///
    /// The errno of `ibv_create_cq_ex`.
    pub fn create_in(
        domain: &Arc<Pd>,
        channel: Option<&Arc<CompChannel>>,
        mut attributes: sys::ibv_cq_init_attr_ex,
    ) -> io::Result<Arc<Self>> {
        attributes.comp_mask |= sys::IBV_CQ_INIT_ATTR_MASK_PD;
        attributes.parent_domain = domain.raw();
        Self::build_ex(domain.context(), channel, Some(domain), attributes)
    }

    fn build_ex(
        context: &Arc<Context>,
        channel: Option<&Arc<CompChannel>>,
        domain: Option<&Arc<Pd>>,
        mut attributes: sys::ibv_cq_init_attr_ex,
    ) -> io::Result<Arc<Self>> {
        attributes.channel = channel.map_or(none(), |channel| channel.raw());
        // SAFETY: context and channel are alive and belong together.
        let raw =
            object(unsafe { sys::extended::create_cq_ex(context.raw(), &raw mut attributes) })?;
        Ok(Arc::new(Self {
            raw: raw.cast(),
            is_extended: true,
            channel: channel.cloned(),
            _domain: domain.cloned(),
            _context: Arc::clone(context),
        }))
    }

    /// The object that libibverbs knows.
    #[must_use]
    pub fn raw(&self) -> *mut sys::ibv_cq {
        self.raw.as_ptr()
    }

    /// The channel of its events, if it has one.
    #[must_use]
    pub fn channel(&self) -> Option<&Arc<CompChannel>> {
        self.channel.as_ref()
    }

    /// Polls once for at most `room.len()` completions and returns how many came.
    ///
    /// # Errors
    ///
    /// What `ibv_poll_cq` returns when it fails, as a positive errno if it is one.
    pub fn poll(&self, room: &mut [Wc]) -> io::Result<usize> {
        if self.is_extended {
            self.poll_batch(room)
        } else {
            self.poll_plainly(room)
        }
    }

    /// As [`Self::poll`], by `ibv_poll_cq`, also of an extended CQ.
    ///
    /// # Errors
    ///
    /// As [`Self::poll`].
    pub fn poll_plainly(&self, room: &mut [Wc]) -> io::Result<usize> {
        let entries = c_int::try_from(room.len()).map_err(io::Error::other)?;
        // SAFETY: the CQ is alive, and the room holds `entries` completions: `Wc` is a transparent
        // `ibv_wc`.
        let taken = unsafe { sys::inline::poll_cq(self.raw(), entries, room.as_mut_ptr().cast()) };
        usize::try_from(taken).map_err(|_| io::Error::from_raw_os_error(taken.wrapping_neg()))
    }

    /// Polls once for one completion.
    ///
    /// # Errors
    ///
    /// As [`Self::poll`].
    pub fn poll_one(&self) -> io::Result<Option<Wc>> {
        let mut room = [Wc::untouched()];
        Ok((self.poll(&mut room)? == 1).then_some(room[0]))
    }

    /// Waits, by polling, for exactly `count` completions.
    ///
    /// # Errors
    ///
    /// As [`Self::poll`], or `TimedOut` with what did come if [`PATIENCE`] has passed.
    pub fn take(&self, count: usize) -> io::Result<Vec<Wc>> {
        let start = Instant::now();
        let mut taken = Vec::with_capacity(count);
        while taken.len() < count {
            match self.poll_one()? {
                Some(wc) => taken.push(wc),
                None if start.elapsed() < PATIENCE => thread::yield_now(),
                None => {
                    return Err(io::Error::new(
                        io::ErrorKind::TimedOut,
                        format!(
                            "{} of {count} completions within {PATIENCE:?}: {taken:?}",
                            taken.len()
                        ),
                    ));
                }
            }
        }
        Ok(taken)
    }

    /// Waits, by polling, for one completion.
    ///
    /// # Errors
    ///
    /// As [`Self::take`].
    pub fn take_one(&self) -> io::Result<Wc> {
        self.take(1).map(|taken| taken[0])
    }

    /// Asks for the destruction of a CQ that a QP still uses, and returns how that is refused.
    ///
    /// # Panics
    ///
    /// If it is not: the CQ would be gone.
    #[must_use]
    pub fn destroy_in_use(&self) -> io::Error {
        // SAFETY: the CQ is alive. If it is destroyed all the same, the process does not go on.
        match check(unsafe { sys::ibv_destroy_cq(self.raw()) }) {
            Ok(()) => panic!("a CQ in use is destroyed"),
            Err(error) => error,
        }
    }

    /// Changes the size to at least `entries` entries.
    ///
    /// # Errors
    ///
    /// The errno of `ibv_resize_cq`.
    pub fn resize(&self, entries: c_int) -> io::Result<()> {
        // SAFETY: the CQ is alive.
        check(unsafe { sys::ibv_resize_cq(self.raw(), entries) })
    }

    /// How many entries it says that it has.
    #[must_use]
    pub fn entries(&self) -> c_int {
        // SAFETY: the CQ is alive.
        unsafe { (*self.raw()).cqe }
    }

    /// Asks for an event with the next completion, or with the next solicited one.
    ///
    /// # Errors
    ///
    /// The errno of `ibv_req_notify_cq`.
    pub fn arm(&self, solicited_only: bool) -> io::Result<()> {
        // SAFETY: the CQ is alive.
        check(unsafe { sys::inline::req_notify_cq(self.raw(), c_int::from(solicited_only)) })
    }
}

impl Drop for Cq {
    fn drop(&mut self) {
        // SAFETY: the CQ is ours, and every QP on it holds an `Arc` of it.
        destroyed("ibv_destroy_cq", unsafe { sys::ibv_destroy_cq(self.raw()) });
    }
}
