// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause

//! Runs this very program below callgrind or strace, on one provider.

use std::collections::BTreeMap;
use std::env;
use std::fmt;
use std::fs;
use std::io;
use std::path::PathBuf;
use std::process::{Command, Output};

use guest::links::Device;

use crate::callgrind;
use crate::measured::PREFIX;

/// The provider that a program is to run on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Provider {
    Stock,
    Lastwqe,
}

impl Provider {
    pub(crate) const BOTH: [Self; 2] = [Self::Stock, Self::Lastwqe];

    /// Has `command` run on it. The environment is that of `--provider lastwqe`.
    pub(crate) fn choose(self, command: &mut Command) {
        if self == Self::Stock {
            command.env_remove("RDMAV_DRIVERS");
        }
    }
}

impl fmt::Display for Provider {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Stock => "stock",
            Self::Lastwqe => "lastwqe",
        })
    }
}

/// Figures by row.
pub(crate) type Figures = BTreeMap<String, f64>;

/// How often a row is counted: what the first call of a kind has to find is a small part of them.
const ROUNDS: &str = "32";

/// Instructions for each call of [`calls`](crate::calls), what it calls included.
pub(crate) fn instructions(device: Device, provider: Provider) -> io::Result<Figures> {
    let (profile, said) = profile(provider, &["calls", &device.to_string(), ROUNDS])?;
    let calls = counts(&said);
    let costs = callgrind::callees(&profile, PREFIX);
    Ok(costs
        .into_iter()
        .filter_map(|(row, cost)| {
            let count = calls.get(&row)?;
            Some((row, cost.instructions as f64 / count))
        })
        .collect())
}

/// Instructions for each of `wrs` receives that are flushed beside `qps` QPs.
pub(crate) fn flush_instructions(
    device: Device,
    provider: Provider,
    wrs: u32,
    qps: u32,
) -> io::Result<f64> {
    let (wrs_text, qps_text) = (wrs.to_string(), qps.to_string());
    let words = [
        "flush",
        &device.to_string(),
        &wrs_text,
        &qps_text,
        "counted",
    ];
    let (profile, _) = profile(provider, &words)?;
    let cost = callgrind::callees(&profile, PREFIX).remove("flush");
    Ok(cost.unwrap_or_default().instructions as f64 / f64::from(wrs))
}

/// The profile of this program with these arguments, and what it printed.
fn profile(provider: Provider, words: &[&str]) -> io::Result<(String, String)> {
    let file = scratch("callgrind");
    let mut command = Command::new("valgrind");
    command
        .args(["--tool=callgrind", "--read-inline-info=no"])
        .arg(format!("--toggle-collect={PREFIX}*"))
        .arg(format!("--callgrind-out-file={}", file.display()))
        .arg(env::current_exe()?)
        .args(words);
    provider.choose(&mut command);
    let output = succeeded(command.output()?)?;
    let profile = fs::read_to_string(&file)?;
    fs::remove_file(&file)?;
    Ok((
        profile,
        String::from_utf8_lossy(&output.stdout).into_owned(),
    ))
}

/// System calls for each call of [`calls`](crate::calls).
pub(crate) fn system_calls(device: Device, provider: Provider) -> io::Result<Figures> {
    let file = scratch("strace");
    let mut command = Command::new("strace");
    command
        .arg("-qq")
        .arg("-o")
        .arg(&file)
        .arg(env::current_exe()?)
        .args(["calls", &device.to_string(), ROUNDS, "marked"]);
    provider.choose(&mut command);
    succeeded(command.output()?)?;
    let trace = fs::read_to_string(&file)?;
    fs::remove_file(&file)?;
    Ok(between_marks(&trace))
}

/// Of each row, the lines between one mark of its and the next.
fn between_marks(trace: &str) -> Figures {
    let (mut calls, mut lines): (Figures, Figures) = Default::default();
    let mut open: Option<String> = None;
    for line in trace.lines() {
        if let Some(rest) = line.strip_prefix("write(-1, \"") {
            let row = rest.split('"').next().unwrap_or_default().to_owned();
            open = if open.is_none() {
                *calls.entry(row.clone()).or_default() += 1.0;
                lines.entry(row.clone()).or_default();
                Some(row)
            } else {
                None
            };
        } else if let Some(row) = &open {
            *lines.entry(row.clone()).or_default() += 1.0;
        }
    }
    lines
        .into_iter()
        .map(|(row, lines)| {
            let figure = lines / calls[&row];
            (row, figure)
        })
        .collect()
}

/// What a program printed, `name number` in each line.
pub(crate) fn counts(said: &str) -> Figures {
    let pairs = said.lines().filter_map(|line| line.rsplit_once(' '));
    pairs
        .filter_map(|(name, number)| Some((name.to_owned(), number.parse().ok()?)))
        .collect()
}

/// Runs this program with these arguments; what it printed.
pub(crate) fn plainly(provider: Provider, words: &[&str]) -> io::Result<String> {
    let mut command = Command::new(env::current_exe()?);
    command.args(words);
    provider.choose(&mut command);
    let output = succeeded(command.output()?)?;
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

fn succeeded(output: Output) -> io::Result<Output> {
    if output.status.success() {
        return Ok(output);
    }
    let said = String::from_utf8_lossy(&output.stderr);
    Err(io::Error::other(format!("{}: {said}", output.status)))
}

fn scratch(name: &str) -> PathBuf {
    env::temp_dir().join(format!("bench-{name}.{}", std::process::id()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn system_calls_are_counted_between_marks() {
        let trace = "\
read(3)
write(-1, \"arm\", 3) = -1 EBADF
ioctl(4)
write(-1, \"arm\", 3) = -1 EBADF
futex(1)
write(-1, \"poll_empty\", 10) = -1 EBADF
write(-1, \"poll_empty\", 10) = -1 EBADF
write(-1, \"arm\", 3) = -1 EBADF
write(-1, \"arm\", 3) = -1 EBADF
";
        let figures = between_marks(trace);
        assert_eq!(figures["arm"], 0.5);
        assert_eq!(figures["poll_empty"], 0.0);
    }
}
