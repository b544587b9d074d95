// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause

//! What a batch has polled before the application came to it.
//!
//! `ibv_next_poll` gives one completion. To find its QP, lock the queue and look at its ledger for each would cost
//! several times what `ibv_poll_cq` takes for one of many. So a run of successes is polled at once, and the
//! application comes to them one by one.
//!
//! They have left the ring and the ledger, and are the next ones of the CQ: a batch that ends before them leaves them
//! to the next, or to an `ibv_poll_cq`. They are of one queue, so that all are forgotten with its QP.

use std::fmt;
use std::mem::{self, MaybeUninit};

use rdma_core_sys::ibv_wc;

use crate::cookie::{Cookie, OwnerId};
use crate::cq::{CompletionQueue, Completions};
use crate::driver::{CompletionRing, Driver};

/// The most that are polled at once.
const MOST: usize = 16;

/// Completions that the application has not come to. Under the lock of the CQ.
#[derive(Default)]
pub(crate) struct ReadAhead {
    wcs: Vec<ibv_wc>,
    next: usize,
    owner: Option<OwnerId>,
}

impl fmt::Debug for ReadAhead {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ReadAhead")
            .field("unread", &self.len())
            .field("owner", &self.owner)
            .finish_non_exhaustive()
    }
}

impl ReadAhead {
    /// Makes room, without which nothing is read ahead.
    pub(crate) fn make_room(&mut self) {
        // Where there is no memory, an application comes to its completions the long way.
        let _ = self.wcs.try_reserve_exact(MOST);
    }

    #[inline(always)]
    pub(crate) fn is_empty(&self) -> bool {
        self.next == self.wcs.len()
    }

    pub(crate) fn len(&self) -> u32 {
        let count = self.wcs.len().wrapping_sub(self.next);
        u32::try_from(count).unwrap_or(u32::MAX)
    }

    /// The next completion.
    #[inline(always)]
    pub(crate) fn next(&mut self) -> Option<&ibv_wc> {
        let wc = self.wcs.get(self.next)?;
        self.next = self.next.wrapping_add(1);
        Some(wc)
    }

    /// Moves as many to `wcs` as there are, or find room from `filled` on; how many are filled then.
    #[cold]
    pub(crate) fn deliver(&mut self, wcs: &mut [MaybeUninit<ibv_wc>], mut filled: usize) -> usize {
        while let Some(slot) = wcs.get_mut(filled)
            && let Some(wc) = self.next()
        {
            slot.write(*wc);
            filled = filled.wrapping_add(1);
        }
        filled
    }

    /// Forgets those of this QP.
    pub(crate) fn forget(&mut self, id: OwnerId) {
        if self.owner == Some(id) {
            self.next = self.wcs.len();
        }
    }
}

impl<D: Driver> CompletionQueue<D> {
    /// Polls ahead, if what comes next is a run of successes of a QP's own queue.
    ///
    /// An SRQ's receives are of several QPs: they are left where they are.
    pub(crate) fn read_ahead(&self, state: &mut Completions<D>) {
        if !state.is_plain() {
            return;
        }
        let Some(front) = state.ring.front().filter(|front| front.is_success) else {
            return;
        };
        let Some(cookie) = Cookie::decode(front.cookie).filter(Cookie::is_of_own_queue) else {
            return;
        };
        // While they are filled, `state` has none.
        let mut wcs = mem::take(&mut state.ahead.wcs);
        wcs.clear();
        let room = wcs.spare_capacity_mut();
        let count = self.settle_run(state, front, room);
        // SAFETY: there is room for so many, and they have been filled.
        unsafe { wcs.set_len(count) };
        state.ahead = ReadAhead {
            wcs,
            next: 0,
            owner: Some(cookie.owner),
        };
    }
}
