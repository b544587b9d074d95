// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
//! The first root file system of a machine: busybox, the modules and the guest's scripts.

use std::fs;
use std::path::Path;

use crate::error::{Context, Result};
use crate::kernel::Kernel;
use crate::newc::Archive;

/// The busybox programs that `guest/init` uses.
const APPLETS: &[&str] = &[
    "cp",
    "insmod",
    "mkdir",
    "mount",
    "poweroff",
    "sh",
    "switch_root",
];

/// Without this, dummy makes a first device of its own accord, and a guest would not start with
/// `lo` alone.
const OPTIONS: &[(&str, &str)] = &[("dummy.ko", "numdummies=0")];

/// Builds the archive at every boot: it takes milliseconds, and no stale copy can be in use.
///
/// Jobs find `companion`, which is not loaded, and the drivers, which they may load again, in `/run/vm`.
pub(crate) fn build(kernel: &Kernel, companion: &Path) -> Result<Vec<u8>> {
    let read = |path: &Path| fs::read(path).context(|| path.display().to_string());
    let mut archive = Archive::default();
    for directory in [
        "bin", "modules", "guest", "proc", "sys", "dev", "host", "overlay", "root",
    ] {
        archive.directory(directory);
    }
    archive.program("init", include_bytes!("../guest/init"));
    archive.program("guest/agent", include_bytes!("../guest/agent"));
    archive.program("guest/links", include_bytes!("../guest/links"));
    archive.program("guest/clean", include_bytes!("../guest/clean"));
    archive.program("guest/lastwqe_events.ko", &read(companion)?);
    archive.program("bin/busybox", &read(&kernel.busybox())?);
    for applet in APPLETS {
        archive.symlink(&format!("bin/{applet}"), "busybox");
    }
    let mut order = String::new();
    for module in kernel.modules()? {
        let name = module.file_name().unwrap_or_default().to_string_lossy();
        archive.program(&format!("modules/{name}"), &read(&module)?);
        let options = OPTIONS
            .iter()
            .find(|(module, _)| *module == name)
            .map_or("", |(_, options)| options);
        order.push_str(&format!("{name} {options}\n"));
    }
    archive.program("modules/order", order.as_bytes());
    Ok(archive.finish())
}
