// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
//! Builds `siw.ko`, which Debian's kernels leave out, from Debian's own kernel source.

use std::fs;
use std::path::{Path, PathBuf};

use crate::error::{Context, Error, Result};
use crate::kbuild;
use crate::process::{progress, run, tool};

const SOURCE: &str = "drivers/infiniband/sw/siw";

/// Builds the module for the kernel `release`, whose headers and source are unpacked below `root`.
pub(crate) fn build(root: &Path, release: &str) -> Result<PathBuf> {
    progress(&format!("building siw for {release}"));
    let packages = root.join("usr/src");
    let tarball = find(&packages, "linux-source-", ".tar.xz")?;
    run(tool("tar")
        .args([
            "--extract",
            "--xz",
            "--strip-components=1",
            "--wildcards",
            "--file",
        ])
        .arg(&tarball)
        .arg("--directory")
        .arg(root)
        .arg(format!("*/{SOURCE}/*")))?;
    let source = root.join(SOURCE);
    kbuild::make(root, release, &source, &["CONFIG_RDMA_SIW=m"])?;
    Ok(source.join("siw.ko"))
}

fn find(dir: &Path, prefix: &str, suffix: &str) -> Result<PathBuf> {
    let entries = fs::read_dir(dir).context(|| dir.display().to_string())?;
    entries
        .flatten()
        .map(|entry| entry.path())
        .find(|path| {
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            name.starts_with(prefix) && name.ends_with(suffix)
        })
        .ok_or_else(|| Error::new(format!("{} has no {prefix}*{suffix}", dir.display())))
}
