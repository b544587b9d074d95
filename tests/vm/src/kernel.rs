// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
//! Debian kernels, taken from their packages and never installed.

use std::fmt::{self, Display};
use std::fs;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use crate::cache::{Cache, fingerprint, remove};
use crate::error::{Context, Error, Result};
use crate::packages::{self, Packages};
use crate::process::{progress, run, tool};
use crate::{kbuild, modules, siw};

/// A kernel series that the project is tested on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Series {
    /// Debian 12's own.
    V6_1,
    /// The one of Debian 12's backports.
    V6_12,
}

impl Series {
    pub(crate) const ALL: [Self; 2] = [Self::V6_1, Self::V6_12];
}

impl Display for Series {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::V6_1 => "6.1",
            Self::V6_12 => "6.12",
        })
    }
}

impl FromStr for Series {
    type Err = Error;

    fn from_str(name: &str) -> Result<Self> {
        let known = Self::ALL
            .into_iter()
            .find(|series| series.to_string() == name);
        known.ok_or_else(|| Error::new(format!("no kernel \"{name}\": there are 6.1 and 6.12")))
    }
}

/// Where the headers are kept that modules are built against.
const KEPT: &str = "build";

/// A kernel in the cache, ready to boot.
#[derive(Clone, Debug)]
pub(crate) struct Kernel {
    dir: PathBuf,
}

impl Kernel {
    /// Returns the cached kernel of `series`, making it if there is none, or if `refresh` finds a
    /// newer one.
    pub(crate) fn get(
        cache: &Cache,
        packages: &Packages,
        series: Series,
        refresh: bool,
    ) -> Result<Self> {
        let recipe = fingerprint(modules::WANTED.iter().copied().chain([KEPT]));
        let name = format!("kernel/{series}_{recipe}");
        if let Some(dir) = cache.current(&name).filter(|_| !refresh) {
            return Ok(Self { dir });
        }
        let _alone = cache.lock(&name)?;
        if let Some(dir) = cache.current(&name).filter(|_| !refresh) {
            return Ok(Self { dir });
        }
        packages.install(packages::KERNEL)?;
        let image = newest_image(&packages.show("linux-image-amd64")?, series)?;
        progress(&format!(
            "kernel {series} is {} ({})",
            image.release, image.version
        ));
        let version = format!("kernel/{}_{}_{recipe}", image.release, image.version);
        let dir = cache.publish(&name, &version, |part| {
            assemble(packages, series, &image, part)
        })?;
        Ok(Self { dir })
    }

    /// The compressed image that QEMU loads.
    pub(crate) fn image(&self) -> PathBuf {
        self.dir.join("vmlinuz")
    }

    /// What `uname -r` says there.
    pub(crate) fn release(&self) -> Result<String> {
        let file = self.dir.join("release");
        fs::read_to_string(&file).context(|| file.display().to_string())
    }

    /// Where its headers are, as [`kbuild`] wants them.
    pub(crate) fn build_root(&self) -> PathBuf {
        self.dir.join(KEPT)
    }

    /// A busybox that needs no library.
    pub(crate) fn busybox(&self) -> PathBuf {
        self.dir.join("busybox")
    }

    /// The modules to load, in this order.
    pub(crate) fn modules(&self) -> Result<Vec<PathBuf>> {
        let order = self.dir.join("modules/order");
        let text = fs::read_to_string(&order).context(|| order.display().to_string())?;
        Ok(text
            .lines()
            .map(|file| self.dir.join("modules").join(file))
            .collect())
    }
}

/// A kernel image package that the metapackage depends on.
#[derive(Debug, PartialEq, Eq)]
struct Image {
    /// What `uname -r` says.
    release: String,
    /// The Debian version of its packages.
    version: String,
}

/// Finds the newest image of `series` in the stanzas of linux-image-amd64:
/// `Depends: linux-image-RELEASE (= VERSION)`.
fn newest_image(stanzas: &str, series: Series) -> Result<Image> {
    let prefix = format!("linux-image-{series}.");
    let dependency = stanzas
        .lines()
        .filter_map(|line| line.strip_prefix("Depends: "))
        .flat_map(|line| line.split(", "))
        .find(|package| package.starts_with(&prefix))
        .ok_or_else(|| Error::new(format!("linux-image-amd64 knows no kernel {series}")))?;
    let (package, version) = dependency.split_once(" (= ").ok_or_else(|| {
        Error::new(format!(
            "linux-image-amd64 depends on \"{dependency}\" without a version"
        ))
    })?;
    let release = package.trim_start_matches("linux-image-").to_owned();
    Ok(Image {
        release,
        version: version.trim_end_matches(')').to_owned(),
    })
}

fn assemble(packages: &Packages, series: Series, image: &Image, part: &Path) -> Result<()> {
    let release = &image.release;
    let base = release.trim_end_matches("-amd64");
    // Up to 6.1 all kernels of a series shared their build programs.
    let kbuild = match series {
        Series::V6_1 => "linux-kbuild-6.1".to_owned(),
        Series::V6_12 => format!("linux-kbuild-{base}"),
    };
    let names = [
        format!("linux-image-{release}"),
        format!("linux-headers-{release}"),
        format!("linux-headers-{base}-common"),
        kbuild,
        format!("linux-source-{series}"),
        "busybox-static".to_owned(),
    ];
    let root = part.join("root");
    packages.unpack(&names, &root)?;
    copy(
        &root.join(format!("boot/vmlinuz-{release}")),
        &part.join("vmlinuz"),
    )?;
    copy(&root.join("bin/busybox"), &part.join("busybox"))?;
    run(tool("depmod").arg("--basedir").arg(&root).arg(release))?;
    let to = part.join("modules");
    let mut order = modules::collect(&root.join(format!("lib/modules/{release}")), &to)?;
    kbuild::relocate(&root, release)?;
    copy(&siw::build(&root, release)?, &to.join("siw.ko"))?;
    order.push("siw.ko".to_owned());
    fs::write(to.join("order"), order.join("\n")).context(|| "modules/order".into())?;
    fs::write(part.join("release"), release).context(|| "release".into())?;
    kbuild::keep(&root, &part.join(KEPT))?;
    remove(&root)
}

fn copy(from: &Path, to: &Path) -> Result<()> {
    fs::copy(from, to).context(|| from.display().to_string())?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    const STANZAS: &str = "\
Package: linux-image-amd64
Version: 6.12.95-1~bpo12+1
Depends: linux-image-6.12.95+deb12-amd64 (= 6.12.95-1~bpo12+1)

Package: linux-image-amd64
Version: 6.1.192-3
Depends: foo, linux-image-6.1.0-57-amd64 (= 6.1.192-3)

Package: linux-image-amd64
Version: 6.1.190-1
Depends: linux-image-6.1.0-56-amd64 (= 6.1.190-1)
";

    #[test]
    fn a_series_is_not_mistaken_for_its_longer_namesake() {
        let image = newest_image(STANZAS, Series::V6_1).unwrap();
        assert_eq!(
            (image.release.as_str(), image.version.as_str()),
            ("6.1.0-57-amd64", "6.1.192-3")
        );
        let image = newest_image(STANZAS, Series::V6_12).unwrap();
        assert_eq!(image.release, "6.12.95+deb12-amd64");
    }

    #[test]
    fn an_archive_without_the_series_is_an_error() {
        assert!(newest_image("Package: linux-image-amd64\n", Series::V6_1).is_err());
    }
}
