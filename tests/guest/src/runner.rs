// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause

//! Runs each case in a process of its own and prints one verdict line per case.
//!
//! Standard output carries verdicts only, `ok NAME`, `not ok NAME: reason` or `skip NAME: reason`;
//! all else goes to standard error. A case that crashes, hangs in the kernel or leaves a queue pair
//! behind takes its process with it and nothing more.

use std::io::{self, Write};
use std::os::unix::process::ExitStatusExt;
use std::process::{Command, ExitCode, ExitStatus};
use std::time::{Duration, Instant};
use std::{env, panic};

use crate::links::{self, Links};
use crate::payload;
use crate::process::Process;
use crate::roll;
use crate::suite::{Case, Outcome, Stop, Suite};
use crate::verbs;

/// Time that a killed case has to go away; the kernel closes its RDMA objects meanwhile.
const BURIAL: Duration = Duration::from_secs(10);

/// Exit status of a case that has failed.
const FAILED: i32 = 1;

/// Runs the command line `[--list | --case NAME | FILTER…]` and returns the exit status: success
/// if no case failed.
///
/// * `--list` prints the names, and after a tab the fault of the stock provider that makes the case
///   fail there.
/// * `--case NAME` runs one case in this very process, on devices that must exist already.
/// * Otherwise the devices are created and each case whose name contains one of the filters runs
///   in its own process. A filter that fits none is a mistake, and nothing runs.
#[must_use]
pub fn main(suite: &Suite) -> ExitCode {
    let arguments: Vec<String> = env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match words.as_slice() {
        ["--list"] => {
            list(suite);
            ExitCode::SUCCESS
        }
        ["--case", name] => match suite.cases.iter().find(|case| case.name == *name) {
            Some(case) if run_here(case) == 0 => ExitCode::SUCCESS,
            Some(_) => ExitCode::FAILURE,
            None => {
                eprintln!("guest: no case {name}");
                ExitCode::from(2)
            }
        },
        filters => run_all(suite, filters),
    }
}

fn list(suite: &Suite) {
    for case in &suite.cases {
        match case.stock_fault {
            Some(fault) => println!("{}\tstock fails: {fault}", case.name),
            None => println!("{}", case.name),
        }
    }
}

fn run_all(suite: &Suite, filters: &[&str]) -> ExitCode {
    let fits = |case: &Case, filter: &str| case.name.contains(filter);
    let is_idle = |filter: &&&str| !suite.cases.iter().any(|case| fits(case, filter));
    if let Some(filter) = filters.iter().find(is_idle) {
        eprintln!("guest: no case has {filter} in its name");
        return ExitCode::from(2);
    }
    let links = match Links::create().and_then(|links| verbs::load_providers().map(|()| links)) {
        Ok(links) => links,
        Err(error) => {
            println!("not ok links: {error}");
            return ExitCode::FAILURE;
        }
    };
    let started = Instant::now();
    let (mut passed, mut failed, mut skipped) = (0, 0, 0);
    for case in &suite.cases {
        if !filters.is_empty() && !filters.iter().any(|filter| fits(case, filter)) {
            continue;
        }
        let begun = Instant::now();
        let verdict = run_apart(case);
        println!("{verdict}");
        eprintln!(
            "guest: {:.1} s {}",
            begun.elapsed().as_secs_f32(),
            case.name
        );
        if verdict.starts_with("ok ") {
            passed += 1;
        } else if verdict.starts_with("skip ") {
            skipped += 1;
        } else {
            failed += 1;
            links::restore();
        }
    }
    drop(links);
    eprintln!(
        "guest: {passed} ok, {failed} not ok, {skipped} skipped in {:.0} s",
        started.elapsed().as_secs_f32()
    );
    if failed == 0 {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}

/// Runs `case` in this process and returns its exit status. A panic, of whichever thread, ends the
/// process on the spot, without unwinding: a destructor that waits for an event nobody acknowledges
/// must not hide the reason.
fn run_here(case: &Case) -> i32 {
    let name = case.name.clone();
    panic::set_hook(Box::new(move |info| {
        let message = info.payload_as_str().unwrap_or("panic");
        let place = info
            .location()
            .map_or_else(String::new, |place| format!(" ({place})"));
        report(&name, &Err(Stop::Fail(format!("{message}{place}"))));
        // SAFETY: `_exit` runs no destructor or exit handler, so any thread may call it.
        unsafe { libc::_exit(FAILED) };
    }));
    if case.stock_fault.is_some() {
        roll::expect_loss();
    }
    let outcome = (case.run)();
    report(&case.name, &outcome);
    if matches!(outcome, Err(Stop::Fail(_))) {
        FAILED
    } else {
        0
    }
}

fn report(name: &str, outcome: &Outcome) {
    let line = match outcome {
        Ok(()) => format!("ok {name}\n"),
        Err(Stop::Skip(reason)) => format!("skip {name}: {}\n", one_line(reason)),
        Err(Stop::Fail(reason)) => {
            let seed = payload::seed_in_use().map_or_else(String::new, |s| format!(" [SEED={s}]"));
            format!("not ok {name}: {}{seed}\n", one_line(reason))
        }
    };
    let mut stdout = io::stdout().lock();
    if stdout
        .write_all(line.as_bytes())
        .and_then(|()| stdout.flush())
        .is_err()
    {
        eprint!("{line}");
    }
}

fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Runs `case` in a process of its own and returns its verdict line.
fn run_apart(case: &Case) -> String {
    match supervise(case) {
        Ok(verdict) => verdict,
        Err(error) => format!("not ok {}: the runner failed: {error}", case.name),
    }
}

fn supervise(case: &Case) -> io::Result<String> {
    let process = Process::fork(|| run_here(case))?;
    if let Some(status) = process.wait(case.deadline)? {
        if status.signal().is_some() {
            eprintln!("guest: {}", place_of_crash()?);
        }
        return Ok(verdict(case, &process.output()?, status));
    }
    for place in process.kernel_stacks() {
        eprintln!("guest: {place}");
    }
    process.kill();
    let immortal = process.wait(BURIAL)?.is_none();
    let also = if immortal {
        ", and the process does not die"
    } else {
        ""
    };
    Ok(format!(
        "not ok {}: deadline {} s{also}",
        case.name,
        case.deadline.as_secs()
    ))
}

/// What the kernel says of the last crash: at which address, in which library.
fn place_of_crash() -> io::Result<String> {
    let log = Command::new("dmesg").output()?.stdout;
    let crash = String::from_utf8_lossy(&log)
        .lines()
        .rfind(|line| line.contains(" segfault at ") || line.contains("traps: "))
        .map_or_else(|| "nothing in the kernel's log".into(), str::to_owned);
    Ok(crash)
}

/// The last verdict that the case printed for itself, or what its exit status says.
fn verdict(case: &Case, printed: &str, status: ExitStatus) -> String {
    let own = printed.lines().rfind(|line| {
        ["ok ", "not ok ", "skip "].iter().any(|kind| {
            line.strip_prefix(kind)
                .is_some_and(|rest| rest.starts_with(&case.name))
        })
    });
    match (own, status.signal()) {
        (_, Some(signal)) => format!("not ok {}: killed by signal {signal}", case.name),
        (Some(line), None) => line.to_owned(),
        (None, None) => format!("not ok {}: no verdict, {status}", case.name),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn judge(printed: &str, status: i32) -> String {
        let mut suite = Suite::default();
        let case = suite.case("a/b", || Ok(()));
        verdict(case, printed, ExitStatus::from_raw(status))
    }

    #[test]
    fn a_case_speaks_for_itself() {
        assert_eq!(judge("noise\nok a/b\n", 0), "ok a/b");
        assert_eq!(judge("not ok a/b: why\n", 1 << 8), "not ok a/b: why");
        assert_eq!(judge("skip a/b: no\n", 0), "skip a/b: no");
    }

    #[test]
    fn silence_and_signals_fail() {
        assert_eq!(
            judge("ok other\n", 0),
            "not ok a/b: no verdict, exit status: 0"
        );
        assert_eq!(judge("ok a/b\n", 11), "not ok a/b: killed by signal 11");
    }

    #[test]
    fn reasons_take_one_line() {
        assert_eq!(one_line("left: 1\n  right: 2\n"), "left: 1 right: 2");
    }
}
