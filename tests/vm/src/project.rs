// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
//! The checkout that the harness was built from, and its own corner of the target directory.

use std::fs::{self, File};
use std::path::{Path, PathBuf};

use crate::cache::remove;
use crate::error::{Context, Error, Result};

/// Where things are.
#[derive(Clone, Debug)]
pub(crate) struct Project {
    /// The checkout.
    pub(crate) root: PathBuf,
    /// Cargo's target directory.
    pub(crate) target: PathBuf,
}

impl Project {
    pub(crate) fn find() -> Result<Self> {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        let root = root.canonicalize().context(|| root.display().to_string())?;
        // Cargo put this program into the directory it is asked to put the provider into.
        let program = std::env::current_exe().context(|| "this program's path".into())?;
        let target = program
            .ancestors()
            .nth(2)
            .ok_or_else(|| Error::new("this program is in no target directory"))?;
        Ok(Self {
            root,
            target: target.to_owned(),
        })
    }

    pub(crate) fn logs(&self) -> PathBuf {
        self.target.join("vm/logs")
    }
}

/// A directory for one run of the harness; removed when dropped, or by a later run if this one is
/// killed.
#[derive(Debug)]
pub(crate) struct Scratch {
    pub(crate) dir: PathBuf,
    _held: File,
}

impl Scratch {
    pub(crate) fn new(project: &Project) -> Result<Self> {
        let runs = project.target.join("vm/run");
        fs::create_dir_all(&runs).context(|| runs.display().to_string())?;
        // One at a time: between making a lock and taking it, a run would look like one that is no
        // more.
        let _alone = locked(&project.target.join("vm/run.lock"))?;
        sweep(&runs)?;
        let dir = runs.join(std::process::id().to_string());
        let held = locked(&dir.with_extension("lock"))?;
        fs::create_dir(&dir).context(|| dir.display().to_string())?;
        Ok(Self { dir, _held: held })
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // What cannot be removed now, a later run removes.
        remove(&self.dir).ok();
        remove(&self.dir.with_extension("lock")).ok();
    }
}

fn locked(path: &Path) -> Result<File> {
    let file = File::create(path).context(|| path.display().to_string())?;
    file.lock().context(|| path.display().to_string())?;
    Ok(file)
}

/// Removes the directories of runs that are no more.
fn sweep(runs: &Path) -> Result<()> {
    for entry in fs::read_dir(runs)
        .context(|| runs.display().to_string())?
        .flatten()
    {
        let lock = entry.path();
        if lock.extension().is_none_or(|extension| extension != "lock") {
            continue;
        }
        let Ok(file) = File::open(&lock) else {
            continue;
        };
        if file.try_lock().is_ok() {
            remove(&lock.with_extension(""))?;
            remove(&lock)?;
        }
    }
    Ok(())
}
