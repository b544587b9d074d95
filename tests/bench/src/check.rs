// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause

//! What the test suite asserts: instructions, as ratios to the stock provider's, and never times.

use std::io;

use guest::links::Device;

use crate::measure::{Provider, flush_instructions, instructions};
use crate::rows::{SUMS, sum};

/// How many instructions a work request may take, posted and polled, for each of the stock provider's: rxe, siw. A
/// few more than it does (`docs/performance.md`), so that what makes it slower is noticed. linux 6.12's rxe has mostly not
/// begun with a send when its doorbell is over, which costs 26 instructions more (`Driver::MAY_STICK`).
const LIMITS: [(f64, f64); SUMS.len()] = [
    (0.66, 0.67),
    (0.67, 0.7),
    (0.6, 0.95),
    (0.66, 1.0),
    (1.3, f64::INFINITY),
    (0.89, 0.75),
    (0.85, 0.96),
    (0.89, 0.96),
];

/// How many instructions a single row may take for each of the stock provider's.
const ROW_LIMIT: f64 = 1.3;

/// Rows of rxe's that take more, and how many.
const ABOVE: [(&str, f64); 2] = [("poll_srq_recvs_1", 1.55), ("poll_ex_16", 2.0)];

/// Instructions for each receive that is flushed: as many for 256 as for 4096.
const FLUSH_LIMIT: f64 = 50.0;

/// Prints a verdict for each row; whether all are kept.
pub(crate) fn print() -> io::Result<bool> {
    let mut verdicts = Verdicts { all_kept: true };
    for device in Device::ALL {
        let stock = instructions(device, Provider::Stock)?;
        let ours = instructions(device, Provider::Lastwqe)?;
        for (row, ours) in &ours {
            let name = format!("instructions/{device}/{}", row.replace('_', "-"));
            let Some(stock) = stock.get(row) else {
                println!("skip {name}: the stock provider has no such call");
                continue;
            };
            let above = ABOVE.into_iter().find(|(above, _)| above == row);
            let limit = above.map_or(ROW_LIMIT, |(_, rxe)| device.pick(rxe, ROW_LIMIT));
            verdicts.compare(&name, *stock, *ours, limit);
        }
        for ((row, post, poll, count), (rxe, siw)) in SUMS.into_iter().zip(LIMITS) {
            let limit = device.pick(rxe, siw);
            let name = format!("instructions/{device}/{}", row.replace(' ', "-"));
            let figures = (
                sum(&stock, post, poll, count),
                sum(&ours, post, poll, count),
            );
            let (Some(stock), Some(ours)) = figures else {
                println!("skip {name}: the stock provider has no such call");
                continue;
            };
            verdicts.compare(&name, stock, ours, limit);
        }
        let [few, many] =
            [256, 4096].map(|wrs| flush_instructions(device, Provider::Lastwqe, wrs, 1));
        let (few, many) = (few?, many?);
        let name = format!("instructions/{device}/flush");
        verdicts.say(
            &name,
            few.max(many) <= FLUSH_LIMIT,
            format_args!("{few:.1} and {many:.1}; the limit is {FLUSH_LIMIT}"),
        );
        let beside = flush_instructions(device, Provider::Lastwqe, 256, 64)?;
        let name = format!("instructions/{device}/flush-beside-others");
        verdicts.say(
            &name,
            beside <= few * 1.1 + 1.0,
            format_args!("{beside:.1}, alone {few:.1}"),
        );
    }
    Ok(verdicts.all_kept)
}

struct Verdicts {
    all_kept: bool,
}

impl Verdicts {
    /// Says whether ours are no more than `limit` for each of the stock provider's.
    fn compare(&mut self, name: &str, stock: f64, ours: f64, limit: f64) {
        let ratio = ours / stock;
        self.say(
            name,
            ratio <= limit,
            format_args!("{ours:.1} for {stock:.1}, a ratio of {ratio:.2}; the limit is {limit}"),
        );
    }

    fn say(&mut self, name: &str, is_kept: bool, why: std::fmt::Arguments<'_>) {
        self.all_kept &= is_kept;
        eprintln!("bench: {name}: {why}");
        if is_kept {
            println!("ok {name}");
        } else {
            println!("not ok {name}: {why}");
        }
    }
}
