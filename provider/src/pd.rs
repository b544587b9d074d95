// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause

//! `ibv_alloc_pd`, `ibv_dealloc_pd`.

use std::ffi::c_int;

use kernel_abi::uverbs;
use rdma_core_sys::{ibv_context, ibv_pd};

use crate::boundary::{pointer, status};
use crate::context::Context;
use crate::errno::Errno;
use crate::object;

/// `ibv_alloc_pd`(3).
///
/// # Safety
///
/// As the man page asks.
pub(crate) unsafe extern "C" fn alloc(context: *mut ibv_context) -> *mut ibv_pd {
    pointer(|| {
        // SAFETY: a context of ours.
        let ours = unsafe { Context::of(context) };
        let mut pd = object::allocate::<ibv_pd>()?;
        let mut request = uverbs::Request::<uverbs::AllocPd>::zeroed();
        let mut answer = uverbs::Response::<uverbs::AllocPdResp>::zeroed();
        // SAFETY: request and answer are as large as their sizes say; the PD is at its place.
        Errno::check(unsafe {
            (ours.library.calls.ibv_cmd_alloc_pd)(
                context,
                pd.as_mut_ptr(),
                (&raw mut request).cast(),
                size_of_val(&request),
                (&raw mut answer).cast(),
                size_of_val(&answer),
            )
        })?;
        Ok(Box::into_raw(pd).cast())
    })
}

/// `ibv_dealloc_pd`(3).
///
/// # Safety
///
/// As the man page asks.
pub(crate) unsafe extern "C" fn dealloc(pd: *mut ibv_pd) -> c_int {
    status(|| {
        // SAFETY: a PD of ours, and so its context.
        let ours = unsafe { Context::of((*pd).context) };
        // SAFETY: as above.
        Errno::check(unsafe { (ours.library.calls.ibv_cmd_dealloc_pd)(pd) })?;
        // SAFETY: `alloc` made it a box; the kernel has let go of it, and the caller does.
        drop(unsafe { Box::from_raw(pd) });
        Ok(())
    })
}
