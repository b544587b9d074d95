// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause

//! The ledger of a QP's own receive queue.

use super::{Receives, entries};
use crate::errno::Result;

/// The caller's `wr_id`s of outstanding receives, in posting order.
///
/// # Invariants
///
/// `head..tail` are the outstanding entries, named by free-running counters; there are at most
/// `depth`.
#[derive(Debug)]
pub(crate) struct RecvLedger {
    wr_ids: Box<[u64]>,
    mask: u32,
    depth: u32,
    head: u32,
    tail: u32,
}

#[expect(
    clippy::indexing_slicing,
    reason = "masked: there are mask + 1 entries"
)]
impl RecvLedger {
    /// An empty ledger for at most `depth` outstanding receives.
    ///
    /// # Errors
    ///
    /// `ENOMEM`; `EINVAL` if `depth` is above 2^31.
    pub(crate) fn new(depth: u32) -> Result<Self> {
        let (wr_ids, mask) = entries(depth)?;
        Ok(Self {
            wr_ids,
            mask,
            depth,
            head: 0,
            tail: 0,
        })
    }

    fn outstanding(&self) -> u32 {
        self.tail.wrapping_sub(self.head)
    }

    /// Forgets all outstanding entries.
    pub(crate) fn clear(&mut self) {
        self.head = self.tail;
    }

    /// Retires entry `name` for its CQE; `None` if it is not outstanding.
    ///
    /// Entries before it leave with it: a QP's receives complete in order, so their CQEs were
    /// dropped at a full CQ.
    pub(crate) fn complete(&mut self, name: u32) -> Option<u64> {
        if name.wrapping_sub(self.head) >= self.outstanding() {
            return None;
        }
        self.head = name.wrapping_add(1);
        Some(self.wr_ids[self.index(name)])
    }

    fn index(&self, name: u32) -> usize {
        // CAST: u32 fits usize on every target that libibverbs supports.
        (name & self.mask) as usize
    }
}

#[expect(
    clippy::indexing_slicing,
    reason = "masked: there are mask + 1 entries"
)]
impl Receives for RecvLedger {
    fn is_full(&self) -> bool {
        self.outstanding() >= self.depth
    }

    fn next(&self) -> u32 {
        self.tail
    }

    fn push(&mut self, wr_id: u64) {
        debug_assert!(!self.is_full());
        let index = self.index(self.tail);
        self.wr_ids[index] = wr_id;
        self.tail = self.tail.wrapping_add(1);
    }
}
