// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
//! Runs commands and test plans against the kernel's software RDMA drivers, in a virtual machine.
//!
//! The guest boots a Debian kernel over a read-only view of this machine's files, in an emulator,
//! within seconds. See `tests/README.md` for how tests use it.

mod apt_sources;
mod args;
mod boot;
mod cache;
mod cases;
mod companion;
mod console;
mod error;
mod initramfs;
mod judge;
mod kbuild;
mod kernel;
mod modules;
mod newc;
mod packages;
mod plan;
mod prepare;
mod process;
mod project;
mod provider;
mod qemu;
mod record;
mod report;
mod run;
mod session;
mod siw;
mod stream;
mod suite;
mod task;
mod userland;

use std::io::{self, Write};
use std::process::ExitCode;

use crate::args::Request;
use crate::error::{Context, Result};
use crate::process::progress;

/// The harness itself has failed, not what it ran.
const HARNESS_FAILED: u8 = 125;

fn main() -> ExitCode {
    match serve() {
        Ok(status) => ExitCode::from(status),
        Err(error) => {
            progress(&error.to_string());
            ExitCode::from(HARNESS_FAILED)
        }
    }
}

fn serve() -> Result<u8> {
    match args::parse(std::env::args().skip(1))? {
        Request::Help => {
            io::stdout()
                .write_all(args::USAGE.as_bytes())
                .context(|| "stdout".into())?;
            Ok(0)
        }
        Request::Run(request) => run::run(&request),
        Request::Suite(request) => suite::run(&request),
        Request::Prepare(request) => prepare::run(&request),
    }
}
