// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause

//! What a victim has to do when it dies, where its application only reads events.

use crate::scene::Plan;

/// A load.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Load {
    /// Nothing.
    Empty,
    /// Sends and receives.
    Full,
    /// Its receives come from an SRQ.
    Shared,
}

impl Load {
    /// All loads.
    pub const ALL: [Self; 3] = [Self::Empty, Self::Full, Self::Shared];

    /// What cases call it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Empty => "empty",
            Self::Full => "full",
            Self::Shared => "shared",
        }
    }

    /// The scene that it takes.
    #[must_use]
    pub fn plan(self) -> Plan {
        match self {
            Self::Shared => Plan::SHARED,
            Self::Empty | Self::Full => Plan::PLAIN,
        }
    }
}
