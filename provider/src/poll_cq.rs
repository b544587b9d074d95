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
use std::ptr::NonNull;
use std::slice;
use std::sync::atomic::Ordering;

use rdma_core_sys::{IBV_WC_GENERAL_ERR, IBV_WC_RECV, IBV_WC_SUCCESS, ibv_cq, ibv_wc};

use crate::boundary::count;
use crate::cookie::{Cookie, Mark, Queue, VOID};
use crate::cq::{CompletionQueue, Completions, Cq, Early};
use crate::death::Cause;
use crate::driver::{CompletionRing, Driver, Front};
use crate::errno::Errno;
use crate::flush::Chore;
use crate::ledger::{Entry, Outcome, Progress, Received, small};
use crate::lock::{MutexGuard, lock};
use crate::queue_pair::QueuePair;
use crate::srq::SharedQueue;

/// `ibv_poll_cq`(3).
///
/// # Safety
///
/// As the man page asks.
pub(crate) unsafe extern "C" fn poll_cq<D: Driver>(
    cq: *mut ibv_cq,
    num_entries: c_int,
    wc: *mut ibv_wc,
) -> c_int {
    count(|| {
        // SAFETY: a CQ of ours.
        let cq = unsafe { Cq::<D>::of(cq) }.ok_or(Errno::EINVAL)?;
        let room = usize::try_from(num_entries).map_err(|_| Errno::EINVAL)?;
        if room == 0 {
            return Ok(0);
        }
        if wc.is_null() {
            return Err(Errno::EINVAL);
        }
        // SAFETY: the caller has room for `num_entries` of them there.
        let wc = unsafe { slice::from_raw_parts_mut(wc.cast::<MaybeUninit<ibv_wc>>(), room) };
        Ok(cq.queue.poll(wc, GiveBack::AtOnce))
    })
}

/// When the places of CQEs that were read go back to the kernel.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum GiveBack {
    AtOnce,
    /// When a batch ends.
    AtTheEnd,
}

/// What became of a CQE.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Settled {
    /// The `ibv_wc` it was read into is the application's.
    Due,
    /// It is nobody's, or not yet.
    Passed,
    /// It has to be looked at again when what is due was delivered.
    Early,
}

impl<D: Driver> CompletionQueue<D> {
    /// Fills `wc` as far as there are completions, in order; how many.
    #[inline(always)]
    pub(crate) fn poll(&self, wc: &mut [MaybeUninit<ibv_wc>], give_back: GiveBack) -> usize {
        let mut state = self.lock();
        let filled = self.fill(&mut state, wc, 0);
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
                if front.is_success {
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

    /// Settles CQEs of one queue that are nothing but successes, up to the first that is something else;
    /// how many are filled then.
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
            Some(Queue::Shared) => return self.settle_shared_run(state, front, wc, filled),
            None => return filled,
        };
        let Some(pair) = self.well_known(state, front.cookie) else {
            return filled;
        };
        let Some(room) = wc.get_mut(filled..) else {
            return filled;
        };
        let (ring, name) = (&mut state.ring, Cookie::entry(front.cookie));
        let count = if queue == Queue::Send {
            let mut send = lock(&pair.send);
            let entries = send.ledger.due_from(name);
            let count = ring.take_run(front.cookie, entries, Entry::due_wr_id, room);
            send.ledger.succeed(count);
            count
        } else {
            let Some(mut recv) = pair.own_recv() else {
                return filled;
            };
            let wr_ids = recv.ledger.due_from(name);
            let count = ring.take_run(front.cookie, wr_ids, |wr_id| Some(*wr_id), room);
            recv.ledger.succeed(count);
            count
        };
        // CAST: u32 fits usize on every target that libibverbs supports.
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
        if !state.last_met.is_it(raw) {
            let pair = self.qp(Cookie::decode(raw)?)?;
            state.last_met = Met::new(raw, pair);
        }
        let at = state.last_met.pair;
        // SAFETY: it was found for this CQ by `qp` and keeps its place. It is alive: before it is freed,
        // `forget` is called under the lock of this CQ, when it is found no more.
        Some(unsafe { at.as_ref() })
    }

    /// Settles one CQE, whatever it is, and delivers what is due then.
    #[cold]
    #[inline(never)]
    fn settle_next(
        &self,
        state: &mut Completions<D>,
        wc: &mut [MaybeUninit<ibv_wc>],
        mut filled: usize,
    ) -> usize {
        let Some(slot) = wc.get_mut(filled) else {
            return filled;
        };
        let early = state.early.take();
        let entry = match early {
            Some(early) => slot.write(early.0),
            None => match state.ring.next(slot) {
                Some(entry) => entry,
                None => return filled,
            },
        };
        match self.settle_cqe(state, entry) {
            Settled::Due => filled = filled.wrapping_add(1),
            Settled::Passed => {}
            Settled::Early => state.early = Some(Early(*entry)),
        }
        if !state.due.is_empty() {
            filled = self.deliver_due(state, wc, filled);
        }
        filled
    }

    /// Finds the ledger entry of a CQE and completes `wc`, into which it was read.
    fn settle_cqe(&self, state: &mut Completions<D>, wc: &mut ibv_wc) -> Settled {
        let Some(cookie) = Cookie::decode(wc.wr_id) else {
            if let Some(mark) = Mark::decode(wc.wr_id) {
                self.mark_is_back(state, mark);
            }
            return Settled::Passed;
        };
        let failed = wc.status != IBV_WC_SUCCESS;
        match cookie.queue {
            Queue::Send => {
                let Some(qp) = self.qp(cookie) else {
                    return Settled::Passed;
                };
                let mut send = lock(&qp.send);
                if failed && !send.ledger.is_closed() {
                    self.doom(state, qp);
                }
                let progress = send.ledger.complete(cookie.entry, Outcome::of(wc));
                if send.ledger.has_held() {
                    state.add_due(cookie.owner, Queue::Send);
                }
                match progress {
                    Progress::Due(sent) => {
                        wc.wr_id = sent.wr_id;
                        if failed {
                            wc.opcode = sent.opcode.into();
                        }
                        Settled::Due
                    }
                    Progress::Noted | Progress::Stale => Settled::Passed,
                }
            }
            Queue::Recv => {
                let Some(qp) = self.qp(cookie) else {
                    return Settled::Passed;
                };
                let Some(mut recv) = qp.own_recv() else {
                    return Settled::Passed;
                };
                if failed && !recv.ledger.is_closed() {
                    self.doom(state, qp);
                }
                match recv.ledger.complete(cookie.entry) {
                    Received::Due(wr_id) => received(wc, wr_id),
                    Received::Stale => Settled::Passed,
                    Received::Early => {
                        state.add_due(cookie.owner, Queue::Recv);
                        Settled::Early
                    }
                }
            }
            Queue::Shared => {
                let Some(srq) = self.srq(cookie) else {
                    return Settled::Passed;
                };
                if failed && let Some(qp) = state.member(wc.qp_num) {
                    self.doom(state, &qp);
                }
                let ledger = &mut srq.lock().ledger;
                // Relaxed: see `QueuePair::begin_claim`.
                if srq.claimed.load(Ordering::Relaxed)
                    && let Some(qp) = state.member(wc.qp_num)
                    && let Some(sequence) = ledger.sequence(cookie.entry)
                {
                    qp.shared_from
                        .store(sequence.wrapping_add(1), Ordering::Relaxed);
                    state.add_chore(Chore::LookAgain(qp));
                }
                match ledger.complete(cookie.entry) {
                    Some(wr_id) => received(wc, wr_id),
                    None => Settled::Passed,
                }
            }
        }
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
    fn srq(&self, cookie: Cookie) -> Option<&SharedQueue<D>> {
        let at = self
            .context
            .owners
            .find(cookie.owner, cookie.queue, self.key())?;
        // SAFETY: published as an SRQ by `srq::create`, so it is a `SharedQueue<D>`; alive, see
        // above.
        Some(unsafe { at.cast().as_ref() })
    }
}

/// The QP whose CQE was settled last, and the part of its cookies that names the queue. What is polled next is
/// mostly of the same.
#[derive(Debug)]
pub(crate) struct Met<D: Driver> {
    cookie: u64,
    pair: NonNull<QueuePair<D>>,
}

// SAFETY: an address, which is used under the lock of the CQ (`CompletionQueue::well_known`).
unsafe impl<D: Driver> Send for Met<D> {}

impl<D: Driver> Met<D> {
    fn new(cookie: u64, pair: &QueuePair<D>) -> Self {
        Self {
            cookie,
            pair: NonNull::from(pair),
        }
    }

    /// None: no cookie is of the queue that [`VOID`] is of, though a mark may be.
    pub(crate) fn nobody() -> Self {
        Self {
            cookie: VOID,
            pair: NonNull::dangling(),
        }
    }

    fn is_it(&self, cookie: u64) -> bool {
        Cookie::is_of_one_queue(cookie, self.cookie)
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

/// Completes the `wc` of a receive.
fn received(wc: &mut ibv_wc, wr_id: u64) -> Settled {
    wc.wr_id = wr_id;
    if wc.status != IBV_WC_SUCCESS {
        wc.opcode = IBV_WC_RECV;
    }
    Settled::Due
}

impl Outcome {
    /// What a CQE says; a status that libibverbs does not know is a general error.
    fn of(wc: &ibv_wc) -> Self {
        Self {
            status: u8::try_from(wc.status).unwrap_or(small(IBV_WC_GENERAL_ERR)),
            byte_len: wc.byte_len,
        }
    }
}
