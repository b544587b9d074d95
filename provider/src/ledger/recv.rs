// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause

//! The ledger of a QP's own receive queue.

use super::entries::Entries;
use super::fill::{EnteredAs, Free, fill};
use super::{FreeRecv, Receives};
use crate::cookie::CookieBase;
use crate::errno::Result;

/// The caller's `wr_id`s of outstanding receives, in posting order.
///
/// # Invariants
///
/// `head..tail` are the outstanding entries, named by free-running counters; there are at most
/// `depth`. CQEs of the first `dropped` were dropped at a full CQ. The kernel owns the others before `end`;
/// the library those from there on. While the queue lives, `end` has no meaning.
#[derive(Debug)]
pub(crate) struct RecvLedger {
    wr_ids: Entries<u64>,
    depth: u32,
    head: u32,
    tail: u32,
    dropped: u32,
    end: u32,
    closed: bool,
    settled: bool,
}

/// What a CQE says of a receive queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Received {
    /// The receive of this `wr_id` is complete.
    Due(u64),
    /// Others have to be flushed first ([`RecvLedger::next_flushed`]): their CQEs were dropped at a
    /// full CQ. Then the CQE is to be looked at again.
    Early,
    /// It belongs to no outstanding receive.
    Stale,
}

impl RecvLedger {
    /// An empty ledger for at most `depth` outstanding receives.
    ///
    /// # Errors
    ///
    /// `ENOMEM`; `EINVAL` if `depth` is above 2^31.
    pub(crate) fn new(depth: u32) -> Result<Self> {
        Ok(Self {
            wr_ids: Entries::new(depth)?,
            depth,
            head: 0,
            tail: 0,
            dropped: 0,
            end: 0,
            closed: false,
            settled: false,
        })
    }

    #[cfg(test)]
    pub(crate) fn is_empty(&self) -> bool {
        self.head == self.tail
    }

    /// Forgets all outstanding entries.
    pub(crate) fn clear(&mut self) {
        self.head = self.tail;
        self.dropped = 0;
        self.end = self.tail;
    }

    /// Forgets all outstanding entries; the queue lives (again).
    pub(crate) fn restart(&mut self) {
        self.clear();
        self.closed = false;
        self.settled = false;
    }

    /// The queue is dead: the kernel gets no further receives, and what is pushed is flushed in its
    /// turn.
    pub(crate) fn close(&mut self) {
        if !self.closed {
            self.closed = true;
            self.end = self.tail;
        }
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.closed
    }

    /// Whether the kernel has nothing that is outstanding in a closed queue.
    pub(crate) fn is_over(&self) -> bool {
        self.head == self.end
    }

    /// Whether all that the kernel had is settled.
    pub(crate) fn is_settled(&self) -> bool {
        self.settled
    }

    /// The kernel will post no further CQE for this queue: what it owes is the library's.
    pub(crate) fn settle(&mut self) {
        debug_assert!(self.closed);
        self.end = self.head;
        self.settled = true;
    }

    /// The `wr_id`s of `name` and of those behind it, if it is the next of a living queue: as far as the
    /// kernel's CQEs for their success, in this order, tell nothing but that.
    ///
    /// [`pass`](Self::pass) notes those CQEs. What is left is for [`complete`](Self::complete).
    #[inline(always)]
    pub(crate) fn due_from(&self, name: u32) -> &[u64] {
        if self.closed || self.dropped > 0 || self.head != name {
            return &[];
        }
        self.run_of_head(self.tail)
    }

    /// The `wr_id`s of `name` and of those behind it that the kernel has, if it is the next of a dead queue: as
    /// far as the kernel's CQEs for their flush, in this order, tell nothing but that.
    ///
    /// [`pass`](Self::pass) notes those CQEs. What is left is for [`complete`](Self::complete).
    #[inline(always)]
    pub(crate) fn flushed_from(&self, name: u32) -> &[u64] {
        if !self.closed || self.dropped > 0 || self.head != name {
            return &[];
        }
        self.run_of_head(self.end)
    }

    /// The `wr_id`s of those before `end`, as far as they stand one behind the other.
    #[inline(always)]
    fn run_of_head(&self, end: u32) -> &[u64] {
        self.wr_ids.run(self.head, end.wrapping_sub(self.head))
    }

    /// Notes the kernel's CQE for the success of entry `name`, if it is the next of a living queue, and retires
    /// it.
    #[inline(always)]
    pub(crate) fn succeed_next(&mut self, name: u32) -> Option<u64> {
        if self.closed || self.dropped > 0 || self.head != name || self.tail == name {
            return None;
        }
        self.head = name.wrapping_add(1);
        Some(*self.wr_ids.get(name))
    }

    /// Notes the kernel's CQEs for the first `count` that [`due_from`](Self::due_from) or
    /// [`flushed_from`](Self::flushed_from) has shown, and retires them.
    #[inline(always)]
    pub(crate) fn pass(&mut self, count: u32) {
        self.head = self.head.wrapping_add(count);
    }

    /// Notes the kernel's CQE for entry `name`, and retires it.
    pub(crate) fn complete(&mut self, name: u32) -> Received {
        let ahead = name.wrapping_sub(self.head);
        let kernels = if self.closed { self.end } else { self.tail };
        if ahead >= kernels.wrapping_sub(self.head) {
            return Received::Stale;
        }
        if ahead > 0 {
            // A QP's receives complete in order.
            self.dropped = ahead;
            return Received::Early;
        }
        let wr_id = *self.wr_ids.get(name);
        self.advance();
        Received::Due(wr_id)
    }

    /// The next receive that the library has to flush; it is retired.
    pub(crate) fn next_flushed(&mut self) -> Option<u64> {
        if !self.has_flushed() {
            return None;
        }
        let wr_id = *self.wr_ids.get(self.head);
        self.advance();
        Some(wr_id)
    }

    /// Whether [`next_flushed`](Self::next_flushed) has one.
    pub(crate) fn has_flushed(&self) -> bool {
        self.head != self.tail && (self.dropped > 0 || (self.closed && self.head == self.end))
    }

    fn advance(&mut self) {
        let next = self.head.wrapping_add(1);
        self.dropped = self.dropped.saturating_sub(1);
        if self.closed && self.head == self.end {
            self.end = next;
        }
        self.head = next;
    }
}

impl Receives for RecvLedger {
    #[inline(always)]
    fn fill(&mut self, cookies: CookieBase, mut accept: impl FnMut(u64) -> Option<u64>) -> u32 {
        let first = self.tail;
        let end = self.head.wrapping_add(self.depth);
        let accept = |name| accept(cookies.with(name));
        self.tail = fill(&mut self.wr_ids, first, end, accept);
        self.tail.wrapping_sub(first)
    }

    type Free<'l> = FreeOwn<'l>;

    #[inline(always)]
    fn free(&mut self, cookies: CookieBase) -> Option<FreeOwn<'_>> {
        if self.tail.wrapping_sub(self.head) >= self.depth {
            return None;
        }
        let free = Free::at(&mut self.wr_ids, &mut self.tail);
        Some(FreeOwn {
            cookie: cookies.with(free.name()),
            free,
        })
    }
}

impl EnteredAs<u64> for u64 {
    #[inline(always)]
    fn enter(self, wr_id: &mut u64) {
        *wr_id = self;
    }
}

/// The free entry that the next receive of a QP's own queue gets.
#[derive(Debug)]
pub(crate) struct FreeOwn<'l> {
    cookie: u64,
    free: Free<'l, u64>,
}

impl FreeRecv for FreeOwn<'_> {
    #[inline(always)]
    fn cookie(&self) -> u64 {
        self.cookie
    }

    #[inline(always)]
    fn enter(self, wr_id: u64) {
        self.free.enter(wr_id);
    }
}
