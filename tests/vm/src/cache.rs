// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
//! What is expensive to make and outlives `cargo clean`: kernels, userlands, package lists.
//!
//! An entry is either whole or absent: it is made under a `.part` name by the one process that
//! holds its lock, then renamed. Entries are named by their version; a link beside them says which
//! one is in use, so that a newer version never disturbs a machine that still reads the older one.

use std::fs::{self, File};
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use crate::error::{Context, Error, Result};

/// The cache directory: `$LASTWQE_CACHE`, else `$XDG_CACHE_HOME/lastwqe`, else `~/.cache/lastwqe`.
#[derive(Clone, Debug)]
pub(crate) struct Cache {
    root: PathBuf,
}

impl Cache {
    pub(crate) fn open() -> Result<Self> {
        let var = |name| {
            std::env::var_os(name)
                .filter(|value| !value.is_empty())
                .map(PathBuf::from)
        };
        let root = var("LASTWQE_CACHE")
            .or_else(|| var("XDG_CACHE_HOME").map(|dir| dir.join("lastwqe")))
            .or_else(|| var("HOME").map(|dir| dir.join(".cache/lastwqe")))
            .ok_or_else(|| Error::new("no place for the cache: set LASTWQE_CACHE or HOME"))?;
        fs::create_dir_all(&root).context(|| root.display().to_string())?;
        let root = root.canonicalize().context(|| root.display().to_string())?;
        Ok(Self { root })
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.root.join(name)
    }

    /// Waits until this process alone works on `name`; dropping the file ends that.
    pub(crate) fn lock(&self, name: &str) -> Result<File> {
        let path = self.path(&format!("{name}.lock"));
        if let Some(parent) = path.parent() {
            fs::create_dir_all(parent).context(|| parent.display().to_string())?;
        }
        let file = File::create(&path).context(|| path.display().to_string())?;
        file.lock().context(|| path.display().to_string())?;
        Ok(file)
    }

    /// Returns the entry that the link `name` points to, if there is one.
    pub(crate) fn current(&self, name: &str) -> Option<PathBuf> {
        self.path(name).canonicalize().ok()
    }

    /// Makes the entry `version`, unless it is there already, and lets the link `name` point to it.
    ///
    /// The caller holds the lock of `name`. Both names share their parent directory.
    pub(crate) fn publish(
        &self,
        name: &str,
        version: &str,
        make: impl FnOnce(&Path) -> Result<()>,
    ) -> Result<PathBuf> {
        let entry = self.path(version);
        if !entry.exists() {
            let part = self.path(&format!("{name}.part"));
            remove(&part)?;
            fs::create_dir_all(&part).context(|| part.display().to_string())?;
            make(&part)?;
            fs::rename(&part, &entry).context(|| entry.display().to_string())?;
        }
        let target = entry
            .file_name()
            .ok_or_else(|| Error::new("a cache entry without a name"))?;
        let link = self.path(&format!("{name}.link"));
        remove(&link)?;
        symlink(target, &link).context(|| link.display().to_string())?;
        fs::rename(&link, self.path(name)).context(|| name.to_owned())?;
        Ok(entry)
    }
}

/// Removes whatever is at `path`; nothing there is fine.
pub(crate) fn remove(path: &Path) -> Result<()> {
    let done = match path.symlink_metadata() {
        Err(_) => return Ok(()),
        Ok(found) if found.is_dir() => fs::remove_dir_all(path),
        Ok(_) => fs::remove_file(path),
    };
    done.context(|| path.display().to_string())
}

/// Returns eight hex digits that change with the recipe, so that an entry made by an older one is
/// not used.
///
/// FNV-1a (32 bits): the standard library promises no hash that stays the same from release to
/// release.
pub(crate) fn fingerprint<'a>(recipe: impl IntoIterator<Item = &'a str>) -> String {
    let bytes = recipe.into_iter().flat_map(|part| part.bytes().chain([0]));
    let hash = bytes.fold(0x811c_9dc5_u32, |hash, byte| {
        (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193)
    });
    format!("{hash:08x}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scratch(name: &str) -> Cache {
        let root = std::env::temp_dir().join(format!("vm-cache-{name}-{}", std::process::id()));
        remove(&root).unwrap();
        fs::create_dir_all(&root).unwrap();
        Cache { root }
    }

    #[test]
    fn a_failed_entry_is_not_used_and_does_not_stay_in_the_way() {
        let cache = scratch("failed");
        let failed = cache.publish("k", "k_1", |part| {
            fs::write(part.join("half"), "").unwrap();
            Err(Error::new("stop"))
        });
        assert!(failed.is_err());
        assert_eq!(cache.current("k"), None);
        let made = cache.publish("k", "k_1", |part| {
            assert!(!part.join("half").exists());
            fs::write(part.join("whole"), "").context(String::new)
        });
        assert_eq!(made.unwrap(), cache.path("k_1"));
        assert!(cache.current("k").unwrap().join("whole").exists());
        remove(&cache.root).unwrap();
    }

    #[test]
    fn a_newer_version_takes_the_link_and_leaves_the_older_one() {
        let cache = scratch("newer");
        cache.publish("k", "k_1", |_| Ok(())).unwrap();
        cache.publish("k", "k_2", |_| Ok(())).unwrap();
        assert_eq!(
            cache.current("k").unwrap(),
            cache.path("k_2").canonicalize().unwrap()
        );
        assert!(cache.path("k_1").exists());
        cache
            .publish("k", "k_1", |_| panic!("is there already"))
            .unwrap();
        assert_eq!(
            cache.current("k").unwrap(),
            cache.path("k_1").canonicalize().unwrap()
        );
        remove(&cache.root).unwrap();
    }

    #[test]
    fn a_fingerprint_tells_where_the_parts_end() {
        assert_eq!(fingerprint(["a", "b"]), fingerprint(["a", "b"]));
        assert_ne!(fingerprint(["ab"]), fingerprint(["a", "b"]));
    }
}
