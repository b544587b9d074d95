// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause

//! How accepted work requests get into a ledger: one list at a time.

/// Fills free entries in turn, those from `tail` to `end` of `mask + 1`, a power of two: `accept` is told the name
/// of each, and answers with what is to be remembered in it, or that there is nothing more. The name behind the last
/// one filled.
///
/// What is the same for all of a list is asked for once, and only `tail` changes.
#[inline(always)]
#[expect(
    clippy::indexing_slicing,
    reason = "masked: there are mask + 1 entries"
)]
pub(super) fn fill<E, P: EnteredAs<E>>(
    entries: &mut [E],
    mask: u32,
    mut tail: u32,
    end: u32,
    mut accept: impl FnMut(u32) -> Option<P>,
) -> u32 {
    while tail != end {
        let Some(accepted) = accept(tail) else { break };
        // CAST: u32 fits usize on every target that libibverbs supports.
        accepted.enter(&mut entries[(tail & mask) as usize]);
        tail = tail.wrapping_add(1);
    }
    tail
}

/// What is to be remembered of a work request.
pub(crate) trait EnteredAs<E> {
    /// Has a free entry be that of this one.
    fn enter(self, entry: &mut E);
}

/// The free entry that the next work request gets.
#[derive(Debug)]
pub(crate) struct Free<'l, E> {
    name: u32,
    entry: &'l mut E,
    tail: &'l mut u32,
}

impl<'l, E> Free<'l, E> {
    /// The one of name `tail`, among `mask + 1`.
    #[inline(always)]
    pub(super) fn at(entries: &'l mut [E], mask: u32, tail: &'l mut u32) -> Option<Self> {
        let name = *tail;
        // CAST: u32 fits usize on every target that libibverbs supports.
        let entry = entries.get_mut((name & mask) as usize)?;
        Some(Self { name, entry, tail })
    }

    #[inline(always)]
    pub(crate) fn name(&self) -> u32 {
        self.name
    }

    /// Enters a work request.
    #[inline(always)]
    pub(crate) fn enter(self, posted: impl EnteredAs<E>) {
        posted.enter(self.entry);
        *self.tail = self.tail.wrapping_add(1);
    }
}
