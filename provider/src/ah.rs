// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause

//! `ibv_create_ah`, `ibv_destroy_ah`: rxe only, as iWARP has no datagrams.

use std::ffi::c_int;
use std::sync::Arc;

use kernel_abi::{rxe, uverbs};
use rdma_core_sys::{ibv_ah, ibv_ah_attr, ibv_pd};

use crate::boundary::{pointer, status};
use crate::context::Context;
use crate::errno::Errno;
use crate::object;
use crate::pd::Domain;

/// An address handle of rxe.
#[repr(C)]
#[derive(Debug)]
pub(crate) struct Ah {
    base: ibv_ah,
    /// The kernel's index for it, which a UD send names; never 0.
    number: u32,
    _domain: Arc<Domain>,
}

impl Ah {
    /// The number to put into a UD send's WQE.
    ///
    /// # Safety
    ///
    /// `ah` is NULL or an address handle that [`create`] made.
    pub(crate) unsafe fn number(ah: *const ibv_ah) -> Option<u32> {
        // SAFETY: NULL or begins an `Ah`.
        unsafe { ah.cast::<Self>().as_ref() }.map(|ah| ah.number)
    }
}

/// `ibv_create_ah`(3).
///
/// Linux before 5.18 gives no number and wants the whole address in each WQE: `EOPNOTSUPP`.
///
/// # Safety
///
/// As the man page asks.
pub(crate) unsafe extern "C" fn create(pd: *mut ibv_pd, attr: *mut ibv_ah_attr) -> *mut ibv_ah {
    pointer(|| {
        // SAFETY: a PD of ours, and so its context.
        let ours = unsafe { Context::of((*pd).context) };
        let mut ah = object::allocate::<Ah>()?;
        let base = ah.as_mut_ptr().cast::<ibv_ah>();
        let mut answer = uverbs::Response::<uverbs::CreateAhResp, rxe::CreateAhResp>::zeroed();
        // SAFETY: the answer is as large as its size says; the AH is at its place.
        Errno::check(unsafe {
            (ours.library.calls.ibv_cmd_create_ah)(
                pd,
                base,
                attr,
                (&raw mut answer).cast(),
                size_of_val(&answer),
            )
        })?;
        let number = answer.driver.ah_num;
        if number == 0 {
            // SAFETY: the kernel's AH that was just made, known to nobody else.
            Errno::check(unsafe { (ours.library.calls.ibv_cmd_destroy_ah)(base) })?;
            return Err(Errno::EOPNOTSUPP);
        }
        // SAFETY: inside the allocation; a PD of ours.
        unsafe {
            (&raw mut (*ah.as_mut_ptr()).number).write(number);
            (&raw mut (*ah.as_mut_ptr())._domain).write(Domain::of(pd));
        }
        Ok(Box::into_raw(ah).cast())
    })
}

/// `ibv_destroy_ah`(3).
///
/// # Safety
///
/// As the man page asks.
pub(crate) unsafe extern "C" fn destroy(ah: *mut ibv_ah) -> c_int {
    status(|| {
        // SAFETY: an AH of ours, and so its context.
        let ours = unsafe { Context::of((*ah).context) };
        // SAFETY: as above.
        Errno::check(unsafe { (ours.library.calls.ibv_cmd_destroy_ah)(ah) })?;
        // SAFETY: `create` made it a box of `Ah`; the kernel has let go of it, and the caller does.
        drop(unsafe { Box::from_raw(ah.cast::<Ah>()) });
        Ok(())
    })
}
