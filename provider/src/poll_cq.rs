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
use std::sync::atomic::Ordering;

use rdma_core_sys::{IBV_WC_RECV, ibv_cq, ibv_wc};

use crate::boundary::count;
use crate::cookie::{Cookie, Queue};
use crate::cq::{CompletionQueue, Completions, Cq};
use crate::death::Cause;
use crate::driver::{CompletionRing, Driver, Front};
use crate::errno::Errno;
use crate::ledger::Entry;
use crate::lock::{MutexGuard, lock};
use crate::met::Met;
use crate::queue_pair::QueuePair;
use crate::quick_poll::Quick;
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
    // SAFETY: a CQ of ours.
    let ours = unsafe { Cq::<D>::of(cq) };
    if let Some(cq) = ours
        && num_entries > 0
        && !wc.is_null()
    {
        // SAFETY: the caller has room for one at least.
        let first = unsafe { &mut *wc.cast::<MaybeUninit<ibv_wc>>() };
        return match cq.queue.poll_quickly(first, num_entries == 1) {
            Quick::Nothing => 0,
            Quick::One => 1,
            // SAFETY: the caller has room for `num_entries` of them there.
            Quick::Unknown(state, filled) => unsafe {
                poll_fully(cq, state, num_entries, wc, filled)
            },
        };
    }
    if ours.is_some() && num_entries == 0 {
        0
    } else {
        Errno::EINVAL.get().wrapping_neg()
    }
}

/// As [`poll_cq`], whatever there is; `state` is that of the CQ, if it was free.
///
/// # Safety
///
/// There is room for `num_entries` at `wc`, which are more than 0; `filled` of them have been filled.
#[inline(never)]
#[expect(
    improper_ctypes_definitions,
    reason = "no C calls it: it is a function that cannot unwind, so that its caller has nothing to do for that"
)]
unsafe extern "C" fn poll_fully<D: Driver>(
    cq: &Cq<D>,
    state: Option<MutexGuard<'_, Completions<D>>>,
    num_entries: c_int,
    wc: *mut ibv_wc,
    filled: usize,
) -> c_int {
    count(|| {
        let room = usize::try_from(num_entries).map_err(|_| Errno::EINVAL)?;
        // SAFETY: the caller's promise.
        let wc = unsafe { slice::from_raw_parts_mut(wc.cast::<MaybeUninit<ibv_wc>>(), room) };
        let state = state.unwrap_or_else(|| cq.queue.lock());
        Ok(cq.queue.poll_locked(state, wc, filled, GiveBack::AtOnce))
    })
}

/// When the places of CQEs that were read go back to the kernel.
#[derive(Clone, Copy, PartialEq, Eq)]
enum GiveBack {
    AtOnce,
    /// When a batch ends.
    AtTheEnd,
}

impl<D: Driver> CompletionQueue<D> {
    /// Fills `wc`, if there is a completion; whether there was. Its place goes back when the batch ends, and more
    /// may have been [read ahead](crate::read_ahead).
    pub(crate) fn poll_in_batch(&self, wc: &mut MaybeUninit<ibv_wc>) -> bool {
        let mut state = self.lock();
        self.read_ahead(&mut state);
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
            return self.work(state, wc, filled, give_back);
        }
        filled
    }

    /// Does what the poll has found that has to be done, and goes on filling.
    #[cold]
    #[inline(never)]
    fn work<'s>(
        &'s self,
        mut state: MutexGuard<'s, Completions<D>>,
        wc: &mut [MaybeUninit<ibv_wc>],
        mut filled: usize,
        give_back: GiveBack,
    ) -> usize {
        let mut has_overrun = false;
        loop {
            // In a batch, which gives nothing back before its end, it stays full.
            if !has_overrun && state.is_found_full() {
                drop(state);
                self.overrun(Cause::Overrun);
                has_overrun = true;
            } else {
                let Some(chore) = state.chores.pop() else {
                    return filled;
                };
                drop(state);
                chore.run();
            }
            state = self.lock();
            filled = self.fill(&mut state, wc, filled);
            if give_back == GiveBack::AtOnce {
                state.ring.release();
            }
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
        if !state.ahead.is_empty() {
            filled = state.ahead.deliver(wc, filled);
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
                    let run = self.settle_run(state, front, wc, filled);
                    if run > filled {
                        filled = run;
                        continue;
                    }
                }
            }
            filled = self.settle_next(state, wc, filled);
        }
        filled
    }

    /// Settles CQEs of one queue that are nothing but successes, or flushes where the death is known, up to
    /// the first that is something else; how many are filled then.
    #[inline(always)]
    fn settle_run(
        &self,
        state: &mut Completions<D>,
        front: Front,
        wc: &mut [MaybeUninit<ibv_wc>],
        filled: usize,
    ) -> usize {
        let queue = match Cookie::queue(front.cookie) {
            Some(queue @ (Queue::Send | Queue::Recv)) => queue,
            Some(Queue::Shared) if front.is_success => {
                return self.settle_shared_run(state, front, wc, filled);
            }
            Some(Queue::Shared) => return filled,
            None => return filled,
        };
        if front.is_flush {
            return self.settle_flushes(state, front.cookie, queue, wc, filled);
        }
        let Some(room) = wc.get_mut(filled..) else {
            return filled;
        };
        filled.wrapping_add(self.settle_successes(state, front.cookie, queue, room))
    }

    /// As [`settle_run`](Self::settle_run), of successes of a QP's own queue, from the `first` on; how many.
    #[inline(always)]
    pub(crate) fn settle_successes(
        &self,
        state: &mut Completions<D>,
        first: u64,
        queue: Queue,
        room: &mut [MaybeUninit<ibv_wc>],
    ) -> usize {
        let Some(pair) = self.well_known(state, first) else {
            return 0;
        };
        let (ring, name) = (&mut state.ring, Cookie::entry(first));
        let count = if queue == Queue::Send {
            let mut send = lock(&pair.send);
            let entries = send.ledger.due_from(name);
            let count = ring.take_run(first, entries, Entry::due_wr_id, room);
            send.ledger.succeed(count);
            count
        } else {
            let Some(mut recv) = pair.own_recv() else {
                return 0;
            };
            let wr_ids = recv.ledger.due_from(name);
            let count = ring.take_run(first, wr_ids, |wr_id| Some(*wr_id), room);
            recv.ledger.succeed(count);
            count
        };
        // CAST: u32 fits usize on every target that libibverbs supports.
        count as usize
    }

    /// As [`settle_run`](Self::settle_run), of flushes.
    #[inline(never)]
    fn settle_flushes(
        &self,
        state: &mut Completions<D>,
        first: u64,
        queue: Queue,
        wc: &mut [MaybeUninit<ibv_wc>],
        filled: usize,
    ) -> usize {
        let Some(pair) = self.well_known(state, first) else {
            return filled;
        };
        let Some(room) = wc.get_mut(filled..) else {
            return filled;
        };
        let (ring, name) = (&mut state.ring, Cookie::entry(first));
        let count = if queue == Queue::Send {
            let mut send = lock(&pair.send);
            let entries = send.ledger.flushed_from(name);
            let count = ring.take_flushes(first, entries, Entry::wr_id_and_opcode, room);
            send.ledger.pass_flushed(count);
            count
        } else {
            let Some(mut recv) = pair.own_recv() else {
                return filled;
            };
            let wr_ids = recv.ledger.flushed_from(name);
            let count = ring.take_flushes(first, wr_ids, |wr_id| (*wr_id, IBV_WC_RECV), room);
            recv.ledger.pass_flushed(count);
            count
        };
        // CAST: as above.
        filled.wrapping_add(count as usize)
    }

    /// As [`settle_run`](Self::settle_run), of receives of an SRQ.
    #[inline(always)]
    fn settle_shared_run(
        &self,
        state: &mut Completions<D>,
        front: Front,
        wc: &mut [MaybeUninit<ibv_wc>],
        filled: usize,
    ) -> usize {
        let srq = Cookie::decode(front.cookie).and_then(|cookie| self.srq(cookie));
        // Relaxed: see `QueuePair::begin_claim`.
        let Some(srq) = srq.filter(|srq| !srq.claimed.load(Ordering::Relaxed)) else {
            return filled;
        };
        let mut recv = srq.lock();
        take_run(&mut state.ring, front, wc, filled, |name| {
            recv.ledger.complete(name)
        })
    }

    /// The QP of which a cookie, no mark, names the queue, as [`qp`](Self::qp) finds it, or as it was found last.
    #[inline(always)]
    fn well_known<'s>(&'s self, state: &mut Completions<D>, raw: u64) -> Option<&'s QueuePair<D>> {
        // SAFETY: the CQ is locked, which keeps the QP.
        let met = unsafe { state.last_met.pair(raw) };
        if met.is_some() {
            return met;
        }
        let pair = self.qp(Cookie::decode(raw)?)?;
        state.last_met = Met::new(raw, pair);
        Some(pair)
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

/// Takes CQEs into `wc`, from `front` on: those of one queue whose entries `settle` gives a `wr_id` for.
/// How many are filled then.
#[inline(always)]
fn take_run(
    ring: &mut impl CompletionRing,
    front: Front,
    wc: &mut [MaybeUninit<ibv_wc>],
    mut filled: usize,
    mut settle: impl FnMut(u32) -> Option<u64>,
) -> usize {
    let first = front.cookie;
    let mut front = Some(front);
    for slot in wc.iter_mut().skip(filled) {
        let next = front.take().or_else(|| {
            let is_like_first =
                |next: &Front| next.is_success && Cookie::is_of_one_queue(first, next.cookie);
            ring.front().filter(is_like_first)
        });
        let Some(wr_id) = next.and_then(|next| settle(Cookie::entry(next.cookie))) else {
            break;
        };
        ring.take(slot, wr_id);
        filled = filled.wrapping_add(1);
    }
    filled
}
