// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
//! The command line.

use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use crate::error::{Error, Result};
use crate::kernel::Series;
use crate::provider::Provider;
use crate::userland::Userland;

pub(crate) const USAGE: &str = "\
Runs commands and test plans in a virtual machine with rdma_rxe and siw.

usage: vm [run] [--kernel K] [--userland U] [--provider P] [--deadline SECS] COMMAND
       vm suite [--jobs GLOB] [--stock-in-turn] [--no-userlands] [--parallel N] [--verbose] PLAN…
       vm prepare [--refresh] [--no-userlands]

  run      runs COMMAND with bash; rxe0 (192.0.2.1) and siw0 (198.51.100.1) are up
  suite    runs the jobs of test plans on each kernel, provider and userland they name
  prepare  fills the cache with kernels and userlands, else made when first needed

  --kernel K        6.1 (default) or 6.12
  --userland U      12 (default: this machine's own files), 13 or sid
  --provider P      lastwqe (default) or stock
  --deadline SECS   ends the command after that time (default 600)
  --jobs GLOB       only the jobs whose name matches; may be repeated
  --stock-in-turn   `must` jobs on stock on one of their kernels, not on each
  --no-userlands    only this machine's own userland
  --parallel N      as many machines at a time (default 2, 1 on a single processor)
  --verbose         lists every case
  --refresh         looks for newer kernels, and makes new userlands

`run` ends with the command's status, 124 at the deadline, 125 if the machine or the harness fails.
The cache is $LASTWQE_CACHE, else $XDG_CACHE_HOME/lastwqe, else ~/.cache/lastwqe.
";

/// What the harness is asked to do.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Request {
    Help,
    Run(Run),
    Suite(Suite),
    Prepare(Prepare),
}

/// `vm run`.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Run {
    pub(crate) kernel: Series,
    pub(crate) userland: Userland,
    pub(crate) provider: Provider,
    pub(crate) deadline: Duration,
    pub(crate) command: String,
}

/// `vm suite`.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Suite {
    pub(crate) plans: Vec<PathBuf>,
    /// Empty: all jobs.
    pub(crate) jobs: Vec<String>,
    pub(crate) stock_in_turn: bool,
    pub(crate) no_userlands: bool,
    pub(crate) parallel: Option<usize>,
    pub(crate) verbose: bool,
}

/// `vm prepare`.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Prepare {
    pub(crate) refresh: bool,
    pub(crate) no_userlands: bool,
}

/// Reads the arguments that follow the program's name.
pub(crate) fn parse(args: impl IntoIterator<Item = String>) -> Result<Request> {
    let mut args = args.into_iter().peekable();
    match args.peek().map(String::as_str) {
        None | Some("--help" | "-h" | "help") => Ok(Request::Help),
        Some("suite") => suite(args.skip(1)),
        Some("prepare") => prepare(args.skip(1)),
        Some("run") => run(args.skip(1)),
        Some(_) => run(args),
    }
}

fn run(mut args: impl Iterator<Item = String>) -> Result<Request> {
    let mut run = Run {
        kernel: Series::V6_1,
        userland: Userland::Host,
        provider: Provider::Lastwqe,
        deadline: Duration::from_secs(600),
        command: String::new(),
    };
    while let Some(arg) = args.next() {
        match arg.as_str() {
            "--kernel" => run.kernel = value(&arg, &mut args)?,
            "--userland" => run.userland = value(&arg, &mut args)?,
            "--provider" => run.provider = value(&arg, &mut args)?,
            "--deadline" => run.deadline = Duration::from_secs(value(&arg, &mut args)?),
            "--help" | "-h" => return Ok(Request::Help),
            option if option.starts_with('-') => return Err(unknown(option)),
            command if run.command.is_empty() => command.clone_into(&mut run.command),
            _ => {
                return Err(Error::new(
                    "more than one COMMAND: quote it, for the guest's bash to split it",
                ));
            }
        }
    }
    if run.command.is_empty() {
        return Err(Error::new("no COMMAND"));
    }
    Ok(Request::Run(run))
}

fn suite(mut args: impl Iterator<Item = String>) -> Result<Request> {
    let mut suite = Suite::default();
    while let Some(arg) = args.next() {
        match arg.as_str() {
            "--jobs" => suite.jobs.push(value(&arg, &mut args)?),
            "--stock-in-turn" => suite.stock_in_turn = true,
            "--no-userlands" => suite.no_userlands = true,
            "--parallel" => suite.parallel = Some(value(&arg, &mut args)?),
            "--verbose" => suite.verbose = true,
            "--help" | "-h" => return Ok(Request::Help),
            option if option.starts_with('-') => return Err(unknown(option)),
            plan => suite.plans.push(plan.into()),
        }
    }
    if suite.plans.is_empty() {
        return Err(Error::new("no PLAN"));
    }
    Ok(Request::Suite(suite))
}

fn prepare(args: impl Iterator<Item = String>) -> Result<Request> {
    let mut prepare = Prepare::default();
    for arg in args {
        match arg.as_str() {
            "--refresh" => prepare.refresh = true,
            "--no-userlands" => prepare.no_userlands = true,
            "--help" | "-h" => return Ok(Request::Help),
            other => return Err(unknown(other)),
        }
    }
    Ok(Request::Prepare(prepare))
}

fn value<T: FromStr<Err: std::fmt::Display>>(
    option: &str,
    args: &mut impl Iterator<Item = String>,
) -> Result<T> {
    let text = args
        .next()
        .ok_or_else(|| Error::new(format!("{option} needs a value")))?;
    text.parse()
        .map_err(|error| Error::new(format!("{option} {text}: {error}")))
}

fn unknown(option: &str) -> Error {
    Error::new(format!("unknown argument {option}; --help lists them"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(line: &[&str]) -> Result<Request> {
        parse(line.iter().map(|word| (*word).to_owned()))
    }

    #[test]
    fn a_bare_command_is_run() {
        let Ok(Request::Run(run)) = of(&["--kernel", "6.12", "suite of commands"]) else {
            panic!()
        };
        assert_eq!(
            (run.kernel, run.command.as_str()),
            (Series::V6_12, "suite of commands")
        );
        assert_eq!(
            of(&["ibv_devinfo -d rxe0"]).unwrap(),
            of(&["run", "ibv_devinfo -d rxe0"]).unwrap()
        );
    }

    #[test]
    fn mistakes_are_named() {
        for (line, said) in [
            (&["ibv_devinfo", "-d"][..], "unknown argument -d"),
            (&["ibv_devinfo", "rxe0"], "quote"),
            (&["run"], "no COMMAND"),
            (&["suite"], "no PLAN"),
            (&["--kernel", "5.10", "x"], "6.1 and 6.12"),
            (&["--deadline"], "needs a value"),
        ] {
            let error = of(line).unwrap_err().to_string();
            assert!(error.contains(said), "{line:?}: {error}");
        }
    }
}
