// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
//! The kernel modules that a machine loads, in an order in which each finds what it depends on.

use std::collections::HashMap;
use std::fs;
use std::path::Path;

use crate::error::{Context, Error, Result};
use crate::process::{run, tool};

/// What a machine needs, by module name; `siw` is built separately and loaded last.
///
/// The first five carry the machine's files and results. rxe asks the crypto layer for "crc32", siw
/// for "crc32c": the generic ones, which the emulated processor runs faster than the vector
/// variants. With `tcp_diag`, ss(8) can reset a connection.
pub(crate) const WANTED: &[&str] = &[
    "virtio_pci",
    "virtio_console",
    "9pnet_virtio",
    "9p",
    "overlay",
    "crc32_generic",
    "crc32c_generic",
    "libcrc32c",
    "ib_uverbs",
    "iw_cm",
    "rdma_ucm",
    "rdma_rxe",
    "dummy",
    "veth",
    "sch_netem",
    "tcp_diag",
];

/// Copies the wanted modules and their dependencies from the kernel's module tree into `to`,
/// uncompressed, and returns their file names in loading order.
///
/// # Errors
///
/// When a wanted module neither exists nor is built into the kernel.
pub(crate) fn collect(tree: &Path, to: &Path) -> Result<Vec<String>> {
    let read = |name: &str| fs::read_to_string(tree.join(name)).context(|| name.to_owned());
    let dep = read("modules.dep")?;
    let order = loading_order(WANTED, &dep, &read("modules.builtin")?)?;
    fs::create_dir_all(to).context(|| to.display().to_string())?;
    let mut names = Vec::new();
    for path in order {
        let file = path.rsplit('/').next().unwrap_or(path);
        let copy = to.join(file);
        fs::copy(tree.join(path), &copy).context(|| path.to_owned())?;
        if file.ends_with(".xz") {
            run(tool("xz").args(["--decompress", "--force"]).arg(&copy))?;
        }
        names.push(file.trim_end_matches(".xz").to_owned());
    }
    Ok(names)
}

/// Orders `wanted` and what they need by the lines of modules.dep(5): `PATH: DEPENDENCY…`.
fn loading_order<'a>(wanted: &[&str], dep: &'a str, builtin: &str) -> Result<Vec<&'a str>> {
    let entries: HashMap<&str, &str> = dep
        .lines()
        .filter_map(|line| line.split_once(':'))
        .collect();
    let by_name: HashMap<String, &str> = entries
        .keys()
        .map(|path| (module_name(path), *path))
        .collect();
    let mut order = Vec::new();
    for name in wanted {
        if let Some(path) = by_name.get(*name) {
            add(path, &entries, &mut order);
        } else if !builtin.lines().any(|path| module_name(path) == *name) {
            return Err(Error::new(format!("this kernel has no module {name}")));
        }
    }
    Ok(order)
}

fn add<'a>(path: &'a str, entries: &HashMap<&'a str, &'a str>, order: &mut Vec<&'a str>) {
    if order.contains(&path) {
        return;
    }
    // depmod lists all of a module's dependencies, indirect ones too, the first to load last.
    for dependency in entries.get(path).unwrap_or(&"").split_whitespace().rev() {
        add(dependency, entries, order);
    }
    order.push(path);
}

/// Returns the name that the kernel gives to the module in file `path`.
fn module_name(path: &str) -> String {
    let file = path.rsplit('/').next().unwrap_or(path);
    file.split(".ko").next().unwrap_or(file).replace('-', "_")
}

#[cfg(test)]
mod tests {
    use super::*;

    const DEP: &str = "\
k/rxe.ko.xz: k/udp-tunnel.ko.xz k/core.ko.xz
k/udp-tunnel.ko.xz:
k/core.ko.xz: k/crc.ko.xz
k/crc.ko.xz:
";

    #[test]
    fn dependencies_come_first_and_once() {
        let order = loading_order(&["crc", "rxe", "udp_tunnel"], DEP, "").unwrap();
        assert_eq!(
            order,
            [
                "k/crc.ko.xz",
                "k/core.ko.xz",
                "k/udp-tunnel.ko.xz",
                "k/rxe.ko.xz"
            ]
        );
    }

    #[test]
    fn builtin_modules_need_no_file() {
        let order =
            loading_order(&["virtio_pci", "crc"], DEP, "kernel/virtio/virtio_pci.ko\n").unwrap();
        assert_eq!(order, ["k/crc.ko.xz"]);
        assert!(loading_order(&["virtio_pci"], DEP, "").is_err());
    }
}
