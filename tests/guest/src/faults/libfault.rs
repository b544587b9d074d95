// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause

//! The process below `libfault.so`, and the faults that it suffers.

use std::process::{Command, Output};
use std::{env, io};

use guest::links::Device;
use guest::suite::{Case, Outcome, Stop, Suite};

use super::holdings::Holdings;

/// The variable that `libfault.so` reads.
const FAULT: &str = "LASTWQE_FAULT";

/// What `libfault.so` lets a failing `mmap` say.
pub(super) const MMAP_ERRNO: i32 = libc::EAGAIN;

/// Whether this is the process below `libfault.so`.
pub(super) fn is_below() -> bool {
    env::var_os("LD_PRELOAD").is_some()
}

/// The command that runs `case` below `libfault.so`.
pub(super) fn below(case: &str) -> io::Result<Command> {
    let program = env::current_exe()?;
    let library = program.with_file_name("libfault.so");
    if !library.exists() {
        let missing = format!("{} is not there", library.display());
        return Err(io::Error::new(io::ErrorKind::NotFound, missing));
    }
    let mut command = Command::new(program);
    command
        .args(["--case", case])
        .env("LD_PRELOAD", library)
        // Memory that malloc keeps aside for a thread would count as in use.
        .env("GLIBC_TUNABLES", "glibc.malloc.tcache_count=0");
    Ok(command)
}

/// As [`below`], with a fault that lasts.
pub(super) fn below_with(fault: &str, case: &str) -> io::Result<Command> {
    let mut command = below(case)?;
    command.env(FAULT, fault);
    Ok(command)
}

/// Adds the case `name`, whose `body` runs below `libfault.so`.
pub(super) fn case(
    suite: &mut Suite,
    name: String,
    body: impl Fn() -> Outcome + 'static,
) -> &mut Case {
    suite.case(name.clone(), move || {
        if is_below() {
            return body();
        }
        let Output { status, stdout, .. } = below(&name)?.output()?;
        let printed = String::from_utf8_lossy(&stdout);
        if status.success() {
            return Ok(());
        }
        // The verdict, or what the process was doing when it died.
        let last = printed.lines().last().unwrap_or_default();
        Err(Stop::Fail(format!("{status}: {last}")))
    })
}

/// Calls `verb` under `fault`: it must fail with `errno` and leave everything as it was.
#[expect(
    clippy::print_stdout,
    reason = "the last line is what the process died of, if it does"
)]
pub(super) fn fails(
    device: Device,
    fault: &str,
    errno: i32,
    verb: impl FnOnce() -> io::Result<()>,
) -> Outcome {
    println!("under {fault}");
    // SAFETY: the process has one thread, so nobody reads the environment meanwhile.
    unsafe { env::set_var(FAULT, fault) };
    let returned = Holdings::kept_by(device, verb)?;
    assert_eq!(env::var_os(FAULT), None, "{fault} has not struck");
    let Err(error) = returned else {
        panic!("{fault}: the verb succeeds");
    };
    let expected = io::Error::from_raw_os_error(errno);
    assert_eq!(
        error.raw_os_error(),
        Some(errno),
        "{fault}: {error} instead of {expected}"
    );
    Ok(())
}
