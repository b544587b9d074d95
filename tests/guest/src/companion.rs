// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause

//! The companion module, if it is loaded: what it has counted.

use std::fs;
use std::path::Path;

use crate::suite::Stop;

const PARAMETERS: &str = "/sys/module/lastwqe_events/parameters";

/// Whether the module is loaded.
#[must_use]
pub fn is_loaded() -> bool {
    Path::new(PARAMETERS).exists()
}

/// The sum of these counters; none if the module is not loaded, or there are none.
///
/// # Errors
///
/// A counter that is not there, or no number.
pub fn count(counters: &[&str]) -> Result<Option<u64>, Stop> {
    if counters.is_empty() || !is_loaded() {
        return Ok(None);
    }
    let mut sum: u64 = 0;
    for name in counters {
        let text = fs::read_to_string(format!("{PARAMETERS}/{name}"))?;
        sum += text.trim().parse::<u64>()?;
    }
    Ok(Some(sum))
}
