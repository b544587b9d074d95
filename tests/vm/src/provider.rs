// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
//! Which libibverbs provider a job runs on, and the build of the project's own.

use std::fmt::{self, Display};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::str::FromStr;

use crate::error::{Context, Error, Result};
use crate::packages::{self, Packages};
use crate::process::{progress, tool};
use crate::project::Project;

/// A libibverbs provider.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Provider {
    /// The one that comes with the userland's rdma-core.
    Stock,
    /// The project's.
    Lastwqe,
}

impl Provider {
    /// In the order in which a job runs on them.
    pub(crate) const ALL: [Self; 2] = [Self::Stock, Self::Lastwqe];
}

impl Display for Provider {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Stock => "stock",
            Self::Lastwqe => "lastwqe",
        })
    }
}

impl FromStr for Provider {
    type Err = Error;

    fn from_str(name: &str) -> Result<Self> {
        let known = Self::ALL
            .into_iter()
            .find(|provider| provider.to_string() == name);
        known.ok_or_else(|| {
            Error::new(format!(
                "no provider \"{name}\": there are stock and lastwqe"
            ))
        })
    }
}

/// The private ABIs of the userlands and of the releases between them: libibverbs looks for
/// `NAME-rdmavABI.so`.
const PRIVATE_ABIS: [u32; 5] = [34, 57, 59, 64, 65];

/// Builds the provider and puts a copy into `directory`, under each name that a libibverbs looks
/// for.
///
/// A copy, because the next build must not change the provider of a guest that runs.
pub(crate) fn build(project: &Project, packages: &Packages, directory: &Path) -> Result<PathBuf> {
    packages.install(packages::PROVIDER)?;
    let library = project.target.join("release/liblastwqe.so");
    if !library.exists() {
        progress("building the provider");
    }
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let built = tool(&cargo.to_string_lossy())
        .current_dir(&project.root)
        .args([
            "build",
            "--quiet",
            "--release",
            "--package",
            "lastwqe",
            "--target-dir",
        ])
        .arg(&project.target)
        .stderr(Stdio::inherit())
        .status()
        .context(|| "cargo".into())?;
    if !built.success() {
        return Err(Error::new(
            "the provider does not build; --provider stock runs without it",
        ));
    }
    fs::create_dir_all(directory).context(|| directory.display().to_string())?;
    for abi in PRIVATE_ABIS {
        let name = directory.join(format!("liblastwqe-rdmav{abi}.so"));
        fs::copy(&library, &name).context(|| library.display().to_string())?;
    }
    Ok(directory.to_owned())
}
