// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause

//! Theme `flush_basic`: what is outstanding when a queue pair is moved to the error state completes
//! once, in order, and says what it was.

mod neighbours;
mod outstanding;
mod reads;

use guest::links::Device;
use guest::suite::{Case, Outcome, Suite};

/// Adds the cases of this theme.
pub(crate) fn add(suite: &mut Suite) {
    outstanding::add(suite);
    reads::add(suite);
    neighbours::add(suite);
}

/// Adds the case `name` of this theme.
fn case<'s>(
    suite: &'s mut Suite,
    device: Device,
    name: &str,
    run: impl Fn(Device) -> Outcome + 'static,
) -> &'s mut Case {
    suite.case(format!("flush_basic/{device}/{name}"), move || run(device))
}
