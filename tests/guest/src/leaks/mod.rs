// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause

//! Theme `leaks`: what is destroyed is gone, in the kernel, in the process and on the heap.

mod objects;
pub(crate) mod usage;

use guest::suite::Suite;

/// Adds the cases of this theme.
pub(crate) fn add(suite: &mut Suite) {
    objects::add(suite);
}
