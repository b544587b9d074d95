// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause

//! How accepted work requests get into a ledger: one list at a time.

/// Fills free entries in turn, those from `tail` to `end` of `mask + 1`, a power of two: `accept` is told the name
/// of each, and answers with what goes in, or that there is nothing more. The name behind the last one filled.
///
/// What is the same for all of a list is asked for once, and only `tail` changes.
#[inline(always)]
#[expect(
    clippy::indexing_slicing,
    reason = "masked: there are mask + 1 entries"
)]
pub(super) fn fill<E>(
    entries: &mut [E],
    mask: u32,
    mut tail: u32,
    end: u32,
    mut accept: impl FnMut(u32) -> Option<E>,
) -> u32 {
    while tail != end {
        let Some(accepted) = accept(tail) else { break };
        // CAST: u32 fits usize on every target that libibverbs supports.
        entries[(tail & mask) as usize] = accepted;
        tail = tail.wrapping_add(1);
    }
    tail
}
