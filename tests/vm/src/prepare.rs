// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
//! `vm prepare`: fills the cache, so that the runs that follow need no network.

use crate::args::Prepare;
use crate::cache::Cache;
use crate::error::Result;
use crate::kernel::{Kernel, Series};
use crate::packages::{self, Packages};
use crate::userland::Userland;

/// Installs what is missing and makes every kernel and userland.
pub(crate) fn run(request: &Prepare) -> Result<u8> {
    let cache = Cache::open()?;
    let packages = Packages::open(&cache)?;
    let needed = [
        packages::MACHINE,
        packages::APPLICATIONS,
        packages::GUEST,
        packages::KERNEL,
        packages::PROVIDER,
    ]
    .concat();
    packages.install(&needed)?;
    for series in Series::ALL {
        Kernel::get(&cache, &packages, series, request.refresh)?;
    }
    for userland in Userland::ALL {
        if !request.no_userlands {
            userland.get(&cache, &packages, request.refresh)?;
        }
    }
    Ok(0)
}
