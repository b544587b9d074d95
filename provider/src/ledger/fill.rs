// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause

//! How accepted work requests get into a ledger: one list at a time.

use super::entries::Entries;

/// Fills free entries in turn, those from `tail` to `end`: `accept` is told the name of each, and answers with what is to
/// be remembered in it, or that there is nothing more. The name behind the last one filled.
///
/// What is the same for all of a list is asked for once, and only `tail` changes.
#[inline(always)]
pub(super) fn fill<E, P: EnteredAs<E>>(
    entries: &mut Entries<E>,
    mut tail: u32,
    end: u32,
    mut accept: impl FnMut(u32) -> Option<P>,
) -> u32 {
    while tail != end {
        let Some(accepted) = accept(tail) else { break };
        accepted.enter(entries.get_mut(tail));
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
    /// The one of name `tail`.
    #[inline(always)]
    pub(super) fn at(entries: &'l mut Entries<E>, tail: &'l mut u32) -> Self {
        let name = *tail;
        let entry = entries.get_mut(name);
        Self { name, entry, tail }
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
