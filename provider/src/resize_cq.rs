// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause

//! `ibv_resize_cq`.
//!
//! rxe's kernel moves to a new ring and takes the CQEs along that were not consumed (linux 6.1, 6.12
//! `rxe_queue.c: rxe_queue_resize`). Whatever else is due on a CQ, who waits for it and what is known of its
//! QPs is in no ring and stays as it is.
//!
//! siw's kernel has no such command, and a ring that it writes cannot be another one. So a CQ of siw
//! takes any size that its ring has room for, which is more than it was created for, and no larger one.

use std::ffi::c_int;

use kernel_abi::uverbs;
use rdma_core_sys::ibv_cq;

use crate::boundary::status;
use crate::context::Context;
use crate::cookie::Cookie;
use crate::cq::{Completions, Cq};
use crate::driver::{CompletionRing, Driver, holds};
use crate::errno::{Errno, Result};
use crate::overrun::room;

/// `ibv_resize_cq`(3).
///
/// # Errors
///
/// `EINVAL` for a size that is not positive, exceeds the device's `max_cqe`, or is below the number of unread
/// CQEs; `EOPNOTSUPP` for one that a CQ of siw has no room for; `ENOMEM`, and what `mmap(2)` says. The CQ
/// is then as it was.
///
/// # Safety
///
/// As the man page asks.
pub(crate) unsafe extern "C" fn resize_cq<D: Driver>(cq: *mut ibv_cq, cqe: c_int) -> c_int {
    status(|| {
        // SAFETY: a CQ of ours.
        let ours = unsafe { Cq::<D>::of(cq) }.ok_or(Errno::EINVAL)?;
        let asked = u32::try_from(cqe).map_err(|_| Errno::EINVAL)?;
        if asked == 0 || cqe > D::MAX_CQE {
            return Err(Errno::EINVAL);
        }
        let mut state = ours.queue.lock();
        // The kernel compares with all of its room.
        if state.unread() > asked {
            return Err(Errno::EINVAL);
        }
        // SAFETY: libibverbs' half.
        let before = unsafe { (*cq).cqe };
        let resized = if D::RESIZES_CQS {
            ours.replace_ring(&mut state, cqe)
        } else {
            holds(state.ring.capacity(), room::<D>(cqe).unsigned_abs())
                .map(drop)
                .map_err(|_| Errno::EOPNOTSUPP)
        };
        if resized.is_ok() {
            state.asked = asked;
        }
        // SAFETY: as above. The command has noted all of the kernel's room there.
        unsafe { (*cq).cqe = if resized.is_ok() { cqe } else { before } };
        resized
    })
}

impl<D: Driver> Cq<D> {
    /// Has the kernel make a ring for `cqe` CQEs of the application's, and maps it. `state` is this CQ's.
    ///
    /// When the kernel answers it has left the old ring. If the new one cannot be mapped, it is sent back to a
    /// ring of the old size; if that cannot be mapped either, polls will try again
    /// ([`Completions::follow`]).
    fn replace_ring(&self, state: &mut Completions<D>, cqe: c_int) -> Result<()> {
        let old = c_int::try_from(state.ring.capacity()).map_err(|_| Errno::EIO)?;
        // The kernel takes along what it was not told of.
        state.ring.release();
        let answer = self.resize_kernel(room::<D>(cqe))?;
        let mapped = D::map_cq(self.queue.context.cmd_fd, &answer)
            .and_then(|ring| holds(ring.capacity(), cqe.unsigned_abs()).map(|_| ring));
        state.moved = Some(answer);
        match mapped {
            Ok(ring) => {
                state.go_on_with(ring);
                Ok(())
            }
            Err(errno) => {
                if let Ok(back) = self.resize_kernel(old) {
                    state.moved = Some(back);
                }
                state.follow(&self.queue.context);
                Err(errno)
            }
        }
    }

    /// `ibv_resize_cq`(3) as the kernel does it: where the new ring is. The CQ is locked.
    ///
    /// # Errors
    ///
    /// `EINVAL` if more CQEs are unread; `ENOMEM`.
    fn resize_kernel(&self, room: c_int) -> Result<D::CqAnswer> {
        let mut request = uverbs::Request::<uverbs::ResizeCq>::zeroed();
        let mut answer = uverbs::Response::<uverbs::ResizeCqResp, D::CqAnswer>::zeroed();
        // SAFETY: libibverbs' half of a living CQ; request and answer are as large as their sizes say.
        Errno::check(unsafe {
            (self.queue.context.library.calls.ibv_cmd_resize_cq)(
                self.base(),
                room,
                (&raw mut request).cast(),
                size_of_val(&request),
                (&raw mut answer).cast(),
                size_of_val(&answer),
            )
        })?;
        Ok(answer.driver)
    }
}

impl<D: Driver> Completions<D> {
    /// How many CQEs are the application's to be read.
    fn unread(&self) -> u32 {
        let read = u32::from(self.early.is_some());
        let mut unread = self.ahead.len().wrapping_add(read);
        for ahead in 0..self.ring.capacity() {
            let Some(cqe) = self.ring.peek(ahead) else {
                break;
            };
            unread = unread.wrapping_add(Cookie::decode(cqe.cookie).is_some().into());
        }
        unread
    }

    /// Goes on to the ring that the kernel has moved to, if that is still to be mapped; false if there
    /// is none, or no way to it.
    ///
    /// The old ring was read empty, or will be read no more: its CQEs are in the new one too, and whose
    /// turn has passed is recognised by its cookie.
    #[cold]
    #[inline(never)]
    pub(crate) fn follow(&mut self, context: &Context) -> bool {
        let Some(answer) = &self.moved else {
            return false;
        };
        let Ok(ring) = D::map_cq(context.cmd_fd, answer) else {
            return false;
        };
        self.go_on_with(ring);
        true
    }

    fn go_on_with(&mut self, ring: D::Completions) {
        let last = self.ring.capacity().wrapping_sub(1);
        self.left_full |= self.ring.was_full() || self.ring.peek(last).is_some();
        self.ring = ring;
        self.moved = None;
    }
}
