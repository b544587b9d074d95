// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause

//! The guest tests: one module per theme, each of which adds its cases to the suite.

#![expect(
    clippy::arithmetic_side_effects,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "a panic in a test process is how a case fails: the runner reports its message"
)]

mod async_events;
mod bad_input;
mod faults;
mod leaks;
mod served_by;
mod traffic;
mod wc_fields;

use std::process::ExitCode;

use guest::runner;
use guest::suite::Suite;

fn main() -> ExitCode {
    let mut suite = Suite::default();
    served_by::add(&mut suite);
    traffic::add(&mut suite);
    wc_fields::add(&mut suite);
    bad_input::add(&mut suite);
    faults::add(&mut suite);
    async_events::add(&mut suite);
    leaks::add(&mut suite);
    runner::main(&suite)
}
