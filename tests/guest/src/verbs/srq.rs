// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause

//! The shared receive queue.

use std::ffi::c_int;
use std::io;
use std::ptr::NonNull;
use std::sync::Arc;

use super::context::none;
use super::work::{chain_recvs, post};
use super::{Pd, RecvWr, Refused, check, destroyed, object, sys};

/// A shared receive queue, `ibv_srq`.
#[derive(Debug)]
pub struct Srq {
    raw: NonNull<sys::ibv_srq>,
    _pd: Arc<Pd>,
}

// SAFETY: libibverbs allows any thread to use an SRQ, and the wrapper holds no other state.
unsafe impl Send for Srq {}
// SAFETY: as above.
unsafe impl Sync for Srq {}

impl Srq {
    /// Creates an SRQ for at least `max_wr` requests of at most `max_sge` elements.
    ///
    /// # Errors
    ///
    /// The errno of `ibv_create_srq`.
    pub fn create(pd: &Arc<Pd>, max_wr: u32, max_sge: u32) -> io::Result<Arc<Self>> {
        let attr = sys::ibv_srq_attr {
            max_wr,
            max_sge,
            srq_limit: 0,
        };
        let mut init = sys::ibv_srq_init_attr {
            srq_context: none(),
            attr,
        };
        // SAFETY: the PD is alive, and the attributes are filled in.
        let raw = object(unsafe { sys::ibv_create_srq(pd.raw(), &raw mut init) })?;
        Ok(Arc::new(Self {
            raw,
            _pd: Arc::clone(pd),
        }))
    }

    /// Creates an SRQ from extended attributes, which are updated.
    ///
    /// # Errors
    ///
    /// The errno of `ibv_create_srq_ex`.
    pub fn create_ex(
        pd: &Arc<Pd>,
        attributes: &mut sys::ibv_srq_init_attr_ex,
    ) -> io::Result<Arc<Self>> {
        // SAFETY: the context is open, and the attributes are filled in as far as their mask says.
        let raw = unsafe { sys::extended::create_srq_ex(pd.context().raw(), attributes) };
        Ok(Arc::new(Self {
            raw: object(raw)?,
            _pd: Arc::clone(pd),
        }))
    }

    /// The object that libibverbs knows.
    #[must_use]
    pub fn raw(&self) -> *mut sys::ibv_srq {
        self.raw.as_ptr()
    }

    /// Posts a list of receives.
    ///
    /// # Errors
    ///
    /// What `ibv_post_srq_recv` returned, and where `bad_wr` points.
    pub fn post_recv(&self, list: &[RecvWr<'_>]) -> Result<(), Refused> {
        post(chain_recvs(list), |first, bad| {
            // SAFETY: the SRQ is alive, and `first` heads a well-formed list or is null.
            unsafe { sys::inline::post_srq_recv(self.raw(), first, bad) }
        })
    }

    /// Asks for one `IBV_EVENT_SRQ_LIMIT_REACHED` when fewer than `limit` requests are left.
    ///
    /// # Errors
    ///
    /// The errno of `ibv_modify_srq`.
    pub fn arm_limit(&self, limit: u32) -> io::Result<()> {
        let mut attr = sys::ibv_srq_attr {
            srq_limit: limit,
            ..Default::default()
        };
        let mask = c_int::try_from(sys::IBV_SRQ_LIMIT).map_err(io::Error::other)?;
        // SAFETY: the SRQ is alive, and the attribute that the mask names is filled in.
        check(unsafe { sys::ibv_modify_srq(self.raw(), &raw mut attr, mask) })
    }
}

impl Srq {
    /// Asks for the destruction of an SRQ that a QP still uses, and returns how that is refused.
    ///
    /// # Panics
    ///
    /// If it is not: the SRQ would be gone.
    #[must_use]
    pub fn destroy_in_use(&self) -> io::Error {
        // SAFETY: the SRQ is alive. If it is destroyed all the same, the process does not go on.
        match check(unsafe { sys::ibv_destroy_srq(self.raw()) }) {
            Ok(()) => panic!("an SRQ in use is destroyed"),
            Err(error) => error,
        }
    }

    /// The limit that is armed, or 0.
    ///
    /// # Errors
    ///
    /// The errno of `ibv_query_srq`.
    pub fn limit(&self) -> io::Result<u32> {
        let mut attr = sys::ibv_srq_attr::default();
        // SAFETY: the SRQ is alive, and `attr` is a valid place.
        check(unsafe { sys::ibv_query_srq(self.raw(), &raw mut attr) })?;
        Ok(attr.srq_limit)
    }
}

impl Drop for Srq {
    fn drop(&mut self) {
        // SAFETY: the SRQ is ours, and every QP on it holds an `Arc` of it.
        destroyed("ibv_destroy_srq", unsafe {
            sys::ibv_destroy_srq(self.raw())
        });
    }
}
