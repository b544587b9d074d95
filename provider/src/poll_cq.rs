// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause

//! `ibv_poll_cq`: kernel → ring → ledger → application.
//!
//! The kernel's CQE names its ledger entry by its cookie. The entry gives the caller's `wr_id` back
//! and, on an error, tells a send from a receive. Sends whose CQE came before their turn wait in
//! the ledger.
//!
//! A CQE that is not a success is a sign of death, which is dealt with as soon as the lock of the CQ
//! is released; what the library then flushes follows in the same poll, if there is room.

use std::ffi::c_int;
use std::mem::MaybeUninit;
use std::slice;

use rdma_core_sys::{ibv_cq, ibv_wc};

use crate::boundary::count;
use crate::cookie::Cookie;
use crate::cq::{CompletionQueue, Completions, Cq};
use crate::death::Cause;
use crate::driver::{CompletionRing, Driver};
use crate::lock::{Awaited, Kept, MutexGuard};
use crate::queue_pair::QueuePair;
use crate::quick_poll::{Left, Quick};
use crate::srq::SharedQueue;

/// `ibv_poll_cq`(3).
///
/// What most polls find is settled at once, by code that has nothing to unwind: nothing, or one success.
///
/// # Safety
///
/// As the man page asks.
pub(crate) unsafe extern "C" fn poll_cq<D: Driver>(
    cq: *mut ibv_cq,
    num_entries: c_int,
    wc: *mut ibv_wc,
) -> c_int {
    // SAFETY: a CQ of ours: libibverbs has found this function through it.
    let queue = unsafe { &*Cq::<D>::at(cq).queue };
    if num_entries <= 0 {
        return no_room(num_entries);
    }
    // SAFETY: the caller has room for so many there.
    unsafe {
        match queue.poll_quickly(num_entries == 1, wc) {
            Quick::Polled(count) => count,
            Quick::Successes(left, first) => poll_successes(left, num_entries, wc, first),
            Quick::Kept(left, first, kept) => poll_kept(left, num_entries, wc, first, kept),
            Quick::Unknown(left) => poll_left(left, num_entries, wc),
            Quick::Busy => poll_waiting(queue, num_entries, wc),
        }
    }
}

/// What [`poll_cq`] answers where nothing can be filled: `num_entries` may be 0.
#[cold]
fn no_room(num_entries: c_int) -> c_int {
    if num_entries == 0 { 0 } else { -libc::EINVAL }
}

/// As [`poll_cq`], where the next CQEs are successes, the cookie of the `first` of which is known.
///
/// Nothing is called before the end: what takes that is left to [`poll_rest`].
///
/// # Safety
///
/// There is room for `num_entries` at `wc`, which are more than 0.
#[inline(never)]
#[expect(
    improper_ctypes_definitions,
    reason = "no C calls it: it is a function that cannot unwind, so that its caller has nothing to do for that"
)]
unsafe extern "C" fn poll_successes<D: Driver>(
    left: Left<'_, D>,
    num_entries: c_int,
    wc: *mut ibv_wc,
    first: u64,
) -> c_int {
    let mut awaited = None;
    let (queue, mut state) = left.go_on();
    // SAFETY: the caller's promise.
    let wcs = unsafe { room_at(wc, num_entries) };
    let (all, mut room, mut first) = (wcs.len(), wcs, first);
    while awaited.is_none() {
        let run;
        (run, awaited) = queue.settle_quickly(&mut state, first, room);
        if run == room.len() && awaited.is_none() {
            state.ring.release();
            if !state.was_full() {
                return state.answer(num_entries);
            }
        }
        room = room.get_mut(run..).unwrap_or_default();
        // A run ends where a ring or a ledger does, too.
        match state.ring.front() {
            Some(front) if front.is_success && run > 0 => first = front.cookie,
            _ => break,
        }
    }
    let filled = all.wrapping_sub(room.len());
    // SAFETY: as above.
    unsafe { poll_rest(Left::new(queue, state), num_entries, wc, filled, awaited) }
}

/// As [`poll_successes`], where the lock of a queue was kept.
///
/// # Safety
///
/// As of that.
#[inline(never)]
#[expect(improper_ctypes_definitions, reason = "as above")]
unsafe extern "C" fn poll_kept<D: Driver>(
    left: Left<'_, D>,
    num_entries: c_int,
    wc: *mut ibv_wc,
    first: u64,
    kept: Kept<'_>,
) -> c_int {
    // SAFETY: the caller's promise.
    unsafe {
        match kept.give_back_at_once() {
            None => poll_successes(left, num_entries, wc, first),
            awaited => poll_rest(left, num_entries, wc, 0, awaited),
        }
    }
}

/// As [`poll_cq`], when so many are `filled`; who waits for a queue is woken first.
///
/// # Safety
///
/// As [`poll_successes`].
#[inline(never)]
#[expect(improper_ctypes_definitions, reason = "as above")]
unsafe extern "C" fn poll_rest<D: Driver>(
    left: Left<'_, D>,
    num_entries: c_int,
    wc: *mut ibv_wc,
    filled: usize,
    awaited: Option<Awaited<'_>>,
) -> c_int {
    drop(awaited);
    let (queue, state) = left.go_on();
    // SAFETY: the caller's promise.
    unsafe { poll_fully(queue, num_entries, wc, state, filled) }
}

/// As [`poll_cq`], whatever there is.
///
/// # Safety
///
/// As [`poll_successes`].
#[inline(never)]
#[expect(improper_ctypes_definitions, reason = "as above")]
unsafe extern "C" fn poll_left<D: Driver>(
    left: Left<'_, D>,
    num_entries: c_int,
    wc: *mut ibv_wc,
) -> c_int {
    let (queue, state) = left.go_on();
    // SAFETY: the caller's promise.
    unsafe { poll_fully(queue, num_entries, wc, state, 0) }
}

/// As [`poll_cq`], when the CQ is free.
///
/// # Safety
///
/// As [`poll_successes`].
#[cold]
#[inline(never)]
unsafe extern "C" fn poll_waiting<D: Driver>(
    queue: &CompletionQueue<D>,
    num_entries: c_int,
    wc: *mut ibv_wc,
) -> c_int {
    // SAFETY: the caller's promise.
    unsafe { poll_fully(queue, num_entries, wc, queue.lock(), 0) }
}

/// As [`poll_cq`], of a CQ that is locked.
///
/// # Safety
///
/// As [`poll_successes`]; `filled` of them have been filled.
unsafe fn poll_fully<D: Driver>(
    queue: &CompletionQueue<D>,
    num_entries: c_int,
    wc: *mut ibv_wc,
    state: MutexGuard<'_, Completions<D>>,
    filled: usize,
) -> c_int {
    count(|| {
        // SAFETY: the caller's promise.
        let wc = unsafe { room_at(wc, num_entries) };
        Ok(queue.poll_locked(state, wc, filled, GiveBack::AtOnce))
    })
}

/// # Safety
///
/// There is room for `num_entries` at `wc`, which are more than 0, and nobody else uses it.
unsafe fn room_at<'a>(wc: *mut ibv_wc, num_entries: c_int) -> &'a mut [MaybeUninit<ibv_wc>] {
    // CAST: u32 fits usize on every target that libibverbs supports.
    let room = num_entries.unsigned_abs() as usize;
    // SAFETY: the caller's promise.
    unsafe { slice::from_raw_parts_mut(wc.cast(), room) }
}

/// When the places of CQEs that were read go back to the kernel.
#[derive(Clone, Copy, PartialEq, Eq)]
enum GiveBack {
    AtOnce,
    /// When a batch ends.
    AtTheEnd,
}

impl<D: Driver> CompletionQueue<D> {
    /// Fills `wc`, if there is a completion; whether there was. Its place goes back when the batch ends.
    pub(crate) fn poll_in_batch(&self, wc: &mut MaybeUninit<ibv_wc>) -> bool {
        let state = self.lock();
        self.poll_locked(state, slice::from_mut(wc), 0, GiveBack::AtTheEnd) > 0
    }

    /// Fills `wc` as far as there are completions, in order, of a CQ that is locked; how many are filled then.
    #[inline(always)]
    fn poll_locked<'s>(
        &'s self,
        mut state: MutexGuard<'s, Completions<D>>,
        wc: &mut [MaybeUninit<ibv_wc>],
        filled: usize,
        give_back: GiveBack,
    ) -> usize {
        let filled = self.fill(&mut state, wc, filled);
        if give_back == GiveBack::AtOnce {
            state.ring.release();
        }
        if state.has_work() {
            return self.work(state, wc, filled);
        }
        state.note_quiet();
        filled
    }

    /// Does what the poll has found that has to be done, and goes on filling. A batch, too, gives back what was read: in
    /// a full CQ there is no room for what the kernel flushes now, nor for what wakes the next to sleep.
    #[cold]
    #[inline(never)]
    fn work<'s>(
        &'s self,
        mut state: MutexGuard<'s, Completions<D>>,
        wc: &mut [MaybeUninit<ibv_wc>],
        mut filled: usize,
    ) -> usize {
        let mut has_overrun = false;
        loop {
            state.ring.release();
            // Once: by what comes meanwhile it may be full again.
            if !has_overrun && state.is_found_full() {
                drop(state);
                self.overrun(Cause::Overrun);
                has_overrun = true;
            } else {
                let Some(chore) = state.chores.pop() else {
                    state.note_quiet();
                    return filled;
                };
                drop(state);
                chore.run();
            }
            state = self.lock();
            filled = self.fill(&mut state, wc, filled);
        }
    }

    /// Goes on filling, from CQEs and from what is due without one.
    #[inline(always)]
    fn fill(
        &self,
        state: &mut Completions<D>,
        wc: &mut [MaybeUninit<ibv_wc>],
        mut filled: usize,
    ) -> usize {
        if state.has_read_ahead {
            filled = state.ahead.deliver(wc, filled);
            state.has_read_ahead = !state.ahead.is_empty();
        }
        if !state.due.is_empty() {
            filled = self.deliver_due(state, wc, filled);
        }
        while filled < wc.len() {
            if state.early.is_none() {
                let Some(front) = state.ring.front() else {
                    if state.moved.is_some() && state.follow(&self.context) {
                        continue;
                    }
                    if state.dying.is_empty() {
                        self.found_nothing(state);
                        return filled;
                    }
                    self.settle_quiet(state);
                    return self.deliver_due(state, wc, filled);
                };
                if front.is_success || front.is_flush {
                    let room = wc.get_mut(filled..).unwrap_or_default();
                    let run = self.settle_run(state, front, room);
                    if run > 0 {
                        filled = filled.wrapping_add(run);
                        continue;
                    }
                }
            }
            filled = self.settle_next(state, wc, filled);
        }
        filled
    }

    /// The QP that a cookie names, if it is one whose completions come here. The CQ is locked.
    ///
    /// That keeps it: a QP leaves the table under this CQ's lock before it is freed.
    pub(crate) fn qp(&self, cookie: Cookie) -> Option<&QueuePair<D>> {
        let at = self
            .context
            .owners
            .find(cookie.owner, cookie.queue, self.key())?;
        // SAFETY: published for this CQ by `qp::create`, so it is a `QueuePair<D>`; alive, see above.
        Some(unsafe { at.cast().as_ref() })
    }

    /// The SRQ that a cookie names. The CQ is locked.
    ///
    /// That keeps it: an SRQ outlives its QPs, and a QP voids its unread CQEs under this CQ's lock
    /// before it is freed.
    pub(crate) fn srq(&self, cookie: Cookie) -> Option<&SharedQueue<D>> {
        let at = self
            .context
            .owners
            .find(cookie.owner, cookie.queue, self.key())?;
        // SAFETY: published as an SRQ by `srq::create`, so it is a `SharedQueue<D>`; alive, see
        // above.
        Some(unsafe { at.cast().as_ref() })
    }
}
