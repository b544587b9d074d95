// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause

//! `ibv_start_poll`, `ibv_next_poll`, `ibv_end_poll`: [`poll_cq`](crate::poll_cq) for one completion at a
//! time, of which [`read_wc`](crate::read_wc) then reads the fields.
//!
//! What becomes of a CQE, and what of a dead QP is due, is decided where `ibv_poll_cq` does it. The application comes
//! to a copy, mostly to one of several that were [read ahead](crate::read_ahead); the places of all go back to the
//! kernel when the batch ends.

use std::cell::UnsafeCell;
use std::ffi::c_int;
use std::fmt;
use std::mem::MaybeUninit;
use std::ptr;
use std::sync::Arc;

use rdma_core_sys::{
    IBV_WC_EX_WITH_COMPLETION_TIMESTAMP, IBV_WC_EX_WITH_COMPLETION_TIMESTAMP_WALLCLOCK,
    IBV_WC_SUCCESS, ibv_cq_ex, ibv_poll_cq_attr, ibv_wc, ibv_wc_status,
};

use crate::boundary::{guard, status};
use crate::cq::Cq;
use crate::death::Cause;
use crate::driver::{CompletionRing, Driver};
use crate::errno::{Errno, Result};
use crate::query_rt_values::{raw_clock, wallclock};
use crate::read_ahead::ReadAhead;
use crate::turn::Turn;

const CLOCKS: u32 =
    IBV_WC_EX_WITH_COMPLETION_TIMESTAMP | IBV_WC_EX_WITH_COMPLETION_TIMESTAMP_WALLCLOCK;

/// What an extended CQ needs beside an ordinary one.
pub(crate) struct Batch {
    /// Taken from `ibv_start_poll` to `ibv_end_poll`.
    turn: Turn,
    /// One thread alone polls: nobody takes turns.
    single_threaded: bool,
    /// `enum ibv_create_cq_wc_flags`: what the application wants to read.
    wc_flags: u64,
    /// The CQ's.
    ahead: Arc<ReadAhead>,
    /// Used by whoever has the turn.
    current: UnsafeCell<Current>,
}

/// The completion that the application has come to.
///
/// # Invariants
///
/// `at` points to one, of an extended CQ.
pub(crate) struct Current {
    at: *const ibv_wc,
    /// Where one is that was not read ahead.
    own: ibv_wc,
    /// When it came to it: the device's clock, if that was wanted.
    pub(crate) timestamp: u64,
    /// As well, in nanoseconds since the epoch.
    pub(crate) wallclock_ns: u64,
}

impl Current {
    #[inline(always)]
    pub(crate) fn wc(&self) -> &ibv_wc {
        // SAFETY: it points to one (invariant), which stays as it is until the application goes on.
        unsafe { &*self.at }
    }
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
    /// That of an ordinary CQ, which has none.
    pub(crate) fn none(ahead: Arc<ReadAhead>) -> Self {
        Self {
            turn: Turn::default(),
            single_threaded: false,
            wc_flags: 0,
            ahead,
            current: UnsafeCell::new(Current {
                at: ptr::null(),
                own: ibv_wc::default(),
                timestamp: 0,
                wallclock_ns: 0,
            }),
        }
    }

    /// Makes it that of an extended CQ, of which `wc_flags` are to be read. It stays in its place.
    pub(crate) fn begin_with(&mut self, wc_flags: u64, single_threaded: bool) {
        self.single_threaded = single_threaded;
        self.wc_flags = wc_flags;
        self.ahead.make_room();
        let current = self.current.get_mut();
        current.at = &raw const current.own;
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

    /// Whether a clock is among what the application wants to read.
    pub(crate) fn is_timed(&self) -> bool {
        self.wc_flags & u64::from(CLOCKS) != 0
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
    fn note_time(&self, current: &mut Current) {
        if self.is_timed() {
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
            self.note_overrun();
        }
    }

    #[cold]
    #[inline(never)]
    fn note_overrun(&self) {
        // `ibv_end_poll` has nobody to tell of a panic.
        let _ = guard(|| {
            self.queue.overrun(Cause::Overrun);
            Ok(())
        });
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
        // SAFETY: just filled; the caller has the turn, and goes on.
        unsafe {
            let own = &raw mut (*self.batch.current.get()).own;
            own.write(wc.assume_init());
            let current = self.show(own, (*own).status);
            self.batch.note_time(current);
        }
        Ok(())
    }

    /// Lets the application read a completion, which has this `status`, where it is.
    ///
    /// # Safety
    ///
    /// The caller has the turn. The completion is there until it goes on.
    #[inline(always)]
    #[expect(clippy::mut_from_ref, reason = "the turn stands for it")]
    unsafe fn show(&self, wc: *const ibv_wc, status: ibv_wc_status) -> &mut Current {
        let base = self.base().cast::<ibv_cq_ex>();
        // SAFETY: the caller's promise; libibverbs' half has room for an extended CQ.
        let current = unsafe {
            (*base).wr_id = (*wc).wr_id;
            (*base).status = status;
            &mut *self.batch.current.get()
        };
        current.at = wc;
        current
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
    // SAFETY: a CQ of ours; attributes of the caller's, or NULL.
    let (cq, attr) = unsafe { (Cq::<D>::of_ex(cq), attr.as_ref()) };
    match cq {
        Some(cq) if attr.is_none_or(|attr| attr.comp_mask == 0) => {
            cq.batch.begin();
            // SAFETY: the turn was just taken.
            match unsafe { come_to_any(cq) } {
                0 => 0,
                errno => {
                    // What was passed over on the way goes back: `ibv_end_poll` is not called.
                    cq.end_batch();
                    errno
                }
            }
        }
        _ => refuse(Errno::EINVAL),
    }
}

/// `ibv_next_poll`(3): goes on to the next completion, of a CQ that is timed or not.
///
/// # Errors
///
/// `ENOENT` if there is none. The batch is still to be ended.
///
/// # Safety
///
/// As the man page asks: in a batch.
pub(crate) unsafe extern "C" fn next_poll<D: Driver, const IS_TIMED: bool>(
    cq: *mut ibv_cq_ex,
) -> c_int {
    // SAFETY: a CQ of ours, in which libibverbs has found this function. The caller has the turn.
    unsafe {
        let cq = Cq::<D>::at(cq.cast());
        match cq.batch.ahead.next() {
            // Nothing else is read ahead.
            Some(wc) => {
                let current = cq.show(wc, IBV_WC_SUCCESS);
                if IS_TIMED {
                    cq.batch.read_clocks(current);
                }
                0
            }
            None => come_to_any(cq),
        }
    }
}

/// Comes to the next completion where none was read ahead, if there is one: 0 or `ENOENT`. It cannot unwind: its
/// callers have nothing to do for that.
///
/// # Safety
///
/// The caller has the turn.
#[inline(never)]
unsafe extern "C" fn come_to_any<D: Driver>(cq: &Cq<D>) -> c_int {
    // SAFETY: the caller's promise; the application goes on.
    unsafe {
        match cq.queue.come_to_run(&cq.batch.ahead) {
            Some(wc) => {
                let current = cq.show(wc, IBV_WC_SUCCESS);
                cq.batch.note_time(current);
                0
            }
            None => come_to_rest(cq),
        }
    }
}

/// As [`come_to_any`], where it is not the first of a run.
///
/// # Safety
///
/// As above.
#[cold]
#[inline(never)]
unsafe extern "C" fn come_to_rest<D: Driver>(cq: &Cq<D>) -> c_int {
    // SAFETY: the caller's promise.
    status(|| unsafe { cq.come_to_next() })
}

#[cold]
#[inline(never)]
fn refuse(errno: Errno) -> c_int {
    status(|| Err(errno))
}

/// `ibv_end_poll`(3): ends the batch, and gives the places of what was polled back to the kernel.
///
/// # Safety
///
/// As the man page asks: in a batch.
pub(crate) unsafe extern "C" fn end_poll<D: Driver>(cq: *mut ibv_cq_ex) {
    // SAFETY: a CQ of ours, in which libibverbs has found this function.
    unsafe { Cq::<D>::at(cq.cast()) }.end_batch();
}
