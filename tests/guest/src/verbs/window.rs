// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause

//! Memory windows, of type 2 where nothing else is said: the peer can invalidate those.
//!
//! `verbs.h` defines their verbs inline, as calls of the provider's operations.

use std::ffi::c_int;
use std::io;
use std::ptr::NonNull;
use std::sync::Arc;

use super::{Pd, Qp, destroyed, object, sys};

/// A memory window, `ibv_mw`.
#[derive(Debug)]
pub struct Mw {
    raw: NonNull<sys::ibv_mw>,
    pd: Arc<Pd>,
}

impl Mw {
    /// Allocates a window of type 2.
    ///
    /// # Errors
    ///
    /// As [`Self::of_type`].
    pub fn alloc(pd: &Arc<Pd>) -> io::Result<Self> {
        Self::of_type(pd, sys::IBV_MW_TYPE_2)
    }

    /// Allocates a window.
    ///
    /// # Errors
    ///
    /// The errno of `ibv_alloc_mw`; `EOPNOTSUPP` if the provider has no windows.
    pub fn of_type(pd: &Arc<Pd>, mw_type: sys::ibv_mw_type) -> io::Result<Self> {
        // SAFETY: the context is open; its operations do not change.
        let alloc_mw = unsafe { (*pd.context().raw()).ops.alloc_mw };
        let Some(alloc_mw) = alloc_mw else {
            return Err(io::Error::from_raw_os_error(libc::EOPNOTSUPP));
        };
        // SAFETY: the PD is alive.
        let raw = object(unsafe { alloc_mw(pd.raw(), mw_type) })?;
        Ok(Self {
            raw,
            pd: Arc::clone(pd),
        })
    }

    /// The object that libibverbs knows.
    #[must_use]
    pub fn raw(&self) -> *mut sys::ibv_mw {
        self.raw.as_ptr()
    }

    /// Posts a bind of a window of type 1 to `qp`, and returns what the provider's operation returns
    /// (`ibv_bind_mw`).
    ///
    /// # Panics
    ///
    /// If the provider has no windows.
    #[must_use]
    pub fn bind(&self, qp: &Qp, mut bind: sys::ibv_mw_bind) -> c_int {
        // SAFETY: the context is open; its operations do not change.
        let Some(bind_mw) = (unsafe { (*self.pd.context().raw()).ops.bind_mw }) else {
            panic!("a provider that allocates windows binds none");
        };
        // SAFETY: QP and window are alive, and the bind is filled in.
        unsafe { bind_mw(qp.raw(), self.raw(), &raw mut bind) }
    }

    /// The current key; a bind takes it with another low byte.
    #[must_use]
    pub fn rkey(&self) -> u32 {
        // SAFETY: the window is alive.
        unsafe { (*self.raw()).rkey }
    }
}

impl Drop for Mw {
    fn drop(&mut self) {
        // SAFETY: the context is open; its operations do not change.
        let Some(dealloc_mw) = (unsafe { (*self.pd.context().raw()).ops.dealloc_mw }) else {
            panic!("a provider that allocates windows frees none");
        };
        // SAFETY: the window is ours.
        destroyed("ibv_dealloc_mw", unsafe { dealloc_mw(self.raw()) });
    }
}
