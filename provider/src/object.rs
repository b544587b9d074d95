// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause

//! Memory for the objects that libibverbs and we share: its half in front, ours behind.

use std::alloc::{Layout, alloc_zeroed};
use std::mem::MaybeUninit;

use crate::errno::{Errno, Result};

/// Zeroed memory for a `T`, at the address it will keep.
///
/// libibverbs initialises its half in place (it holds mutexes, and the kernel is told its address),
/// so the object is never moved.
///
/// # Errors
///
/// `ENOMEM`.
pub(crate) fn allocate<T>() -> Result<Box<MaybeUninit<T>>> {
    const { assert!(size_of::<T>() > 0) };
    // SAFETY: the size is not 0 (just asserted).
    let memory = unsafe { alloc_zeroed(Layout::new::<T>()) };
    if memory.is_null() {
        return Err(Errno::ENOMEM);
    }
    // SAFETY: allocated with the layout of `T`, which is that of `MaybeUninit<T>`.
    Ok(unsafe { Box::from_raw(memory.cast()) })
}
