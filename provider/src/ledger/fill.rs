// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause

//! How accepted sends get into their ledger: one list at a time.

use super::entries::Entries;
use super::entry::{Entry, Posted};
use crate::cookie::{Cookie, CookieBase};

/// Fills free entries in turn, those from `tail` to `end`: `accept` is told the cookie of each, and answers with what is to
/// be remembered in it, or that there is nothing more. The name behind the last one filled.
///
/// What is the same for all of a list is asked for once, and where the entries stand one behind the other, so do their
/// cookies.
#[inline(always)]
pub(super) fn fill(
    entries: &mut Entries<Entry>,
    cookies: CookieBase,
    mut tail: u32,
    end: u32,
    mut accept: impl FnMut(u64) -> Option<Posted>,
) -> u32 {
    while tail != end {
        let mut cookie = cookies.with(tail);
        for entry in entries.run_mut(tail, end.wrapping_sub(tail)) {
            let Some(posted) = accept(cookie) else {
                return Cookie::entry(cookie);
            };
            entry.enter(posted);
            cookie = Cookie::next(cookie);
        }
        tail = Cookie::entry(cookie);
    }
    tail
}

/// The free entry that the next send gets.
#[derive(Debug)]
pub(crate) struct Free<'l> {
    name: u32,
    entry: &'l mut Entry,
    tail: &'l mut u32,
}

impl<'l> Free<'l> {
    /// The one of name `tail`.
    #[inline(always)]
    pub(super) fn at(entries: &'l mut Entries<Entry>, tail: &'l mut u32) -> Self {
        let name = *tail;
        let entry = entries.get_mut(name);
        Self { name, entry, tail }
    }

    #[inline(always)]
    pub(crate) fn name(&self) -> u32 {
        self.name
    }

    /// Enters a send.
    #[inline(always)]
    pub(crate) fn enter(self, posted: Posted) {
        self.entry.enter(posted);
        *self.tail = self.tail.wrapping_add(1);
    }
}
