// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
//! Modules that are built out of the kernel's tree, against Debian's kernel headers.

use std::fs;
use std::path::{Path, PathBuf};

use crate::cache::remove;
use crate::error::{Context, Error, Result};
use crate::process::{run, tool};

/// Makes the headers of the kernel `release`, unpacked below `root`, usable from there, and from
/// wherever else the directory is moved to.
pub(crate) fn relocate(root: &Path, release: &str) -> Result<()> {
    // All that it says is where its common half is.
    let makefile = headers(root, release).join("Makefile");
    let name = || makefile.display().to_string();
    let text = fs::read_to_string(&makefile).context(name)?;
    fs::write(&makefile, text.replace("/usr/src/", "../")).context(name)
}

/// Moves headers and build programs from `root` to `to`; what else is there is left.
pub(crate) fn keep(root: &Path, to: &Path) -> Result<()> {
    for part in ["usr/src", "usr/lib"] {
        let (from, to) = (root.join(part), to.join(part));
        if let Some(parent) = to.parent() {
            fs::create_dir_all(parent).context(|| parent.display().to_string())?;
        }
        fs::rename(&from, &to).context(|| from.display().to_string())?;
    }
    let sources = to.join("usr/src");
    for entry in fs::read_dir(&sources)
        .context(|| sources.display().to_string())?
        .flatten()
    {
        // The kernel's own source.
        if entry.path().extension().is_some_and(|kind| kind == "xz") {
            remove(&entry.path())?;
        }
    }
    Ok(())
}

/// Builds the modules in `source` for the kernel `release`, whose headers are below `root`.
pub(crate) fn make(root: &Path, release: &str, source: &Path, variables: &[&str]) -> Result<()> {
    for path in [root, source] {
        // Kbuild splits paths at these, whatever the quoting.
        if path.to_string_lossy().contains([' ', ':', '\t']) {
            return Err(Error::new(format!(
                "kbuild cannot work below \"{}\"",
                path.display()
            )));
        }
    }
    run(tool("make")
        .arg("--silent")
        .arg("-C")
        .arg(headers(root, release))
        .arg(format!("M={}", source.display()))
        .args(variables)
        // Type information for BPF would need pahole and the whole vmlinux.
        .args(["CONFIG_DEBUG_INFO_BTF_MODULES=", "modules"]))
}

fn headers(root: &Path, release: &str) -> PathBuf {
    root.join(format!("usr/src/linux-headers-{release}"))
}
