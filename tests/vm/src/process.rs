// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
//! Child processes that end with the harness and explain themselves when they fail.

use std::io::{self, Write};
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};

use crate::error::{Context, Error, Result};

/// How much of a failed command's output its error quotes.
const QUOTED_LINES: usize = 20;

/// Says on stderr what the harness is busy with, for steps that take more than a moment.
pub(crate) fn progress(text: &str) {
    // Nobody to tell is no reason to stop.
    writeln!(io::stderr(), "vm: {text}").ok();
}

/// Prepares `program` such that it gets `signal` when the thread that starts it ends.
///
/// A harness that is killed, by whatever signal, thus leaves no machine running behind.
pub(crate) fn tied(program: &str, signal: libc::c_int) -> Command {
    let mut command = Command::new(program);
    let parent = std::process::id();
    let tie = move || {
        // SAFETY: prctl(2) with PR_SET_PDEATHSIG takes a signal number and touches no memory.
        if unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, signal) } != 0 {
            return Err(io::Error::last_os_error());
        }
        // The signal is only sent for a death that comes after prctl.
        if std::os::unix::process::parent_id() != parent {
            return Err(io::Error::other("the harness has ended"));
        }
        Ok(())
    };
    // SAFETY: between fork and exec the closure only makes system calls: no allocation, no lock.
    unsafe { command.pre_exec(tie) };
    command
}

/// Prepares a command of the preparation phase.
pub(crate) fn tool(program: &str) -> Command {
    let mut command = tied(program, libc::SIGTERM);
    command.stdin(Stdio::null()).env("LC_ALL", "C.UTF-8");
    command
}

/// Runs `command` to its end and returns what it wrote to stdout.
///
/// # Errors
///
/// When it cannot be started or does not succeed: the text quotes the end of its output.
pub(crate) fn output_of(command: &mut Command) -> Result<String> {
    let name = command.get_program().to_string_lossy().into_owned();
    let output = command.output().context(|| name.clone())?;
    let stdout = String::from_utf8_lossy(&output.stdout).into_owned();
    if output.status.success() {
        return Ok(stdout);
    }
    let args: Vec<_> = command
        .get_args()
        .map(|arg| arg.to_string_lossy())
        .collect();
    let stderr = String::from_utf8_lossy(&output.stderr);
    let said = if stderr.trim().is_empty() {
        &stdout
    } else {
        &*stderr
    };
    Err(Error::new(format!(
        "{name} {}: {}\n{}",
        args.join(" "),
        output.status,
        tail(said, QUOTED_LINES)
    )))
}

/// Runs `command` for its effect alone.
///
/// # Errors
///
/// As [`output_of`].
pub(crate) fn run(command: &mut Command) -> Result<()> {
    output_of(command).map(drop)
}

/// Returns the last `count` lines of `text`.
pub(crate) fn tail(text: &str, count: usize) -> String {
    let lines: Vec<&str> = text.lines().collect();
    let start = lines.len().saturating_sub(count);
    lines.get(start..).unwrap_or_default().join("\n")
}
