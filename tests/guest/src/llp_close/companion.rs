// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause

//! The companion module, if it is loaded: how many connections have ended for which reason.

use std::fs;
use std::path::Path;

use guest::suite::Stop;

const PARAMETERS: &str = "/sys/module/lastwqe_events/parameters";

/// Why a connection has ended, as the module knows it.
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

/// Whether the module is loaded.
pub(super) fn is_loaded() -> bool {
    Path::new(PARAMETERS).exists()
}

/// How many connections have ended so; none if the module is not loaded, or not concerned.
///
/// # Errors
///
/// A counter that is not there, or no number.
pub(super) fn count(reason: Reason) -> Result<Option<u64>, Stop> {
    let names: &[&str] = match reason {
        Reason::None => &[],
        Reason::Closed => &["closed", "bad_close"],
        Reason::Reset => &["reset"],
        Reason::Lost => &["lost"],
        Reason::Terminated => &["terminated"],
    };
    if names.is_empty() || !is_loaded() {
        return Ok(None);
    }
    let mut sum: u64 = 0;
    for name in names {
        let text = fs::read_to_string(format!("{PARAMETERS}/{name}"))?;
        sum += text.trim().parse::<u64>()?;
    }
    Ok(Some(sum))
}
