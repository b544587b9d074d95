// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause

//! `ibv_alloc_mw`, `ibv_bind_mw`, `ibv_dealloc_mw`: rxe only, as siw has no memory windows.

use std::ffi::c_int;
use std::ptr;
use std::sync::Arc;

use kernel_abi::uverbs;
use rdma_core_sys::{
    IBV_ACCESS_ZERO_BASED, IBV_WR_BIND_MW, ibv_mw, ibv_mw_bind, ibv_mw_type, ibv_pd, ibv_qp,
    ibv_send_wr, ibv_send_wr__bindgen_ty_4, ibv_send_wr__bindgen_ty_4__bindgen_ty_1,
};

use crate::boundary::{pointer, status};
use crate::context::Context;
use crate::errno::Errno;
use crate::object;
use crate::pd::Domain;
use crate::post_send::post_send;
use crate::rxe::Rxe;

/// A memory window: libibverbs' half, then ours.
#[repr(C)]
struct Mw {
    base: ibv_mw,
    _domain: Arc<Domain>,
}

/// `ibv_alloc_mw`(3).
///
/// # Safety
///
/// As the man page asks.
pub(crate) unsafe extern "C" fn alloc(pd: *mut ibv_pd, mw_type: ibv_mw_type) -> *mut ibv_mw {
    pointer(|| {
        // SAFETY: a PD of ours, and so its context.
        let ours = unsafe { Context::of((*pd).context) };
        let mut mw = object::allocate::<Mw>()?;
        let mut request = uverbs::Request::<uverbs::AllocMw>::zeroed();
        let mut answer = uverbs::Response::<uverbs::AllocMwResp>::zeroed();
        // SAFETY: request and answer are as large as their sizes say; the window is at its place.
        Errno::check(unsafe {
            (ours.library.calls.ibv_cmd_alloc_mw)(
                pd,
                mw_type,
                mw.as_mut_ptr().cast(),
                (&raw mut request).cast(),
                size_of_val(&request),
                (&raw mut answer).cast(),
                size_of_val(&answer),
            )
        })?;
        // SAFETY: inside the allocation, whose other half is done; a PD of ours.
        unsafe { (&raw mut (*mw.as_mut_ptr())._domain).write(Domain::of(pd)) };
        Ok(Box::into_raw(mw).cast())
    })
}

/// `ibv_bind_mw`(3): posts the bind, and gives the window the key that it is to have.
///
/// The caller takes the key back if the bind completes with an error.
///
/// # Safety
///
/// As the man page asks.
pub(crate) unsafe extern "C" fn bind(
    qp: *mut ibv_qp,
    mw: *mut ibv_mw,
    mw_bind: *mut ibv_mw_bind,
) -> c_int {
    status(|| {
        // SAFETY: the caller's window and bind.
        let (mw, bind) = unsafe { (&mut *mw, &*mw_bind) };
        // libibverbs has found this function through the window.
        if qp.is_null() || bind.bind_info.mw_access_flags & IBV_ACCESS_ZERO_BASED != 0 {
            return Err(Errno::EINVAL);
        }
        // The low byte is the key's variant (ibv_inc_rkey(3)).
        let rkey = (mw.rkey & !0xff) | (mw.rkey.wrapping_add(1) & 0xff);
        let mut wr = ibv_send_wr {
            wr_id: bind.wr_id,
            opcode: IBV_WR_BIND_MW,
            send_flags: bind.send_flags,
            __bindgen_anon_2: ibv_send_wr__bindgen_ty_4 {
                bind_mw: ibv_send_wr__bindgen_ty_4__bindgen_ty_1 {
                    mw,
                    rkey,
                    bind_info: bind.bind_info,
                },
            },
            ..ibv_send_wr::default()
        };
        let mut bad_wr = ptr::null_mut();
        // SAFETY: the caller's QP, a list of one, and a local.
        Errno::check(unsafe { post_send::<Rxe>(qp, &raw mut wr, &raw mut bad_wr) })?;
        mw.rkey = rkey;
        Ok(())
    })
}

/// `ibv_dealloc_mw`(3).
///
/// # Safety
///
/// As the man page asks.
pub(crate) unsafe extern "C" fn dealloc(mw: *mut ibv_mw) -> c_int {
    status(|| {
        // SAFETY: a window of ours, and so its context.
        let ours = unsafe { Context::of((*mw).context) };
        // SAFETY: as above.
        Errno::check(unsafe { (ours.library.calls.ibv_cmd_dealloc_mw)(mw) })?;
        // SAFETY: `alloc` made it a box of `Mw`; the kernel has let go of it, and the caller does.
        drop(unsafe { Box::from_raw(mw.cast::<Mw>()) });
        Ok(())
    })
}
