// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause

//! Memory for the objects that libibverbs and we share: its half in front, ours behind. And for arrays of ours that
//! are mostly not used.

use std::alloc::{Layout, alloc_zeroed};
use std::mem::MaybeUninit;
use std::ptr;

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

/// Zeroed memory for so many `T`; pages of it are used as they are written.
///
/// # Errors
///
/// `ENOMEM`.
///
/// # Safety
///
/// Zeroes are a `T`.
pub(crate) unsafe fn zeroed<T>(count: usize) -> Result<Box<[T]>> {
    const { assert!(size_of::<T>() > 0) };
    if count == 0 {
        return Ok(Box::default());
    }
    let layout = Layout::array::<T>(count).map_err(|_| Errno::ENOMEM)?;
    // SAFETY: the size is not 0 (just checked, and asserted above).
    let memory = unsafe { alloc_zeroed(layout) }.cast::<T>();
    if memory.is_null() {
        return Err(Errno::ENOMEM);
    }
    // SAFETY: allocated with the layout of so many, each of them zeroes: the caller's promise.
    Ok(unsafe { Box::from_raw(ptr::slice_from_raw_parts_mut(memory, count)) })
}
