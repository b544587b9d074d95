// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause

//! Theme `flush_basic`: what is outstanding when a queue pair is moved to the error state completes
//! once, in order, and says what it was.

mod neighbours;
mod outstanding;
mod reads;

use guest::suite::Suite;

/// Adds the cases of this theme.
pub(crate) fn add(suite: &mut Suite) {
    outstanding::add(suite);
    reads::add(suite);
    neighbours::add(suite);
}
