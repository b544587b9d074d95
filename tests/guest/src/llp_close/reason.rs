// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause

//! Why a connection has ended, as the companion module knows it.

/// A reason.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Reason {
    /// The module is not concerned.
    None,
    /// By the peer; with sends in the queue it is a bad close.
    Closed,
    Reset,
    Lost,
    Terminated,
}

impl Reason {
    /// What the module counts it as.
    pub(super) fn counters(self) -> &'static [&'static str] {
        match self {
            Self::None => &[],
            Self::Closed => &["closed", "bad_close"],
            Self::Reset => &["reset"],
            Self::Lost => &["lost"],
            Self::Terminated => &["terminated"],
        }
    }
}
