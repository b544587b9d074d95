// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause

//! Memory windows of type 2, which the peer can invalidate.
//!
//! `verbs.h` defines their verbs inline, as calls of the provider's operations.

use std::io;
use std::ptr::NonNull;
use std::sync::Arc;

use super::{Pd, destroyed, object, sys};

/// A memory window, `ibv_mw`, of type 2.
#[derive(Debug)]
pub struct Mw {
    raw: NonNull<sys::ibv_mw>,
    pd: Arc<Pd>,
}

impl Mw {
    /// Allocates a window.
    ///
    /// # Errors
    ///
    /// The errno of `ibv_alloc_mw`; `EOPNOTSUPP` if the provider has no windows.
    pub fn alloc(pd: &Arc<Pd>) -> io::Result<Self> {
        // SAFETY: the context is open; its operations do not change.
        let alloc_mw = unsafe { (*pd.context().raw()).ops.alloc_mw };
        let Some(alloc_mw) = alloc_mw else {
            return Err(io::Error::from_raw_os_error(libc::EOPNOTSUPP));
        };
        // SAFETY: the PD is alive.
        let raw = object(unsafe { alloc_mw(pd.raw(), sys::IBV_MW_TYPE_2) })?;
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
