// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause

//! What a batch has polled before the application came to it.
//!
//! `ibv_next_poll` gives one completion. To find its QP, lock the queue and look at its ledger for each would cost
//! several times what `ibv_poll_cq` takes for one of many. So a run of successes is polled at once, and the
//! application comes to them one by one, each of which it reads where it stands.
//!
//! They have left the ring and the ledger, and are the next ones of the CQ: a batch that ends before them leaves them
//! to the next, or to an `ibv_poll_cq`. They are of one queue, and forgotten with its QP, or with the QPs that took
//! them from their SRQ.
//!
//! The batch comes to the next one without the lock of the CQ (`left.rs`). One that another thread destroys the QP of
//! at that very moment it has come to before.

mod left;

mod atomic {
    pub(super) use std::sync::atomic::{AtomicIsize, Ordering};
}

use std::cell::UnsafeCell;
use std::fmt;
use std::mem::MaybeUninit;
use std::ptr;
use std::slice;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicPtr, AtomicU64};

use rdma_core_sys::ibv_wc;

use self::atomic::{AtomicIsize, Ordering};
use crate::cookie::{Cookie, VOID};
use crate::cq::CompletionQueue;
use crate::driver::{CompletionRing, Driver};

/// The most that are polled at once.
const MOST: usize = 16;

/// Bytes of one.
const SIZE: isize = size_of::<ibv_wc>().cast_signed();

type Room = Box<[UnsafeCell<MaybeUninit<ibv_wc>>; MOST]>;

/// Completions that the application has not come to.
///
/// # Invariants
///
/// They are the `left` bytes before `end`, in `room`. That is filled by the thread that has the turn of the batch, under
/// the lock of the CQ, when none is left. What was taken off `left`, nobody else uses until it is filled again.
pub(crate) struct ReadAhead {
    left: AtomicIsize,
    /// Changes when `room` is filled.
    end: AtomicPtr<ibv_wc>,
    /// That of an extended CQ.
    room: OnceLock<Room>,
    /// The part of their cookies that names the queue.
    queue: AtomicU64,
}

// SAFETY: no two threads use the same part of `room` at a time (invariant).
unsafe impl Sync for ReadAhead {}

impl Default for ReadAhead {
    fn default() -> Self {
        Self {
            left: AtomicIsize::new(0),
            end: AtomicPtr::new(ptr::null_mut()),
            room: OnceLock::new(),
            queue: AtomicU64::new(VOID),
        }
    }
}

impl fmt::Debug for ReadAhead {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ReadAhead")
            .field("unread", &self.len())
            .field("queue", &self.queue)
            .finish_non_exhaustive()
    }
}

impl ReadAhead {
    /// Makes room, without which nothing is read ahead.
    pub(crate) fn make_room(&self) {
        let mut room = Vec::new();
        // Where there is no memory, an application comes to its completions the long way.
        if room.try_reserve_exact(MOST).is_ok() {
            room.resize_with(MOST, || UnsafeCell::new(MaybeUninit::uninit()));
            if let Ok(room) = Room::try_from(room.into_boxed_slice()) {
                // There is none yet.
                self.room.get_or_init(|| room);
            }
        }
    }

    /// # Safety
    ///
    /// Nobody else uses it as long as the reference is used.
    #[inline(always)]
    #[expect(clippy::mut_from_ref, reason = "the caller's promise")]
    unsafe fn room(&self) -> Option<&mut [MaybeUninit<ibv_wc>]> {
        let room = self.room.get()?.as_ptr();
        // SAFETY: the caller's promise; each place is in a cell, which has its layout.
        Some(unsafe { slice::from_raw_parts_mut(room.cast_mut().cast(), MOST) })
    }

    /// Has the first `count` of its room be what was read, and comes to the first; `cookie` names their queue.
    #[inline(always)]
    fn come_to_first(
        &self,
        room: &mut [MaybeUninit<ibv_wc>],
        count: usize,
        cookie: u64,
    ) -> *const ibv_wc {
        let size = count.wrapping_mul(size_of::<ibv_wc>());
        let first = room.as_mut_ptr().cast::<ibv_wc>();
        self.end
            .store(first.wrapping_byte_add(size), Ordering::Relaxed);
        self.queue
            .store(Cookie::with_entry_0(cookie), Ordering::Relaxed);
        left::put(&self.left, size.cast_signed().wrapping_sub(SIZE));
        first
    }

    #[inline(always)]
    pub(crate) fn is_empty(&self) -> bool {
        left::there_is(&self.left) == 0
    }

    pub(crate) fn len(&self) -> u32 {
        let count = left::there_is(&self.left).checked_div(SIZE);
        count
            .and_then(|count| u32::try_from(count).ok())
            .unwrap_or(u32::MAX)
    }

    /// Comes to the next completion, which stays there until the next run is read ahead.
    ///
    /// The caller has the turn of the batch, or the lock of the CQ.
    #[inline(always)]
    pub(crate) fn next(&self) -> Option<*const ibv_wc> {
        let left = left::take(&self.left, SIZE)?;
        // Relaxed: who has the turn has changed it, or the turn or the lock has come from who has.
        let end = self.end.load(Ordering::Relaxed);
        Some(end.wrapping_byte_offset(left.wrapping_neg()))
    }

    /// Moves as many to `wcs` as there are, or find room from `filled` on; how many are filled then. The CQ is locked.
    #[cold]
    pub(crate) fn deliver(&self, wcs: &mut [MaybeUninit<ibv_wc>], mut filled: usize) -> usize {
        while let Some(slot) = wcs.get_mut(filled)
            && !self.is_empty()
            && let Some(wc) = self.next()
        {
            // SAFETY: filled, and nobody else's (invariant); under the lock nobody fills it anew.
            slot.write(unsafe { *wc });
            filled = filled.wrapping_add(1);
        }
        filled
    }

    /// Forgets those for which `is_its` holds, by a cookie of their queue and the QP's number. The CQ is locked.
    ///
    /// The cookie is of entry 0, of which name no entry of an SRQ's is (`ledger/shared.rs: NOBODYS`): theirs
    /// have been retired.
    pub(crate) fn forget(&self, mut is_its: impl FnMut(u64, u32) -> bool) {
        let all = left::take_all(&self.left);
        if all == 0 {
            return;
        }
        let queue = self.queue.load(Ordering::Relaxed);
        let end = self.end.load(Ordering::Relaxed);
        // What stays moves behind what goes: from where the batch is, and may be reading, away.
        let (mut passed, mut kept) = (0, 0_isize);
        while passed < all {
            passed = passed.wrapping_add(SIZE);
            // SAFETY: these were filled, and are nobody else's (invariant).
            unsafe {
                let wc = end.wrapping_byte_offset(passed.wrapping_neg()).read();
                if !is_its(queue, wc.qp_num) {
                    kept = kept.wrapping_add(SIZE);
                    end.wrapping_byte_offset(kept.wrapping_neg()).write(wc);
                }
            }
        }
        left::put(&self.left, kept);
    }
}

impl<D: Driver> CompletionQueue<D> {
    /// Polls ahead, if what comes next is a run of successes, and comes to the first. Nothing here waits or panics.
    ///
    /// # Safety
    ///
    /// The caller has the turn of the batch, and uses nothing any more that it has come to; `ahead` is this CQ's.
    #[inline(always)]
    pub(crate) unsafe fn come_to_run(&self, ahead: &ReadAhead) -> Option<*const ibv_wc> {
        let mut state = self.try_lock()?;
        state.has_read_ahead = !ahead.is_empty();
        if !state.is_plain() {
            return None;
        }
        let front = state.ring.front().filter(|front| front.is_success)?;
        // SAFETY: nothing is left, and the caller has the turn: nobody else uses it (invariant).
        let room = unsafe { ahead.room() }?;
        let count = self.settle_successes(&mut state, front.cookie, room);
        if count == 0 {
            return None;
        }
        state.has_read_ahead = true;
        Some(ahead.come_to_first(room, count, front.cookie))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Completions of these QPs, by number, of which the batch has come to the first.
    fn read(qps: &[u32]) -> ReadAhead {
        let ahead = ReadAhead::default();
        ahead.make_room();
        // SAFETY: nobody else uses it.
        let room = unsafe { ahead.room() }.unwrap();
        for (wc, qp_num) in room.iter_mut().zip(qps) {
            wc.write(ibv_wc {
                qp_num: *qp_num,
                ..ibv_wc::default()
            });
        }
        let first = ahead.come_to_first(room, qps.len(), 0x1234_5678_9abc_def0);
        assert_eq!(qp_num(first), qps[0]);
        ahead
    }

    fn qp_num(wc: *const ibv_wc) -> u32 {
        // SAFETY: one that a batch has come to.
        unsafe { (*wc).qp_num }
    }

    fn rest(ahead: &ReadAhead) -> Vec<u32> {
        std::iter::from_fn(|| ahead.next().map(qp_num)).collect()
    }

    #[test]
    fn those_of_one_qp_are_forgotten_and_the_others_stay_in_order() {
        let ahead = read(&[1, 2, 3, 1, 4, 1, 2]);
        ahead.forget(|queue, qp_num| {
            assert_eq!(queue, 0x1234_5678_0000_0000);
            qp_num == 1
        });
        assert_eq!(ahead.len(), 4);
        assert_eq!(rest(&ahead), [2, 3, 4, 2]);
        ahead.forget(|_, _| panic!("there is none"));
        assert!(ahead.is_empty());
    }

    #[test]
    fn what_is_delivered_is_not_come_to() {
        let ahead = read(&[1, 2, 3, 4]);
        let mut wcs = [const { MaybeUninit::uninit() }; 3];
        assert_eq!(ahead.deliver(&mut wcs, 1), 3);
        assert_eq!(rest(&ahead), [4]);
        assert_eq!(ahead.deliver(&mut wcs, 1), 1);
        assert_eq!(ahead.len(), 0);
    }
}
