// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause

//! The ledger of a QP's own receive queue.
//!
//! It is filled under the lock of the queue and emptied under that of its CQ, as the two ends of a ring are: a poll
//! takes no other lock. Whoever does more than that has both.

use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};

use super::ends::End;
use super::entries::Entries;
use super::{FreeRecv, Receives};
use crate::cookie::{Cookie, CookieBase};
use crate::errno::Result;

/// The caller's `wr_id`s of outstanding receives, in posting order.
///
/// # Invariants
///
/// `head..tail` are the outstanding entries, named by free-running counters; there are at most
/// `depth`. CQEs of the first `dropped` were dropped at a full CQ. The kernel owns the others before `end`;
/// the library those from there on. While the queue lives, `end` has no meaning. It is plain if it lives and none
/// was dropped.
#[derive(Debug)]
pub(crate) struct RecvLedger {
    wr_ids: Entries<AtomicU64>,
    depth: u32,
    /// Changed under the lock of the CQ.
    head: End,
    /// Changed under the lock of the queue.
    tail: End,
    /// Changed under the lock of the queue, as those below. A poll that finds it as it was finds a queue that dies, in
    /// which receives succeed as they did.
    is_plain: AtomicBool,
    closed: AtomicBool,
    /// Used under both locks, as those below.
    end: AtomicU32,
    dropped: AtomicU32,
    settled: AtomicBool,
}

/// Under a lock of those who write it; or it is looked at beside them, and old or new then.
const LOCKED: Ordering = Ordering::Relaxed;

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
            head: End::default(),
            tail: End::default(),
            is_plain: AtomicBool::new(true),
            closed: AtomicBool::new(false),
            end: AtomicU32::new(0),
            dropped: AtomicU32::new(0),
            settled: AtomicBool::new(false),
        })
    }

    #[cfg(test)]
    pub(crate) fn is_empty(&self) -> bool {
        self.head.get() == self.tail.get()
    }

    /// Forgets all outstanding entries. Both locks are held.
    pub(crate) fn clear(&self) {
        let tail = self.tail.get();
        self.head.set(tail);
        self.end.store(tail, LOCKED);
        self.note_dropped(0);
    }

    /// Forgets all outstanding entries; the queue lives (again). Both locks are held.
    pub(crate) fn restart(&self) {
        self.closed.store(false, LOCKED);
        self.settled.store(false, LOCKED);
        self.clear();
    }

    /// The queue is dead: the kernel gets no further receives, and what is pushed is flushed in its
    /// turn. The lock of the queue is held.
    pub(crate) fn close(&self) {
        if !self.is_closed() {
            self.closed.store(true, LOCKED);
            self.end.store(self.tail.get(), LOCKED);
            self.is_plain.store(false, LOCKED);
        }
    }

    #[inline(always)]
    pub(crate) fn is_closed(&self) -> bool {
        self.closed.load(LOCKED)
    }

    /// Whether the kernel has nothing that is outstanding in a closed queue.
    pub(crate) fn is_over(&self) -> bool {
        self.head.get() == self.end()
    }

    /// Whether all that the kernel had is settled.
    pub(crate) fn is_settled(&self) -> bool {
        self.settled.load(LOCKED)
    }

    /// The kernel will post no further CQE for this queue: what it owes is the library's. Both locks are held.
    pub(crate) fn settle(&self) {
        debug_assert!(self.is_closed());
        self.end.store(self.head.get(), LOCKED);
        self.settled.store(true, LOCKED);
    }

    /// The `wr_id`s of `name` and of those behind it, if it is the next of a living queue: as far as the
    /// kernel's CQEs for their success, in this order, tell nothing but that. The CQ is locked.
    ///
    /// [`pass`](Self::pass) notes those CQEs. What is left is for [`complete`](Self::complete).
    #[inline(always)]
    pub(crate) fn due_from(&self, name: u32) -> &[AtomicU64] {
        if !self.is_plain() || self.head.get() != name {
            return &[];
        }
        self.run(name, self.tail.get())
    }

    /// The `wr_id`s of `name` and of those behind it that the kernel has, if it is the next of a dead queue: as
    /// far as the kernel's CQEs for their flush, in this order, tell nothing but that. Both locks are held.
    ///
    /// [`pass`](Self::pass) notes those CQEs. What is left is for [`complete`](Self::complete).
    #[inline(always)]
    pub(crate) fn flushed_from(&self, name: u32) -> &[AtomicU64] {
        if !self.is_closed() || self.dropped() > 0 || self.head.get() != name {
            return &[];
        }
        self.run(name, self.end())
    }

    /// The `wr_id`s of `name` and of those behind it before `end`, as far as they stand one behind the other.
    #[inline(always)]
    fn run(&self, name: u32, end: u32) -> &[AtomicU64] {
        self.wr_ids.run(name, end.wrapping_sub(name))
    }

    /// Notes the kernel's CQE for the success of entry `name`, if it is the next of a living queue, and retires
    /// it. The CQ is locked.
    #[inline(always)]
    pub(crate) fn succeed_next(&self, name: u32) -> Option<u64> {
        if !self.is_plain() || self.head.get() != name || self.tail.get() == name {
            return None;
        }
        let wr_id = self.wr_id(name);
        self.head.set(name.wrapping_add(1));
        Some(wr_id)
    }

    /// Notes the kernel's CQEs for the first `count` that [`due_from`](Self::due_from) or
    /// [`flushed_from`](Self::flushed_from) has shown, and retires them. The locks are held that those ask for.
    #[inline(always)]
    pub(crate) fn pass(&self, count: u32) {
        self.head.set(self.head.get().wrapping_add(count));
    }

    /// Notes the kernel's CQE for entry `name`, and retires it. Both locks are held.
    pub(crate) fn complete(&self, name: u32) -> Received {
        let head = self.head.get();
        let ahead = name.wrapping_sub(head);
        let kernels = if self.is_closed() {
            self.end()
        } else {
            self.tail.get()
        };
        if ahead >= kernels.wrapping_sub(head) {
            return Received::Stale;
        }
        if ahead > 0 {
            // A QP's receives complete in order.
            self.note_dropped(ahead);
            return Received::Early;
        }
        Received::Due(self.advance())
    }

    /// The next receive that the library has to flush; it is retired. Both locks are held.
    pub(crate) fn next_flushed(&self) -> Option<u64> {
        self.has_flushed().then(|| self.advance())
    }

    /// Whether [`next_flushed`](Self::next_flushed) has one. Both locks are held.
    pub(crate) fn has_flushed(&self) -> bool {
        self.head.get() != self.tail.get()
            && (self.dropped() > 0 || (self.is_closed() && self.is_over()))
    }

    /// Retires the next one.
    fn advance(&self) -> u64 {
        let head = self.head.get();
        let wr_id = self.wr_id(head);
        let next = head.wrapping_add(1);
        self.note_dropped(self.dropped().saturating_sub(1));
        if self.is_closed() && self.is_over() {
            self.end.store(next, LOCKED);
        }
        self.head.set(next);
        wr_id
    }

    fn note_dropped(&self, dropped: u32) {
        self.dropped.store(dropped, LOCKED);
        let is_plain = dropped == 0 && !self.is_closed();
        self.is_plain.store(is_plain, LOCKED);
    }

    #[inline(always)]
    fn is_plain(&self) -> bool {
        self.is_plain.load(LOCKED)
    }

    fn dropped(&self) -> u32 {
        self.dropped.load(LOCKED)
    }

    fn end(&self) -> u32 {
        self.end.load(LOCKED)
    }

    /// The `wr_id` of an outstanding entry.
    #[inline(always)]
    fn wr_id(&self, name: u32) -> u64 {
        wr_id_of(self.wr_ids.get(name))
    }
}

/// The `wr_id` of an outstanding entry.
#[inline(always)]
pub(crate) fn wr_id_of(entry: &AtomicU64) -> u64 {
    // Relaxed: the ends pass it on.
    entry.load(Ordering::Relaxed)
}

/// The lock of the queue is held.
impl<'l> Receives for &'l RecvLedger {
    #[inline(always)]
    fn fill(self, cookies: CookieBase, mut accept: impl FnMut(u64) -> Option<u64>) -> u32 {
        let first = self.tail.get();
        let end = self.head.get().wrapping_add(self.depth);
        let mut tail = first;
        'all: while tail != end {
            let mut cookie = cookies.with(tail);
            for entry in self.run(tail, end) {
                let Some(wr_id) = accept(cookie) else {
                    tail = Cookie::entry(cookie);
                    break 'all;
                };
                // Relaxed: the ends pass it on.
                entry.store(wr_id, Ordering::Relaxed);
                cookie = Cookie::next(cookie);
            }
            tail = Cookie::entry(cookie);
        }
        self.tail.set(tail);
        tail.wrapping_sub(first)
    }

    type Free = FreeOwn<'l>;

    #[inline(always)]
    fn free(self, cookies: CookieBase) -> Option<FreeOwn<'l>> {
        let name = self.tail.get();
        if name.wrapping_sub(self.head.get()) >= self.depth {
            return None;
        }
        Some(FreeOwn {
            name,
            cookie: cookies.with(name),
            ledger: self,
        })
    }
}

/// The free entry that the next receive of a QP's own queue gets.
#[derive(Debug)]
pub(crate) struct FreeOwn<'l> {
    name: u32,
    cookie: u64,
    ledger: &'l RecvLedger,
}

impl FreeRecv for FreeOwn<'_> {
    #[inline(always)]
    fn cookie(&self) -> u64 {
        self.cookie
    }

    #[inline(always)]
    fn enter(self, wr_id: u64) {
        // Relaxed: as above.
        (self.ledger.wr_ids.get(self.name)).store(wr_id, Ordering::Relaxed);
        self.ledger.tail.set(self.name.wrapping_add(1));
    }
}
