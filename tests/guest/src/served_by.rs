// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause

//! Theme `served_by`: which library serves the device.
//!
//! Without it a suite that runs on the wrong provider would pass and prove nothing.

use std::env;
use std::ffi::{CStr, c_void};
use std::mem::MaybeUninit;
use std::path::Path;
use std::process::Command;

use guest::links::Device;
use guest::suite::{Outcome, Stop, Suite};
use guest::verbs::Context;

/// What the file of the provider under test is called, up to the ABI number.
const LASTWQE: &str = "liblastwqe-rdmav";

/// Adds the cases of this theme.
pub(crate) fn add(suite: &mut Suite) {
    for device in Device::ALL {
        suite.case(library_case(device), move || library(device));
        suite.case(format!("served_by/{device}/absolute_path"), move || {
            let dir = lastwqe_dir()?;
            rerun(
                device,
                "lastwqe",
                &[("RDMAV_DRIVERS", &format!("{dir}/liblastwqe"))],
            )
        });
        suite.case(
            format!("served_by/{device}/name_and_library_path"),
            move || {
                let variables = [
                    ("RDMAV_DRIVERS", "lastwqe"),
                    ("LD_LIBRARY_PATH", &lastwqe_dir()?),
                ];
                rerun(device, "lastwqe", &variables)
            },
        );
        suite.case(format!("served_by/{device}/no_environment"), move || {
            lastwqe_dir()?;
            rerun(device, "stock", &[])
        });
    }
}

fn library_case(device: Device) -> String {
    format!("served_by/{device}/library")
}

/// The hot verbs of the device come from the library that `PROVIDER` names.
fn library(device: Device) -> Outcome {
    let expected = match env::var("PROVIDER").as_deref() {
        Ok("stock") => device.stock_provider(),
        Ok("lastwqe") => LASTWQE,
        _ => return Err(Stop::skip("PROVIDER is neither stock nor lastwqe")),
    };
    let context = Context::open(device.ibdev())?;
    // SAFETY: the context is open; its operations do not change after that.
    let ops = unsafe { (*context.raw()).ops };
    for (name, address) in [
        ("post_send", ops.post_send.map(|verb| verb as *const c_void)),
        ("poll_cq", ops.poll_cq.map(|verb| verb as *const c_void)),
    ] {
        let file = address.and_then(file_of).unwrap_or_default();
        let is = Path::new(&file)
            .file_name()
            .and_then(|name| name.to_str())
            .unwrap_or_default();
        assert!(
            is.starts_with(expected),
            "{name} is served by {file:?}, not by {expected}*.so"
        );
    }
    Ok(())
}

/// The file of the library that holds `address`.
fn file_of(address: *const c_void) -> Option<String> {
    let mut info = MaybeUninit::<libc::Dl_info>::zeroed();
    // SAFETY: `info` is a valid place, and any address may be asked for.
    if unsafe { libc::dladdr(address, info.as_mut_ptr()) } == 0 {
        return None;
    }
    // SAFETY: dladdr has filled it in; the name lives as long as the library is loaded.
    let name = unsafe { CStr::from_ptr(info.assume_init().dli_fname) };
    name.to_str().ok().map(str::to_owned)
}

/// Where the provider under test lies, if it is under test.
fn lastwqe_dir() -> Result<String, Stop> {
    if env::var("PROVIDER").as_deref() != Ok("lastwqe") {
        return Err(Stop::skip("PROVIDER is not lastwqe"));
    }
    env::var("LASTWQE_DIR").map_err(|_| Stop::skip("LASTWQE_DIR is not set"))
}

/// Runs [`library`] anew with these variables and no others that choose a provider.
fn rerun(device: Device, provider: &str, variables: &[(&str, &str)]) -> Outcome {
    let output = Command::new(env::current_exe()?)
        .args(["--case", &library_case(device)])
        .env_remove("RDMAV_DRIVERS")
        .env_remove("IBV_DRIVERS")
        .env_remove("LD_LIBRARY_PATH")
        .env("PROVIDER", provider)
        .envs(variables.iter().copied())
        .output()?;
    let verdict = String::from_utf8_lossy(&output.stdout);
    assert!(verdict.starts_with("ok "), "with {variables:?}: {verdict}");
    Ok(())
}
