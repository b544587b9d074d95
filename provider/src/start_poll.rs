// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause

//! `ibv_start_poll`, `ibv_next_poll`, `ibv_end_poll`: [`poll_cq`](crate::poll_cq) for one completion at a
//! time, of which [`read_wc`](crate::read_wc) then reads the fields.
//!
//! What becomes of a CQE, and what of a dead QP is due, is decided where `ibv_poll_cq` does it. The application comes
//! to a copy, mostly one of several that were [read ahead](crate::read_ahead); the places of all go back to the kernel
//! when the batch ends.

use std::cell::UnsafeCell;
use std::ffi::c_int;
use std::fmt;
use std::mem::MaybeUninit;

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

const CLOCKS: u32 =
    IBV_WC_EX_WITH_COMPLETION_TIMESTAMP | IBV_WC_EX_WITH_COMPLETION_TIMESTAMP_WALLCLOCK;

/// What an extended CQ needs beside an ordinary one.
#[derive(Default)]
pub(crate) struct Batch {
    /// Taken from `ibv_start_poll` to `ibv_end_poll`.
    turn: Turn,
    /// One thread alone polls: nobody takes turns.
    single_threaded: bool,
    /// `enum ibv_create_cq_wc_flags`: what the application wants to read.
    wc_flags: u64,
    /// A clock is among it.
    is_timed: bool,
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
            is_timed: wc_flags & u64::from(CLOCKS) != 0,
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

    #[inline(always)]
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

    /// Notes when the application has come to the current completion, if it wants to know.
    #[inline(always)]
    fn note_time(&self, current: &mut Current) {
        if self.is_timed {
            self.read_clocks(current);
        }
    }

    #[inline(never)]
    fn read_clocks(&self, current: &mut Current) {
        let wants = |flag: u32| self.wc_flags & u64::from(flag) != 0;
        if wants(IBV_WC_EX_WITH_COMPLETION_TIMESTAMP) {
            current.timestamp = raw_clock();
        }
        if wants(IBV_WC_EX_WITH_COMPLETION_TIMESTAMP_WALLCLOCK) {
            current.wallclock_ns = wallclock();
        }
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

    /// Comes to the next completion, if it was read ahead and the CQ is free; whether it has.
    ///
    /// # Safety
    ///
    /// The caller has the turn.
    #[inline(always)]
    unsafe fn come_to_read_ahead(&self) -> bool {
        let Some(mut state) = self.queue.try_lock() else {
            return false;
        };
        let Some(wc) = state.ahead.next() else {
            return false;
        };
        // SAFETY: the caller has the turn.
        let current = unsafe { self.show(wc) };
        drop(state);
        self.batch.note_time(current);
        true
    }

    /// Comes to the next completion, whatever it is.
    ///
    /// # Errors
    ///
    /// `ENOENT` if there is none.
    ///
    /// # Safety
    ///
    /// The caller has the turn.
    unsafe fn come_to_next(&self) -> Result<()> {
        let mut wc = MaybeUninit::uninit();
        if !self.queue.poll_in_batch(&mut wc) {
            return Err(Errno::ENOENT);
        }
        // SAFETY: just filled; the caller has the turn.
        let current = unsafe { self.show(wc.assume_init_ref()) };
        self.batch.note_time(current);
        Ok(())
    }

    /// Lets the application read a completion; the copy that it reads.
    ///
    /// # Safety
    ///
    /// The caller has the turn, and does not use an earlier copy.
    #[inline(always)]
    #[expect(clippy::mut_from_ref, reason = "the turn stands for it")]
    unsafe fn show(&self, wc: &ibv_wc) -> &mut Current {
        let base = self.base().cast::<ibv_cq_ex>();
        // SAFETY: the caller has the turn; libibverbs' half has room for an extended CQ.
        unsafe {
            (*base).wr_id = wc.wr_id;
            (*base).status = wc.status;
            let current = &mut *self.batch.current.get();
            current.wc = *wc;
            current
        }
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
    // SAFETY: a CQ of ours.
    let Some(cq) = (unsafe { Cq::<D>::of_ex(cq) }) else {
        return Errno::EINVAL.get();
    };
    // SAFETY: the caller is in a batch.
    if unsafe { cq.come_to_read_ahead() } {
        return 0;
    }
    // SAFETY: as above.
    unsafe { go_on(cq) }
}

/// As [`next_poll`], where nothing was read ahead. It cannot unwind: its caller has nothing to do for that.
///
/// # Safety
///
/// The caller has the turn.
#[inline(never)]
unsafe extern "C" fn go_on<D: Driver>(cq: &Cq<D>) -> c_int {
    // SAFETY: the caller's promise.
    status(|| unsafe { cq.come_to_next() })
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
