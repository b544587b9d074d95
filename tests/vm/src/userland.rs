// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
//! The Debian releases whose rdma-core a job can run on: this machine's, and trees of later ones.

use std::fmt::{self, Display};
use std::path::PathBuf;
use std::str::FromStr;
use std::time::SystemTime;

use crate::cache::{Cache, fingerprint};
use crate::error::{Context, Error, Result};
use crate::packages::{self, Packages};
use crate::process::{progress, run, tool};

/// A Debian release, with its rdma-core.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Userland {
    /// The machine's own root: Debian 12.
    Host,
    Trixie,
    Sid,
}

impl Userland {
    pub(crate) const ALL: [Self; 3] = [Self::Host, Self::Trixie, Self::Sid];

    fn suite(self) -> Option<&'static str> {
        match self {
            Self::Host => None,
            Self::Trixie => Some("trixie"),
            Self::Sid => Some("sid"),
        }
    }

    /// Returns the directory that is this userland's root, making it if there is none or if
    /// `refresh` asks for a new one.
    pub(crate) fn get(self, cache: &Cache, packages: &Packages, refresh: bool) -> Result<PathBuf> {
        let Some(suite) = self.suite() else {
            packages.install(packages::GUEST)?;
            return Ok(PathBuf::from("/"));
        };
        let recipe = fingerprint(packages::GUEST.iter().copied());
        let name = format!("userland/{suite}_{recipe}");
        if let Some(root) = cache.current(&name).filter(|_| !refresh) {
            return Ok(root);
        }
        let _alone = cache.lock(&name)?;
        if let Some(root) = cache.current(&name).filter(|_| !refresh) {
            return Ok(root);
        }
        packages.install(packages::USERLAND)?;
        progress(&format!("making a {suite} userland"));
        let now = SystemTime::now()
            .duration_since(SystemTime::UNIX_EPOCH)
            .context(|| "the clock".into())?;
        let version = format!("{name}_{}", now.as_secs());
        let archive = packages.archive()?;
        cache.publish(&name, &version, |part| {
            // A mount namespace of its own: what debootstrap mounts is gone with it, however it
            // ends.
            run(tool("unshare")
                .args(["--mount", "debootstrap", "--variant=minbase"])
                .arg(format!("--include={}", packages::GUEST.join(",")))
                .arg(suite)
                .arg(part)
                .arg(archive)
                // An older debootstrap has no script of a later release's name; all of them are
                // this one.
                .arg("/usr/share/debootstrap/scripts/sid"))
        })
    }
}

impl Display for Userland {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Host => "12",
            Self::Trixie => "13",
            Self::Sid => "sid",
        })
    }
}

impl FromStr for Userland {
    type Err = Error;

    fn from_str(name: &str) -> Result<Self> {
        let known = Self::ALL
            .into_iter()
            .find(|userland| userland.to_string() == name);
        known.ok_or_else(|| Error::new(format!("no userland \"{name}\": there are 12, 13 and sid")))
    }
}
