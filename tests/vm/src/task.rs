// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
//! What a guest is asked to do, and how that ended.

use std::fmt::{self, Display};
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::kernel::Series;
use crate::provider::Provider;
use crate::qemu::quoted;
use crate::userland::Userland;

/// One run of a command in a guest.
#[derive(Clone, Debug)]
pub(crate) struct Task {
    /// What bash runs, environment included.
    pub(crate) script: String,
    pub(crate) deadline: Duration,
    /// The directory that the command sees as `/`.
    pub(crate) root: PathBuf,
}

/// How a task ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum End {
    /// By itself, with this exit status.
    Exited(i32),
    /// Killed at its deadline.
    Late,
    /// With the guest, for this reason.
    Lost(String),
}

impl Display for End {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Exited(status) => write!(f, "exit status {status}"),
            Self::Late => f.write_str("deadline"),
            Self::Lost(reason) => f.write_str(reason),
        }
    }
}

/// What is known of a task that was run.
#[derive(Clone, Debug)]
pub(crate) struct Outcome {
    pub(crate) end: End,
    /// The lines with which the kernel reported trouble meanwhile.
    pub(crate) alarms: Vec<String>,
    pub(crate) took: Duration,
}

/// What a command finds in its environment, beside the usual.
#[derive(Clone, Debug)]
pub(crate) struct Setting<'a> {
    pub(crate) kernel: Series,
    pub(crate) userland: Userland,
    pub(crate) provider: Provider,
    /// Where the project's provider is; unused for the stock one.
    pub(crate) provider_dir: &'a Path,
    pub(crate) target_dir: &'a Path,
}

impl Setting<'_> {
    /// Writes the script that runs `command` in the directory `cwd`.
    ///
    /// Which provider a program loads is decided by its environment alone.
    pub(crate) fn script(&self, cwd: &Path, command: &str) -> String {
        let path = |path: &Path| path.to_string_lossy().into_owned();
        let mut variables = vec![
            ("KERNEL", self.kernel.to_string()),
            ("USERLAND", self.userland.to_string()),
            ("PROVIDER", self.provider.to_string()),
            ("CARGO_TARGET_DIR", path(self.target_dir)),
        ];
        if self.provider == Provider::Lastwqe {
            variables.push(("LASTWQE_DIR", path(self.provider_dir)));
            variables.push(("RDMAV_DRIVERS", path(&self.provider_dir.join("liblastwqe"))));
        }
        let exports: String = variables
            .iter()
            .map(|(name, value)| format!("export {name}={}\n", quoted(value)))
            .collect();
        format!("{exports}cd {} || exit\n{command}\n", quoted(&path(cwd)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_environment_tells_the_providers_apart() {
        let setting = |provider| Setting {
            kernel: Series::V6_12,
            userland: Userland::Host,
            provider,
            provider_dir: Path::new("/a b"),
            target_dir: Path::new("/t"),
        };
        let ours = setting(Provider::Lastwqe).script(Path::new("/w"), "true");
        assert!(
            ours.contains("export RDMAV_DRIVERS='/a b/liblastwqe'\n"),
            "{ours}"
        );
        assert!(ours.ends_with("cd /w || exit\ntrue\n"), "{ours}");
        let stock = setting(Provider::Stock).script(Path::new("/w"), "true");
        assert!(!stock.contains("/a b"), "{stock}");
        assert!(stock.contains("export PROVIDER=stock\n"), "{stock}");
    }
}
