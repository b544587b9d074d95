// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause

//! Protection domains, thread domains, and parent domains of both.

use std::io;
use std::ptr::{self, NonNull};
use std::sync::Arc;

use super::{Context, check, destroyed, object, sys};

/// A protection domain, `ibv_pd`.
#[derive(Debug)]
pub struct Pd {
    raw: NonNull<sys::ibv_pd>,
    context: Arc<Context>,
    /// What a parent domain is made from.
    _parts: Option<(Arc<Pd>, Option<Arc<Td>>)>,
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
            _parts: None,
        }))
    }

    /// Allocates a parent domain of `pd` and `td`.
    ///
    /// # Errors
    ///
    /// The errno of `ibv_alloc_parent_domain`.
    pub fn parent(pd: &Arc<Self>, td: Option<&Arc<Td>>) -> io::Result<Arc<Self>> {
        let attributes = sys::ibv_parent_domain_init_attr {
            pd: pd.raw(),
            td: td.map_or(ptr::null_mut(), |td| td.raw()),
            ..Default::default()
        };
        Self::parent_by(pd, td, attributes)
    }

    /// As [`Self::parent`], but by these attributes.
    ///
    /// # Errors
    ///
    /// The errno of `ibv_alloc_parent_domain`.
    pub fn parent_by(
        pd: &Arc<Self>,
        td: Option<&Arc<Td>>,
        mut attributes: sys::ibv_parent_domain_init_attr,
    ) -> io::Result<Arc<Self>> {
        let context = pd.context.raw();
        // SAFETY: the context is open, and the attributes name living objects, or none.
        let raw = unsafe { sys::extended::alloc_parent_domain(context, &raw mut attributes) };
        Ok(Arc::new(Self {
            raw: object(raw)?,
            context: Arc::clone(&pd.context),
            _parts: Some((Arc::clone(pd), td.cloned())),
        }))
    }

    /// Asks for the deallocation of a domain that is still in use, and returns how that is refused.
    ///
    /// # Panics
    ///
    /// If it is not: the domain would be gone.
    #[must_use]
    pub fn dealloc_in_use(&self) -> io::Error {
        // SAFETY: the domain is alive. If it is deallocated all the same, the process does not go on.
        match check(unsafe { sys::ibv_dealloc_pd(self.raw()) }) {
            Ok(()) => panic!("a domain in use is deallocated"),
            Err(error) => error,
        }
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

/// A thread domain, `ibv_td`.
#[derive(Debug)]
pub struct Td {
    raw: NonNull<sys::ibv_td>,
    _context: Arc<Context>,
}

// SAFETY: libibverbs allows any thread to use a thread domain, and the wrapper holds no other state.
unsafe impl Send for Td {}
// SAFETY: as above.
unsafe impl Sync for Td {}

impl Td {
    /// Allocates a thread domain, with attributes of this mask: none is known.
    ///
    /// # Errors
    ///
    /// The errno of `ibv_alloc_td`.
    pub fn alloc(context: &Arc<Context>, comp_mask: u32) -> io::Result<Arc<Self>> {
        let mut attributes = sys::ibv_td_init_attr { comp_mask };
        // SAFETY: the context is open.
        let raw = unsafe { sys::extended::alloc_td(context.raw(), &raw mut attributes) };
        Ok(Arc::new(Self {
            raw: object(raw)?,
            _context: Arc::clone(context),
        }))
    }

    /// The object that libibverbs knows.
    #[must_use]
    pub fn raw(&self) -> *mut sys::ibv_td {
        self.raw.as_ptr()
    }

    /// As [`Pd::dealloc_in_use`].
    ///
    /// # Panics
    ///
    /// If the domain is deallocated.
    #[must_use]
    pub fn dealloc_in_use(&self) -> io::Error {
        // SAFETY: the domain is alive. If it is deallocated all the same, the process does not go on.
        match check(unsafe { sys::extended::dealloc_td(self.raw()) }) {
            Ok(()) => panic!("a thread domain in use is deallocated"),
            Err(error) => error,
        }
    }
}

impl Drop for Td {
    fn drop(&mut self) {
        // SAFETY: the domain is ours, and every parent domain of it holds an `Arc` of it.
        destroyed("ibv_dealloc_td", unsafe {
            sys::extended::dealloc_td(self.raw())
        });
    }
}

impl Drop for Pd {
    fn drop(&mut self) {
        // SAFETY: the PD is ours, and every object made from it holds an `Arc` of it.
        destroyed("ibv_dealloc_pd", unsafe { sys::ibv_dealloc_pd(self.raw()) });
    }
}
