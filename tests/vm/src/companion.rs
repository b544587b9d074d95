// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
//! Builds the companion module (`companion/`) for a kernel. Guests find it, and do not load it.

use std::fs;
use std::path::PathBuf;

use crate::cache::{fingerprint, remove};
use crate::error::{Context, Result};
use crate::kbuild;
use crate::kernel::Kernel;
use crate::packages::{self, Packages};
use crate::process::progress;
use crate::project::Project;

const MODULE: &str = "lastwqe_events.ko";

/// Returns the module, built anew if its source has changed.
pub(crate) fn build(project: &Project, packages: &Packages, kernel: &Kernel) -> Result<PathBuf> {
    let source = project.root.join("companion");
    let mut files = Vec::new();
    for entry in fs::read_dir(&source)
        .context(|| source.display().to_string())?
        .flatten()
    {
        let path = entry.path();
        // What a build by hand has left is not copied.
        let is_source = path.file_name().is_some_and(|name| name == "Kbuild")
            || path
                .extension()
                .is_some_and(|kind| kind == "c" || kind == "h");
        if is_source && !path.to_string_lossy().ends_with(".mod.c") {
            files.push((
                entry.file_name().to_string_lossy().into_owned(),
                fs::read_to_string(&path).context(|| path.display().to_string())?,
            ));
        }
    }
    files.sort();
    let release = kernel.release()?;
    let recipe = files.iter().flat_map(|(name, text)| [&**name, &**text]);
    let name = format!("vm/companion/{release}_{}", fingerprint(recipe));
    let directory = project.target.join(name);
    let built = directory.join(MODULE);
    if built.exists() {
        return Ok(built);
    }
    packages.install(packages::KERNEL)?;
    progress(&format!("building the companion for {release}"));
    let part = directory.with_extension(format!("{}.part", std::process::id()));
    remove(&part)?;
    fs::create_dir_all(&part).context(|| part.display().to_string())?;
    for (name, text) in files {
        fs::write(part.join(&name), text).context(|| name)?;
    }
    kbuild::make(&kernel.build_root(), &release, &part, &[])?;
    fs::create_dir_all(&directory).context(|| directory.display().to_string())?;
    // Only a whole one gets the name that others look for.
    fs::rename(part.join(MODULE), &built).context(|| built.display().to_string())?;
    remove(&part)?;
    Ok(built)
}
