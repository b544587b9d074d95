// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause

//! `ibv_start_poll`, `ibv_next_poll`, `ibv_end_poll`: [`poll_cq`](crate::poll_cq) for one completion at a
//! time, of which [`read_wc`](crate::read_wc) then reads the fields.
//!
//! What becomes of a CQE, and what of a dead QP is due, is decided where `ibv_poll_cq` does it. A
//! completion is copied out of the ring when the application comes to it; its place goes back to the
//! kernel when the batch ends.

use std::cell::UnsafeCell;
use std::ffi::c_int;
use std::fmt;
use std::mem::MaybeUninit;
use std::ptr;

use rdma_core_sys::{
    IBV_WC_EX_WITH_COMPLETION_TIMESTAMP, IBV_WC_EX_WITH_COMPLETION_TIMESTAMP_WALLCLOCK, ibv_cq_ex,
    ibv_poll_cq_attr, ibv_wc,
};

use crate::boundary::{guard, status};
use crate::cq::Cq;
use crate::death::Cause;
use crate::driver::{CompletionRing, Driver};
use crate::errno::{Errno, Result};
use crate::query_rt_values::{raw_clock, wallclock};
use crate::turn::Turn;

/// What an extended CQ needs beside an ordinary one.
#[derive(Default)]
pub(crate) struct Batch {
    /// Taken from `ibv_start_poll` to `ibv_end_poll`.
    turn: Turn,
    /// One thread alone polls: nobody takes turns.
    single_threaded: bool,
    /// `enum ibv_create_cq_wc_flags`: what the application wants to read.
    wc_flags: u64,
    /// Used by whoever has the turn.
    current: UnsafeCell<Current>,
}

/// The completion that the application has come to.
#[derive(Clone, Copy, Default)]
pub(crate) struct Current {
    pub(crate) wc: ibv_wc,
    /// When it came to it: the device's clock, if that was wanted.
    pub(crate) timestamp: u64,
    /// As well, in nanoseconds since the epoch.
    pub(crate) wallclock_ns: u64,
}

impl fmt::Debug for Batch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Batch")
            .field("turn", &self.turn)
            .field("single_threaded", &self.single_threaded)
            .field("wc_flags", &self.wc_flags)
            .finish_non_exhaustive()
    }
}

impl Batch {
    /// That of a CQ of which `wc_flags` are to be read.
    pub(crate) fn new(wc_flags: u64, single_threaded: bool) -> Self {
        Self {
            single_threaded,
            wc_flags,
            ..Self::default()
        }
    }

    /// What the readers read.
    ///
    /// # Safety
    ///
    /// The caller is between `ibv_start_poll` and `ibv_end_poll`, and calls neither these nor
    /// `ibv_next_poll` while it uses the reference.
    pub(crate) unsafe fn current(&self) -> &Current {
        // SAFETY: written by whoever has the turn, which the caller has.
        unsafe { &*self.current.get() }
    }

    fn begin(&self) {
        if !self.single_threaded {
            self.turn.take();
        }
    }

    fn end(&self) {
        if !self.single_threaded {
            self.turn.give_up();
        }
    }

    fn wants(&self, flag: u32) -> bool {
        self.wc_flags & u64::from(flag) != 0
    }
}

impl<D: Driver> Cq<D> {
    /// The CQ behind libibverbs' extended one.
    ///
    /// # Safety
    ///
    /// As [`Cq::of`].
    pub(crate) unsafe fn of_ex<'a>(cq: *mut ibv_cq_ex) -> Option<&'a Self> {
        // SAFETY: an extended CQ begins with the ordinary one; the caller's promise.
        unsafe { Self::of(cq.cast()) }
    }

    /// Gives the places of what was polled back to the kernel, and the turn up.
    fn end_batch(&self) {
        let mut state = self.queue.lock();
        state.ring.release();
        let has_overrun = state.is_found_full();
        drop(state);
        self.batch.end();
        if has_overrun {
            self.queue.overrun(Cause::Overrun);
        }
    }

    /// Comes to the next completion.
    ///
    /// # Errors
    ///
    /// `ENOENT` if there is none.
    ///
    /// # Safety
    ///
    /// The caller has the turn.
    unsafe fn come_to_next(&self) -> Result<()> {
        // SAFETY: the caller has the turn.
        let current = unsafe { &mut *self.batch.current.get() };
        let wc = ptr::from_mut(&mut current.wc).cast::<MaybeUninit<ibv_wc>>();
        // SAFETY: an `ibv_wc`, and nothing but one is written there.
        if !self.queue.poll_in_batch(unsafe { &mut *wc }) {
            return Err(Errno::ENOENT);
        }
        if self.batch.wants(IBV_WC_EX_WITH_COMPLETION_TIMESTAMP) {
            current.timestamp = raw_clock();
        }
        if self
            .batch
            .wants(IBV_WC_EX_WITH_COMPLETION_TIMESTAMP_WALLCLOCK)
        {
            current.wallclock_ns = wallclock();
        }
        let base = self.base().cast::<ibv_cq_ex>();
        // SAFETY: the caller has the turn; libibverbs' half has room for an extended CQ.
        unsafe {
            (*base).wr_id = current.wc.wr_id;
            (*base).status = current.wc.status;
        }
        Ok(())
    }
}

/// `ibv_start_poll`(3): begins a batch with the first completion; waits while another thread is in one.
///
/// # Errors
///
/// `ENOENT` if there is no completion, `EINVAL` for attributes that do not exist. There is no batch to end
/// then.
///
/// # Safety
///
/// As the man page asks.
pub(crate) unsafe extern "C" fn start_poll<D: Driver>(
    cq: *mut ibv_cq_ex,
    attr: *mut ibv_poll_cq_attr,
) -> c_int {
    status(|| {
        // SAFETY: a CQ of ours.
        let cq = unsafe { Cq::<D>::of_ex(cq) }.ok_or(Errno::EINVAL)?;
        // SAFETY: NULL or the caller's.
        if unsafe { attr.as_ref() }.is_some_and(|attr| attr.comp_mask != 0) {
            return Err(Errno::EINVAL);
        }
        cq.batch.begin();
        // SAFETY: just taken.
        let first = guard(|| unsafe { cq.come_to_next() });
        // What was passed over on the way goes back: `ibv_end_poll` is not called.
        first.inspect_err(|_| cq.end_batch())
    })
}

/// `ibv_next_poll`(3): goes on to the next completion.
///
/// # Errors
///
/// `ENOENT` if there is none. The batch is still to be ended.
///
/// # Safety
///
/// As the man page asks: in a batch.
pub(crate) unsafe extern "C" fn next_poll<D: Driver>(cq: *mut ibv_cq_ex) -> c_int {
    status(|| {
        // SAFETY: a CQ of ours.
        let cq = unsafe { Cq::<D>::of_ex(cq) }.ok_or(Errno::EINVAL)?;
        // SAFETY: the caller is in a batch.
        unsafe { cq.come_to_next() }
    })
}

/// `ibv_end_poll`(3): ends the batch, and gives the places of what was polled back to the kernel.
///
/// # Safety
///
/// As the man page asks: in a batch.
pub(crate) unsafe extern "C" fn end_poll<D: Driver>(cq: *mut ibv_cq_ex) {
    status(|| {
        // SAFETY: a CQ of ours.
        let cq = unsafe { Cq::<D>::of_ex(cq) }.ok_or(Errno::EINVAL)?;
        cq.end_batch();
        Ok(())
    });
}
