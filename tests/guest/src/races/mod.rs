// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause

//! Theme `races`: requests are posted and polled while queue pairs die and go. Whatever comes first,
//! each request completes once.
//!
//! The environment variable `GUEST_ROUNDS` says how often each race is run; a hundred is thorough.

mod crowd;
mod duel;
mod neighbour;
mod silent;

use std::env;
use std::fmt::Display;

use guest::roll::{Faults, Roll};
use guest::suite::{Outcome, Stop, Suite, remark};

/// Adds the cases of this theme.
pub(crate) fn add(suite: &mut Suite) {
    duel::add(suite);
    neighbour::add(suite);
    crowd::add(suite);
    silent::add(suite);
}

/// How often a race is run unless `GUEST_ROUNDS` says otherwise.
const ROUNDS: usize = 10;

/// How often a race is run.
pub(crate) fn rounds() -> usize {
    let asked = env::var("GUEST_ROUNDS").ok();
    asked.map_or(ROUNDS, |text| match text.parse() {
        Ok(rounds) => rounds,
        Err(error) => panic!("GUEST_ROUNDS={text}: {error}"),
    })
}

/// Seconds that a race may take that needs `each` for a round, on a loaded machine.
pub(crate) fn deadline(each: u64) -> u64 {
    20 + rounds() as u64 * each
}

/// What all rounds of a race have come to.
#[derive(Default)]
struct Score {
    rounds: usize,
    requests: usize,
    faults: Faults,
}

impl Score {
    /// Adds a round.
    fn add(&mut self, roll: &Roll) {
        self.rounds += 1;
        self.requests += roll.len();
        self.faults += roll.faults();
    }

    /// Prints the figures, and fails if there is any fault.
    fn judge(self, name: impl Display) -> Outcome {
        let Self {
            rounds,
            requests,
            faults,
        } = self;
        let figures = format!("{rounds} rounds, {requests} requests: {faults}");
        remark(format_args!("{name}: {figures}"));
        if faults.is_empty() {
            return Ok(());
        }
        Err(Stop::Fail(figures))
    }
}
