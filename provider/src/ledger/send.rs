// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause

//! The ledger of a send queue.

use rdma_core_sys::ibv_wc_opcode;

use super::entries::Entries;
use super::entry::{Entry, Outcome, Posted, Sent, Stage};
use super::fill::{Free, fill};
use crate::cookie::CookieBase;
use crate::errno::Result;

/// What a CQE changed in the ledger.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Progress {
    /// Its send is the next one due: hand it over.
    Due(Sent),
    /// Nothing to hand over for this CQE itself; [`SendLedger::next_held`] tells whether others are.
    Noted,
    /// It belongs to no outstanding send: a second CQE for one, or one of an earlier life.
    Stale,
}

/// The order in which a driver's CQEs come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CqeOrder {
    /// In posting order. A CQE that is skipped was dropped at a full CQ and will not come.
    Posting,
    /// READs complete when their response arrives, later sends before that (siw).
    ReadsLate,
}

/// Whether the queue is dead, and who knows what of its sends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Life {
    Alive,
    /// The kernel may still flush what it has, the silent sends too. What is posted is held.
    Dying,
    /// The kernel is done: all that is outstanding is held.
    Dead,
}

/// Outstanding sends in posting order.
///
/// # Invariants
///
/// `head..tail` are the outstanding entries, named by free-running counters; there are at most
/// `depth`. `held` of them are [`Stage::Held`]. `proven` is the name of the last that was seen to
/// succeed.
#[derive(Debug)]
pub(crate) struct SendLedger {
    entries: Entries<Entry>,
    depth: u32,
    head: u32,
    tail: u32,
    held: u32,
    proven: u32,
    order: CqeOrder,
    life: Life,
    /// A flush CQE has come: all sends behind it are flushed too.
    flushing: bool,
}

impl SendLedger {
    /// An empty ledger for at most `depth` outstanding sends.
    ///
    /// # Errors
    ///
    /// `ENOMEM`; `EINVAL` if `depth` is above 2^31.
    pub(crate) fn new(depth: u32, order: CqeOrder) -> Result<Self> {
        Ok(Self {
            entries: Entries::new(depth)?,
            depth,
            head: 0,
            tail: 0,
            held: 0,
            proven: u32::MAX,
            order,
            life: Life::Alive,
            flushing: false,
        })
    }

    /// Whether there is room for an entry of that name, which is [`next`](Self::next) or a later one.
    pub(crate) fn has_room_for(&self, name: u32) -> bool {
        name.wrapping_sub(self.head) < self.depth
    }

    pub(crate) fn outstanding(&self) -> u32 {
        self.tail.wrapping_sub(self.head)
    }

    /// The name of the next entry to be pushed.
    pub(crate) fn next(&self) -> u32 {
        self.tail
    }

    /// The name of the oldest outstanding entry.
    pub(crate) fn oldest(&self) -> u32 {
        self.head
    }

    /// Enters sends as long as there is room: `accept` is told the cookie of each, and answers with what is to be
    /// remembered of it, or that there is none.
    #[inline(always)]
    pub(crate) fn fill(&mut self, cookies: CookieBase, accept: impl FnMut(u64) -> Option<Posted>) {
        let end = self.head.wrapping_add(self.depth);
        self.tail = fill(&mut self.entries, cookies, self.tail, end, accept);
    }

    /// The free entry that the next send gets, if there is room.
    #[inline(always)]
    pub(crate) fn free(&mut self) -> Option<Free<'_>> {
        if !self.has_room_for(self.tail) {
            return None;
        }
        Some(Free::at(&mut self.entries, &mut self.tail))
    }

    /// Takes back `name` and everything after it: they were never accepted.
    pub(crate) fn take_back(&mut self, name: u32) {
        debug_assert!(self.is_outstanding(name) || name == self.tail);
        self.tail = name;
    }

    /// Forgets all outstanding entries.
    pub(crate) fn clear(&mut self) {
        self.head = self.tail;
        self.held = 0;
    }

    /// Forgets all outstanding entries; the queue lives (again), and its next entry is the first
    /// from here on whose name ends in the bits that `like` has under `mask`.
    pub(crate) fn restart(&mut self, like: u32, mask: u32) {
        self.tail = self.tail.wrapping_add(like.wrapping_sub(self.tail) & mask);
        self.clear();
        self.proven = self.tail.wrapping_sub(1);
        self.life = Life::Alive;
        self.flushing = false;
    }

    /// The queue is dead: the kernel gets no further sends.
    pub(crate) fn close(&mut self) {
        if self.life == Life::Alive {
            self.life = Life::Dying;
        }
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.life != Life::Alive
    }

    /// Whether all that the kernel had is settled.
    pub(crate) fn is_settled(&self) -> bool {
        self.life == Life::Dead
    }

    /// As [`fill`](Self::fill), with sends that were accepted after the death: each is flushed in its turn.
    pub(crate) fn fill_flushed(&mut self, mut accept: impl FnMut() -> Option<Posted>) {
        debug_assert!(self.is_closed());
        while let Some(free) = self.free()
            && let Some(posted) = accept()
        {
            let name = free.name();
            free.enter(Posted {
                standing: posted.standing.signaled(),
                ..posted
            });
            self.hold(name, Outcome::FLUSHED);
        }
    }

    /// The kernel will post no further CQE for this queue: what it owes is the library's.
    ///
    /// A silent send is over, and succeeded, unless `is_lost` says that the kernel never began with
    /// it, or may have dropped its flush CQE.
    pub(crate) fn settle(&mut self, is_lost: impl Fn(u32) -> bool) {
        debug_assert!(self.is_closed());
        let mut name = self.head;
        while name != self.tail {
            match self.entry(name).standing.stage() {
                Stage::Silent if !self.flushes_in_order() && !is_lost(name) => {
                    self.hold(name, Outcome::DONE);
                }
                Stage::Silent | Stage::Awaited => self.hold(name, Outcome::FLUSHED),
                Stage::Held => {}
            }
            name = name.wrapping_add(1);
        }
        self.life = Life::Dead;
    }

    /// Whether the kernel has nothing that is outstanding.
    pub(crate) fn is_all_held(&self) -> bool {
        self.held == self.outstanding()
    }

    /// Whether something that the kernel has is waited for, or holds others up.
    pub(crate) fn is_held_up(&self) -> bool {
        self.awaits_cqe()
            || (self.held > 0 && !self.has_held())
            || (self.flushes_in_order() && !self.is_all_held())
    }

    /// Whether a flush CQE has come of a kernel that flushes in order, silent sends too: what is behind
    /// it was not done.
    fn flushes_in_order(&self) -> bool {
        self.flushing && self.order == CqeOrder::Posting
    }

    /// Whether the kernel is certain to post a CQE, whatever happens.
    pub(crate) fn awaits_cqe(&self) -> bool {
        let mut name = self.head;
        while name != self.tail {
            if self.entry(name).standing.stage() == Stage::Awaited {
                return true;
            }
            name = name.wrapping_add(1);
        }
        false
    }

    /// Whether a send that was posted as `name` or later has been seen to succeed.
    pub(crate) fn is_proven_since(&self, name: u32) -> bool {
        self.proven.wrapping_sub(name) < u32::MAX / 2
    }

    /// Entry `name` and others behind it, as far as the kernel's CQEs for their success, in this order, tell
    /// nothing but that; up to one that is not [`due`](Entry::due).
    ///
    /// [`succeed`](Self::succeed) notes those CQEs. What is left is for [`complete`](Self::complete).
    #[inline(always)]
    pub(crate) fn due_from(&mut self, name: u32) -> &[Entry] {
        if self.held > 0 || (self.head != name && !self.has_come_to(name)) {
            return &[];
        }
        self.run_of_head()
    }

    /// Retires the silent entries before `name`; whether it is the next one then.
    #[inline(always)]
    fn has_come_to(&mut self, name: u32) -> bool {
        if self.is_outstanding(name) {
            self.retire_silent_before(name);
        }
        self.head == name
    }

    /// Entry `name` and others behind it, if it is the next of a dead queue: as far as the kernel's CQEs for
    /// their flush, in this order, tell nothing but that. Silent ones are flushed as well.
    ///
    /// [`pass_flushed`](Self::pass_flushed) notes those CQEs. What is left is for [`complete`](Self::complete),
    /// the first flush CQE of a queue too.
    #[inline(always)]
    pub(crate) fn flushed_from(&self, name: u32) -> &[Entry] {
        let is_known = self.flushing || self.order != CqeOrder::Posting;
        if !self.is_closed() || !is_known || self.held > 0 || self.head != name {
            return &[];
        }
        self.run_of_head()
    }

    /// Notes the kernel's CQEs for the flush of the first `count` that [`flushed_from`](Self::flushed_from) has
    /// shown, and retires them.
    #[inline(always)]
    pub(crate) fn pass_flushed(&mut self, count: u32) {
        self.head = self.head.wrapping_add(count);
    }

    /// The outstanding entries from the first on, as far as they stand one behind the other.
    #[inline(always)]
    fn run_of_head(&self) -> &[Entry] {
        self.entries.run(self.head, self.outstanding())
    }

    /// Notes the kernel's CQE for the success of entry `name`, if it tells nothing but that, as in
    /// [`due_from`](Self::due_from), and nothing comes before it; what its completion says. See [`Entry::due`].
    #[inline(always)]
    pub(crate) fn succeed_next(
        &mut self,
        name: u32,
        may_be_unasked: bool,
    ) -> Option<(u64, ibv_wc_opcode)> {
        if self.held > 0 || self.head != name || self.tail == name {
            return None;
        }
        let due = self.entries.get(name).due(may_be_unasked)?;
        self.head = name.wrapping_add(1);
        self.proven = name;
        Some(due)
    }

    /// Notes the kernel's CQEs for the success of the first `count` that [`due_from`](Self::due_from) has shown.
    #[inline(always)]
    pub(crate) fn succeed(&mut self, count: u32) {
        if count > 0 {
            self.head = self.head.wrapping_add(count);
            self.proven = self.head.wrapping_sub(1);
        }
    }

    /// Notes the kernel's CQE for entry `name`.
    pub(crate) fn complete(&mut self, name: u32, outcome: Outcome) -> Progress {
        if !self.is_outstanding(name) || self.entry(name).standing.stage() == Stage::Held {
            return Progress::Stale;
        }
        if outcome.status == Outcome::SUCCESS {
            self.proven = name;
        } else if outcome.status == Outcome::FLUSHED.status {
            self.flush_dropped_before(name);
        }
        self.retire_silent_before(name);
        if self.head == name {
            let entry = *self.entry(name);
            self.head = name.wrapping_add(1);
            return match Self::due(&entry, outcome) {
                Some(sent) => Progress::Due(sent),
                None => Progress::Noted,
            };
        }
        if self.order == CqeOrder::Posting {
            self.complete_dropped_before(name, outcome);
        }
        self.hold(name, outcome);
        Progress::Noted
    }

    /// The next send that is due although its CQE came earlier.
    pub(crate) fn next_held(&mut self) -> Option<Sent> {
        while self.has_held() {
            let entry = *self.entry(self.head);
            self.head = self.head.wrapping_add(1);
            if entry.standing.stage() == Stage::Silent {
                continue;
            }
            self.held = self.held.wrapping_sub(1);
            let outcome = Outcome {
                status: entry.standing.status(),
                byte_len: entry.byte_len,
            };
            if let Some(sent) = Self::due(&entry, outcome) {
                return Some(sent);
            }
        }
        None
    }

    /// Whether [`next_held`](Self::next_held) would find something to look at.
    pub(crate) fn has_held(&self) -> bool {
        self.held > 0
            && match self.entry(self.head).standing.stage() {
                Stage::Held => true,
                // A dying kernel may still flush it.
                Stage::Silent => self.life == Life::Alive,
                Stage::Awaited => false,
            }
    }

    /// Retires the silent entries at the head that come before `name`: the kernel has finished
    /// them, and no CQE of theirs is on its way.
    ///
    /// This keeps an application that never asks for a completion from filling its queue.
    pub(crate) fn retire_silent_before(&mut self, name: u32) {
        while self.head != name && self.entry(self.head).standing.stage() == Stage::Silent {
            self.head = self.head.wrapping_add(1);
        }
    }

    pub(crate) fn is_outstanding(&self, name: u32) -> bool {
        name.wrapping_sub(self.head) < self.outstanding()
    }

    /// The CQEs of `head..name` were dropped at a full CQ (linux 6.1 `rxe_cq.c: rxe_cq_post`).
    ///
    /// A later success proves theirs; behind a later failure the kernel has destroyed their status.
    fn complete_dropped_before(&mut self, name: u32, later: Outcome) {
        let outcome = if later.status == Outcome::SUCCESS {
            Outcome::DONE
        } else {
            Outcome::FLUSHED
        };
        let mut dropped = self.head;
        while dropped != name {
            if self.entry(dropped).standing.stage() == Stage::Awaited {
                self.hold(dropped, outcome);
            }
            dropped = dropped.wrapping_add(1);
        }
    }

    /// A flush CQE for `name` has come. rxe flushes silent sends too, and in order: those between two
    /// flush CQEs were flushed, and theirs dropped at a full CQ.
    fn flush_dropped_before(&mut self, name: u32) {
        if self.order != CqeOrder::Posting {
            return;
        }
        let mut dropped = self.head;
        while self.flushing && dropped != name {
            if self.entry(dropped).standing.stage() == Stage::Silent {
                self.hold(dropped, Outcome::FLUSHED);
            }
            dropped = dropped.wrapping_add(1);
        }
        self.flushing = true;
    }

    fn hold(&mut self, name: u32, outcome: Outcome) {
        let entry = self.entry_mut(name);
        entry.standing = entry.standing.held(outcome.status);
        entry.byte_len = outcome.byte_len;
        self.held = self.held.wrapping_add(1);
    }

    /// An unsuccessful send is always due, an unsignaled one that succeeded never.
    fn due(entry: &Entry, outcome: Outcome) -> Option<Sent> {
        (entry.standing.is_signaled() || outcome.status != Outcome::SUCCESS).then_some(Sent {
            wr_id: entry.wr_id,
            opcode: entry.standing.opcode(),
            outcome,
        })
    }

    fn entry(&self, name: u32) -> &Entry {
        self.entries.get(name)
    }

    fn entry_mut(&mut self, name: u32) -> &mut Entry {
        self.entries.get_mut(name)
    }
}
