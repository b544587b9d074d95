// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause

//! `ibv_reg_mr`, `ibv_advise_mr`, `ibv_dereg_mr`.

use std::ffi::{c_int, c_void};
use std::sync::Arc;

use kernel_abi::uverbs;
use rdma_core_sys::provider::verbs_mr;
use rdma_core_sys::{ibv_mr, ibv_pd, ibv_sge};

use crate::boundary::{pointer, status};
use crate::context::Context;
use crate::driver::Driver;
use crate::errno::Errno;
use crate::object;
use crate::pd::Domain;

/// An MR: libibverbs' half, then ours.
#[repr(C)]
struct Mr {
    base: verbs_mr,
    _domain: Arc<Domain>,
}

/// `ibv_reg_mr`(3) and `ibv_reg_mr_iova`(3).
///
/// # Safety
///
/// As the man page asks.
pub(crate) unsafe extern "C" fn reg<D: Driver>(
    pd: *mut ibv_pd,
    addr: *mut c_void,
    length: usize,
    iova: u64,
    access: c_int,
) -> *mut ibv_mr {
    pointer(|| {
        // SAFETY: a PD of ours, and so its context.
        let ours = unsafe { Context::of((*pd).context) };
        if addr.addr().checked_add(length).is_none() {
            // siw of 6.1 would take a page or two, for a region of that length (`siw_mem.c: siw_umem_get`).
            return Err(Errno::EINVAL);
        }
        let mut mr = object::allocate::<Mr>()?;
        let mut request = uverbs::Request::<uverbs::RegMr, D::MrRequest>::zeroed();
        let mut answer = uverbs::Response::<uverbs::RegMrResp, D::MrAnswer>::zeroed();
        // SAFETY: request and answer are as large as their sizes say; the MR is at its place.
        Errno::check(unsafe {
            (ours.library.calls.ibv_cmd_reg_mr)(
                pd,
                addr,
                length,
                iova,
                access,
                mr.as_mut_ptr().cast(),
                (&raw mut request).cast(),
                size_of_val(&request),
                (&raw mut answer).cast(),
                size_of_val(&answer),
            )
        })?;
        // SAFETY: inside the allocation, whose other half is done; a PD of ours.
        unsafe { (&raw mut (*mr.as_mut_ptr())._domain).write(Domain::of(pd)) };
        Ok(Box::into_raw(mr).cast())
    })
}

/// `ibv_advise_mr`(3): the kernel's to take. rxe only, as siw registers nothing that is paged on demand.
///
/// # Errors
///
/// `EOPNOTSUPP` from linux 6.1 and 6.12, whose rxe does not either (`core/uverbs_std_types_mr.c:
/// UVERBS_METHOD_ADVISE_MR`); librxe asks the kernel since rdma-core 59.
///
/// # Safety
///
/// As the man page asks.
pub(crate) unsafe extern "C" fn advise(
    pd: *mut ibv_pd,
    advice: u32,
    flags: u32,
    list: *mut ibv_sge,
    entries: u32,
) -> c_int {
    status(|| {
        // SAFETY: a PD of ours, and so its context.
        let ours = unsafe { Context::of((*pd).context) };
        // SAFETY: the caller's PD and list.
        Errno::check(unsafe {
            (ours.library.calls.ibv_cmd_advise_mr)(pd, advice, flags, list, entries)
        })
    })
}

/// `ibv_dereg_mr`(3).
///
/// # Safety
///
/// As the man page asks.
pub(crate) unsafe extern "C" fn dereg(mr: *mut verbs_mr) -> c_int {
    status(|| {
        // SAFETY: an MR of ours, and so its context.
        let ours = unsafe { Context::of((*mr).ibv_mr.context) };
        // SAFETY: as above.
        Errno::check(unsafe { (ours.library.calls.ibv_cmd_dereg_mr)(mr) })?;
        // SAFETY: `reg` made it a box of `Mr`; the kernel has let go of it, and the caller does.
        drop(unsafe { Box::from_raw(mr.cast::<Mr>()) });
        Ok(())
    })
}
