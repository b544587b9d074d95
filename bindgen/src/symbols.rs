// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
//! Symbols of the libibverbs that is already in the process.

use std::{
    ffi::{CStr, c_void},
    ptr::NonNull,
};

/// The loaded libibverbs; keeps it loaded while it lives.
#[derive(Debug)]
pub(crate) struct Symbols {
    handle: NonNull<c_void>,
}

impl Symbols {
    /// Finds libibverbs without ever loading it, also where it came in as a private dependency
    /// (`RTLD_LOCAL`), as in a Python extension.
    pub(crate) fn of_loaded_libibverbs() -> Option<Self> {
        // SAFETY: the name is a NUL-terminated string; RTLD_NOLOAD runs no constructor.
        let handle = unsafe {
            libc::dlopen(
                c"libibverbs.so.1".as_ptr(),
                libc::RTLD_NOW | libc::RTLD_NOLOAD,
            )
        };
        NonNull::new(handle).map(|handle| Self { handle })
    }

    /// The symbol `name` of exactly the version `version`.
    pub(crate) fn versioned(&self, name: &CStr, version: &CStr) -> Option<NonNull<c_void>> {
        // SAFETY: the handle is open, both names are NUL-terminated strings.
        NonNull::new(unsafe { libc::dlvsym(self.handle.as_ptr(), name.as_ptr(), version.as_ptr()) })
    }

    /// The symbol `name` in its default version.
    pub(crate) fn default_version(&self, name: &CStr) -> Option<NonNull<c_void>> {
        // SAFETY: the handle is open, the name is a NUL-terminated string.
        NonNull::new(unsafe { libc::dlsym(self.handle.as_ptr(), name.as_ptr()) })
    }
}

impl Drop for Symbols {
    fn drop(&mut self) {
        // SAFETY: the handle is open and used no more. The result is of no use: the library stays
        // loaded by whoever loaded it.
        unsafe { libc::dlclose(self.handle.as_ptr()) };
    }
}

// SAFETY: a dlopen handle may be used from any thread.
unsafe impl Send for Symbols {}
// SAFETY: as above; the dl functions lock for themselves.
unsafe impl Sync for Symbols {}
