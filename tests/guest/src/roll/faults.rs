// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause

//! What can be wrong with a set of completions.

use std::fmt;
use std::ops::AddAssign;

/// Faults of each kind, counted, with the first few spelled out.
#[derive(Debug, Default, Clone)]
pub struct Faults {
    lost: Finding,
    doubled: Finding,
    ghosts: Finding,
    misordered: Finding,
    wrong: Finding,
}

/// How many examples of a kind are kept.
const EXAMPLES: usize = 3;

#[derive(Debug, Default, Clone)]
struct Finding {
    count: usize,
    examples: Vec<String>,
}

impl Finding {
    fn add(&mut self, example: String) {
        self.count += 1;
        if self.examples.len() < EXAMPLES {
            self.examples.push(example);
        }
    }
}

impl Faults {
    /// Notes a completion that was due and did not come.
    pub(super) fn lost(&mut self, example: String) {
        self.lost.add(example);
    }

    /// Notes a second completion of one request.
    pub(super) fn doubled(&mut self, example: String) {
        self.doubled.add(example);
    }

    /// Notes a completion of no request that was accepted, or of one that had to stay silent.
    pub(super) fn ghost(&mut self, example: String) {
        self.ghosts.add(example);
    }

    /// Notes a completion that a later one of its queue has overtaken.
    pub(super) fn misordered(&mut self, example: String) {
        self.misordered.add(example);
    }

    /// Notes a completion whose fields or whose status cannot be.
    pub(super) fn wrong(&mut self, example: String) {
        self.wrong.add(example);
    }

    fn findings(&self) -> [(&'static str, &Finding); 5] {
        [
            ("lost", &self.lost),
            ("doubled", &self.doubled),
            ("ghosts", &self.ghosts),
            ("misordered", &self.misordered),
            ("wrong", &self.wrong),
        ]
    }

    /// The counts that are not 0.
    #[cfg(test)]
    pub(super) fn kinds(&self) -> Vec<(&'static str, usize)> {
        let counts = self.findings().map(|(name, finding)| (name, finding.count));
        counts.into_iter().filter(|&(_, count)| count > 0).collect()
    }

    /// Whether nothing is wrong.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.findings()
            .iter()
            .all(|(_, finding)| finding.count == 0)
    }
}

impl AddAssign for Faults {
    fn add_assign(&mut self, other: Self) {
        let add = |to: &mut Finding, from: Finding| {
            to.count += from.count;
            to.examples.extend(from.examples);
            to.examples.truncate(EXAMPLES);
        };
        add(&mut self.lost, other.lost);
        add(&mut self.doubled, other.doubled);
        add(&mut self.ghosts, other.ghosts);
        add(&mut self.misordered, other.misordered);
        add(&mut self.wrong, other.wrong);
    }
}

impl fmt::Display for Faults {
    /// Writes each count, and examples behind the kinds that have any.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, (name, finding)) in self.findings().into_iter().enumerate() {
            let comma = if at == 0 { "" } else { ", " };
            write!(f, "{comma}{name} {}", finding.count)?;
            if !finding.examples.is_empty() {
                write!(f, " ({})", finding.examples.join("; "))?;
            }
        }
        Ok(())
    }
}
