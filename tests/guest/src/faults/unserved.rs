// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause

//! A libibverbs or a kernel that the provider does not know: it leaves the device alone.

use std::env;
use std::process::Command;

use guest::links::Device;
use guest::suite::{Outcome, Stop, Suite};
use guest::verbs::Context;

use super::libfault::{below_with, is_below};

pub(super) fn add(suite: &mut Suite) {
    for device in Device::ALL {
        for (fault, told) in [
            ("private_abi", "none of the known private ABIs"),
            ("layout", "not found"),
        ] {
            suite.case(format!("faults/{device}/{fault}"), move || {
                stock_serves(device, fault, told)
            });
        }
        let name = format!("faults/{device}/kernel_abi");
        suite.case(name.clone(), move || kernel_abi(device, &name));
    }
}

/// The provider says in one line why it declines, and the stock provider serves the device.
fn stock_serves(device: Device, fault: &str, told: &str) -> Outcome {
    only_lastwqe()?;
    let case = format!("served_by/{device}/library");
    let mut command = below_with(fault, &case)?;
    match lines_of_lastwqe(command.env("PROVIDER", "stock"))?.as_slice() {
        [line] if line.contains(told) => Ok(()),
        lines => Err(Stop::Fail(format!("logged: {lines:?}"))),
    }
}

/// No provider knows the kernel's ABI version: libibverbs says so and lists no such device.
///
/// It compares the version with a provider's range before it lets the provider near the device, so
/// the range is all that a provider can do about it, and the stock provider has the same.
fn kernel_abi(device: Device, case: &str) -> Outcome {
    only_lastwqe()?;
    if is_below() {
        let opened = Context::open(device.ibdev());
        assert!(opened.is_err(), "{opened:?}");
        return Ok(());
    }
    let lines = lines_of_lastwqe(&mut below_with("kernel_abi", case)?)?;
    let told = format!("lastwqe-{device} does not support the kernel ABI of 1000");
    assert!(lines.iter().any(|line| line.contains(&told)), "{lines:?}");
    Ok(())
}

fn only_lastwqe() -> Outcome {
    if env::var("PROVIDER").as_deref() == Ok("lastwqe") {
        return Ok(());
    }
    Err(Stop::skip("PROVIDER is not lastwqe"))
}

/// The lines that name the provider, of a case that succeeds.
fn lines_of_lastwqe(command: &mut Command) -> Result<Vec<String>, Stop> {
    let output = command
        .env("VERBS_LOG_LEVEL", "1")
        // Without a file a release build of libibverbs does not log (rdma-core v44.0
        // `libibverbs/init.c: verbs_log_file_fallback`).
        .env("VERBS_LOG_FILE", "/proc/self/fd/2")
        .output()?;
    let verdict = String::from_utf8_lossy(&output.stdout);
    assert!(verdict.starts_with("ok "), "{}: {verdict}", output.status);
    Ok(String::from_utf8_lossy(&output.stderr)
        .lines()
        .filter(|line| line.contains("lastwqe"))
        .map(str::to_owned)
        .collect())
}
