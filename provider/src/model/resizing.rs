// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause

//! A CQ gets another size: the application's call, and the kernel's command.

use std::ffi::{c_int, c_void};

use kernel_abi::{rxe, uverbs};
use rdma_core_sys::ibv_cq;

use super::application::{Application, expect};
use super::calls::{answer, breath, device_of};
use super::reference::Verdict;
use crate::driver::Driver;
use crate::resize_cq;

impl<D: Driver> Application<D> {
    /// Gives a CQ another size, if that is large enough.
    pub(super) fn resize(&mut self, at: usize, size: u32) -> Verdict {
        let cq = self.cqs[at].cq;
        // SAFETY: a CQ of ours.
        let answer = unsafe { resize_cq::resize_cq::<D>(cq, size.cast_signed()) };
        let refusals = if D::RESIZES_CQS {
            &[libc::EINVAL][..]
        } else {
            &[libc::EINVAL, libc::EOPNOTSUPP]
        };
        expect(answer == 0 || refusals.contains(&answer), || {
            format!("a resize says {answer}")
        })
    }
}

/// linux 6.1, 6.12 `rxe_verbs.c: rxe_resize_cq`; siw has none.
pub(super) unsafe extern "C" fn resize_cq(
    cq: *mut ibv_cq,
    entries: c_int,
    _: *mut c_void,
    _: usize,
    resp: *mut c_void,
    _: usize,
) -> c_int {
    // SAFETY: the caller's CQ, and its context.
    let (device, handle) = unsafe { (device_of((*cq).context), (*cq).handle) };
    let mut kernel = breath(&device);
    let core = &mut kernel.core;
    let Some(ours) = core.cqs.get_mut(&handle) else {
        return libc::EINVAL;
    };
    let Some(driver) = ours.resize(&mut core.memory, entries.unsigned_abs()) else {
        return libc::EINVAL;
    };
    // SAFETY: the caller's room for rxe's answer.
    unsafe { answer::<uverbs::ResizeCqResp, rxe::CreateCqResp>(resp, driver) };
    kernel.breathe();
    0
}
