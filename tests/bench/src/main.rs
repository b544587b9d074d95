// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause

//! What a provider costs, the stock one beside ours: `scripts/bench`.
//!
//! * In the guest, [`rows`] measures everything and prints it, and [`check`] what the test suite asserts. Both run
//!   this program again, on one provider, below a tool that counts: as [`calls`], [`flush`] or [`lifetimes`].
//! * Outside, [`report`] makes tables and a plot of what was printed.

#![expect(
    clippy::arithmetic_side_effects,
    clippy::cast_precision_loss,
    clippy::indexing_slicing,
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a program that measures ends at the first surprise, and prints what it found"
)]

mod callgrind;
mod calls;
mod check;
mod flush;
mod lifetimes;
mod measure;
mod measured;
mod perftest;
mod report;
mod rows;

use std::env;
use std::error::Error;
use std::io;
use std::path::Path;
use std::process::ExitCode;

use guest::links::{Device, Links};
use guest::suite::Stop;

use crate::rows::Extent;

fn main() -> ExitCode {
    let arguments: Vec<String> = env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match run(&words) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("bench: {error}");
            ExitCode::from(2)
        }
    }
}

/// Does what the command line says; whether it went well.
fn run(words: &[&str]) -> Result<bool, Box<dyn Error>> {
    match words {
        ["rows"] => with_links(|| rows::print(Extent::Full).map(|()| true)),
        ["rows", "--quick"] => with_links(|| rows::print(Extent::Quick).map(|()| true)),
        ["rows", "--instructions"] => {
            with_links(|| rows::print(Extent::Instructions).map(|()| true))
        }
        ["perftest", device] => {
            let device = named(device)?;
            with_links(|| perftest::print(device).map(|()| true))
        }
        ["check"] => with_links(check::print),
        ["report", directory] => {
            let lines = io::read_to_string(io::stdin())?;
            report::write(&lines, Path::new(directory))?;
            Ok(true)
        }
        ["calls", device, rounds, rest @ ..] => {
            if rest.contains(&"marked") {
                measured::mark_calls();
            }
            calls::run(named(device)?, rounds.parse()?).map_err(told)?;
            for row in &measured::ROWS {
                println!("{} {}", row.name(), row.count());
            }
            Ok(true)
        }
        ["flush", device, wrs, qps, rest @ ..] => {
            let is_counted = rest.contains(&"counted");
            let took = flush::run(named(device)?, wrs.parse()?, qps.parse()?, is_counted);
            println!("µs {}", took.map_err(told)?.as_secs_f64() * 1e6);
            Ok(true)
        }
        ["lifetimes", device] => {
            let tell = |name: &str, unit: &str, figure| println!("{unit} {name} {figure}");
            lifetimes::run(named(device)?, tell).map_err(told)?;
            Ok(true)
        }
        _ => Err("what is to be measured? See scripts/bench --help".into()),
    }
}

fn with_links(measure: impl FnOnce() -> io::Result<bool>) -> Result<bool, Box<dyn Error>> {
    let _links = Links::create()?;
    Ok(measure()?)
}

fn named(device: &str) -> Result<Device, String> {
    let known = Device::ALL
        .into_iter()
        .find(|known| known.to_string() == device);
    known.ok_or_else(|| format!("no device {device}"))
}

fn told(stop: Stop) -> String {
    match stop {
        Stop::Fail(why) | Stop::Skip(why) => why,
    }
}
