// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause

//! The protection domain.

use std::io;
use std::ptr::NonNull;
use std::sync::Arc;

use super::{Context, destroyed, object, sys};

/// A protection domain, `ibv_pd`.
#[derive(Debug)]
pub struct Pd {
    raw: NonNull<sys::ibv_pd>,
    context: Arc<Context>,
}

// SAFETY: libibverbs allows any thread to use a PD, and the wrapper holds no other state.
unsafe impl Send for Pd {}
// SAFETY: as above.
unsafe impl Sync for Pd {}

impl Pd {
    /// Allocates a protection domain.
    ///
    /// # Errors
    ///
    /// The errno of `ibv_alloc_pd`.
    pub fn alloc(context: &Arc<Context>) -> io::Result<Arc<Self>> {
        // SAFETY: the context is open.
        let raw = object(unsafe { sys::ibv_alloc_pd(context.raw()) })?;
        Ok(Arc::new(Self {
            raw,
            context: Arc::clone(context),
        }))
    }

    /// The object that libibverbs knows.
    #[must_use]
    pub fn raw(&self) -> *mut sys::ibv_pd {
        self.raw.as_ptr()
    }

    /// The device that it belongs to.
    #[must_use]
    pub fn context(&self) -> &Arc<Context> {
        &self.context
    }
}

impl Drop for Pd {
    fn drop(&mut self) {
        // SAFETY: the PD is ours, and every object made from it holds an `Arc` of it.
        destroyed("ibv_dealloc_pd", unsafe { sys::ibv_dealloc_pd(self.raw()) });
    }
}
