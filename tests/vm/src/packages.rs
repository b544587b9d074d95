// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
//! Debian packages: tools are installed when missing, kernels are only downloaded and unpacked.
//!
//! Everything goes through a private package index in the cache: it adds backports, and leaves the
//! machine's own package lists as they are.

use std::cell::Cell;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::apt_sources::{self, Source};
use crate::cache::{Cache, remove};
use crate::error::{Context, Error, Result};
use crate::process::{output_of, progress, run, tool};

/// What boots a machine, and what jobs find in this machine's own userland alone.
pub(crate) const MACHINE: &[&str] = &["kmod", "qemu-system-x86", "strace", "valgrind"];

/// Larger applications that only test plans run, in this machine's own userland too.
pub(crate) const APPLICATIONS: &[&str] = &[
    "fio",
    "libfabric-bin",
    "openmpi-bin",
    "python3-mpi4py",
    "qperf",
    "ucx-utils",
];

/// What prepares a kernel: `depmod`, the modules' compression, and a build against kernel headers
/// (their prebuilt programs need libelf, libssl and zlib).
pub(crate) const KERNEL: &[&str] = &[
    "gcc-12",
    "kmod",
    "libc6-dev",
    "libelf1",
    "libssl3",
    "make",
    "xz-utils",
    "zlib1g",
];

/// What the provider and its tests are compiled against; bindgen loads libclang.
pub(crate) const PROVIDER: &[&str] = &[
    "gcc",
    "libc6-dev",
    "libclang-dev",
    "libibverbs-dev",
    "librdmacm-dev",
];

/// What jobs find in every userland, this machine's own included.
pub(crate) const GUEST: &[&str] = &[
    "ibverbs-providers",
    "ibverbs-utils",
    "iproute2",
    "perftest",
    "procps",
    "python3-pyverbs",
    "rdmacm-utils",
];

/// What makes a userland.
pub(crate) const USERLAND: &[&str] = &["debootstrap"];

/// The private package index.
#[derive(Debug)]
pub(crate) struct Packages {
    cache: Cache,
    dir: PathBuf,
    release: String,
    sources: Vec<Source>,
    fresh: Cell<bool>,
}

impl Packages {
    /// Reads the machine's apt sources; nothing is fetched before it is needed.
    pub(crate) fn open(cache: &Cache) -> Result<Self> {
        let os_release =
            fs::read_to_string("/etc/os-release").context(|| "/etc/os-release".into())?;
        let release = os_release
            .lines()
            .find_map(|line| line.strip_prefix("VERSION_CODENAME="))
            .map(|name| name.trim_matches('"').to_owned())
            .ok_or_else(|| {
                Error::new("/etc/os-release has no VERSION_CODENAME: is this Debian?")
            })?;
        let sources = apt_sources::read(Path::new("/etc/apt"))?;
        Ok(Self {
            cache: cache.clone(),
            dir: cache.path("apt"),
            release,
            sources,
            fresh: Cell::new(false),
        })
    }

    /// Returns the address of the machine's Debian archive.
    pub(crate) fn archive(&self) -> Result<&str> {
        Ok(&apt_sources::archive(&self.sources, &self.release)?.uri)
    }

    /// Installs those of `names` that are missing.
    pub(crate) fn install(&self, names: &[&str]) -> Result<()> {
        let missing = missing(names)?;
        if missing.is_empty() {
            return Ok(());
        }
        let _alone = self.cache.lock("apt")?;
        self.refresh()?;
        progress(&format!("installing {}", missing.join(" ")));
        let source = self.source_for(&missing);
        run(self
            .install_command(&missing)
            .args(source)
            .env("DEBIAN_FRONTEND", "noninteractive")
            .args(["--yes", "-o", "DPkg::Lock::Timeout=600"]))?;
        run(self.apt("apt-get").arg("clean"))
    }

    /// Returns apt's options for where `names` come from: the release, and else its backports.
    ///
    /// A machine may have a part of QEMU from there, `qemu-utils` mostly, which the release's own
    /// `qemu-system-x86` breaks. apt then refuses, rather than to remove what is here, and the rest has to come
    /// from backports too.
    fn source_for(&self, names: &[&str]) -> Vec<String> {
        let backports = vec![format!("--target-release={}-backports", self.release)];
        let refuses = |source: &[String]| {
            let mut trial = self.install_command(names);
            output_of(trial.args(source).arg("--simulate")).is_err()
        };
        if refuses(&[]) && !refuses(&backports) {
            backports
        } else {
            Vec::new()
        }
    }

    fn install_command(&self, names: &[&str]) -> Command {
        let mut command = self.apt("apt-get");
        command
            .args(["install", "--no-install-recommends"])
            .args(names);
        command
    }

    /// Returns the control stanzas of all versions of the package `name`, newest first.
    pub(crate) fn show(&self, name: &str) -> Result<String> {
        let _alone = self.cache.lock("apt")?;
        self.refresh()?;
        output_of(self.apt("apt-cache").args(["show", name]))
    }

    /// Downloads the packages `names` and unpacks them below `root`, without installing them.
    pub(crate) fn unpack(&self, names: &[String], root: &Path) -> Result<()> {
        let _alone = self.cache.lock("apt")?;
        self.refresh()?;
        progress(&format!("fetching {}", names.join(" ")));
        let debs = root.join(".debs");
        fs::create_dir_all(&debs).context(|| debs.display().to_string())?;
        run(self
            .apt("apt-get")
            .current_dir(&debs)
            .arg("download")
            .args(names))?;
        for deb in fs::read_dir(&debs).context(|| debs.display().to_string())? {
            let deb = deb.context(|| debs.display().to_string())?.path();
            run(tool("dpkg").arg("-x").arg(&deb).arg(root))?;
        }
        remove(&debs)
    }

    /// Fetches the package lists, once in the life of this process.
    fn refresh(&self) -> Result<()> {
        if self.fresh.get() {
            return Ok(());
        }
        progress("fetching package lists");
        for dir in ["sources.d", "lists/partial", "cache/archives/partial"] {
            let dir = self.dir.join(dir);
            fs::create_dir_all(&dir).context(|| dir.display().to_string())?;
        }
        let sources = apt_sources::of_release(&self.sources, &self.release)?;
        let stanzas: String = sources.iter().map(Source::stanza).collect();
        let file = self.dir.join("sources.d/machine.sources");
        fs::write(&file, stanzas).context(|| file.display().to_string())?;
        run(self.apt("apt-get").args(["update", "--error-on=any"]))?;
        self.fresh.set(true);
        Ok(())
    }

    fn apt(&self, program: &str) -> Command {
        let option = |name: &str, dir: &str| format!("{name}={}", self.dir.join(dir).display());
        let mut command = tool(program);
        command.arg("-qq");
        // The cache may be closed to apt's own user; as root, apt then warns at every step.
        for setting in [
            "Dir::Etc::sourcelist=/dev/null".to_owned(),
            option("Dir::Etc::sourceparts", "sources.d"),
            option("Dir::State::Lists", "lists"),
            option("Dir::Cache", "cache"),
            "APT::Sandbox::User=root".to_owned(),
        ] {
            command.arg("-o").arg(setting);
        }
        command
    }
}

fn missing<'a>(names: &[&'a str]) -> Result<Vec<&'a str>> {
    let mut query = tool("dpkg-query");
    query
        .args(["--show", "--showformat", "${Package} ${db:Status-Status}\n"])
        .args(names);
    // Its exit status only says that a name is unknown, which the missing line says as well.
    let known = query.output().context(|| "dpkg-query".into())?;
    let known = String::from_utf8_lossy(&known.stdout);
    let installed = |name: &str| {
        known
            .lines()
            .any(|line| line == format!("{name} installed"))
    };
    Ok(names
        .iter()
        .copied()
        .filter(|name| !installed(name))
        .collect())
}
