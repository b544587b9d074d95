// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause

//! Everything that is measured, as lines of a table: `GROUP,DEVICE,ROW,UNIT,STOCK,OURS`. A figure that a provider
//! does not have is empty.

use std::io;

use guest::links::Device;

use crate::measure::{
    Figures, Provider, counts, flush_instructions, instructions, plainly, system_calls,
};
use crate::perftest;

/// How much is measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Extent {
    /// All of it: an hour.
    Full,
    /// What is counted, and not timed.
    Quick,
    /// Instructions of posts and polls.
    Instructions,
}

/// Times are the medians of so many runs, one of each provider in turn.
pub(crate) const RUNS: usize = 5;

/// Measures all, and prints each line as soon as it is known.
pub(crate) fn print(extent: Extent) -> io::Result<()> {
    println!("group,device,row,unit,stock,lastwqe");
    for device in Device::ALL {
        for (group, measure) in [
            ("instructions", instructions as fn(_, _) -> _),
            ("system calls", system_calls),
        ] {
            if extent == Extent::Instructions && group != "instructions" {
                continue;
            }
            let [stock, ours] = both(|provider| measure(device, provider))?;
            lines(group, device, "per call", &stock, &ours);
            if group == "instructions" {
                sums(device, &stock, &ours);
            }
        }
        if extent == Extent::Instructions {
            continue;
        }
        flushes(device, extent)?;
        lifetimes(device)?;
        if extent == Extent::Full {
            perftest::print(device)?;
        }
    }
    Ok(())
}

fn both<T>(mut measure: impl FnMut(Provider) -> io::Result<T>) -> io::Result<[T; 2]> {
    let [stock, ours] = Provider::BOTH;
    Ok([measure(stock)?, measure(ours)?])
}

pub(crate) fn line(group: &str, device: Device, row: &str, unit: &str, figures: [Option<f64>; 2]) {
    let [stock, ours] = figures.map(|figure| figure.map_or(String::new(), |n| format!("{n:.2}")));
    println!("{group},{device},{row},{unit},{stock},{ours}");
}

fn lines(group: &str, device: Device, unit: &str, stock: &Figures, ours: &Figures) {
    for (row, figure) in ours {
        line(
            group,
            device,
            row,
            unit,
            [stock.get(row).copied(), Some(*figure)],
        );
    }
}

/// A post and the poll of what it has posted, for each work request of them.
pub(crate) const SUMS: [(&str, &str, &str, f64); 8] = [
    (
        "a SEND in a list of 16",
        "post_send_16",
        "poll_sends_16",
        16.0,
    ),
    (
        "a WRITE in a list of 16",
        "post_write_16",
        "poll_writes_16",
        16.0,
    ),
    (
        "a receive in a list of 16",
        "post_recv_16",
        "poll_recvs_16",
        16.0,
    ),
    (
        "an SRQ's receive in a list of 16",
        "post_srq_recv_16",
        "poll_srq_recvs_16",
        16.0,
    ),
    (
        "a SEND in a draft and a batch of 16",
        "wr_post_16",
        "poll_ex_16",
        16.0,
    ),
    ("a single SEND", "post_send_1", "poll_sends_1", 1.0),
    ("a single receive", "post_recv_1", "poll_recvs_1", 1.0),
    (
        "a single receive of an SRQ",
        "post_srq_recv_1",
        "poll_srq_recvs_1",
        1.0,
    ),
];

pub(crate) fn sum(figures: &Figures, post: &str, poll: &str, count: f64) -> Option<f64> {
    Some((figures.get(post)? + figures.get(poll)?) / count)
}

fn sums(device: Device, stock: &Figures, ours: &Figures) {
    for (row, post, poll, count) in SUMS {
        let figures = [stock, ours].map(|figures| sum(figures, post, poll, count));
        line("post and poll", device, row, "instructions", figures);
    }
}

fn flushes(device: Device, extent: Extent) -> io::Result<()> {
    let sizes: &[(u32, u32)] = match extent {
        Extent::Full => &[
            (1, 1),
            (16, 1),
            (256, 1),
            (4096, 1),
            (32000, 1),
            (256, 64),
            (256, 512),
        ],
        Extent::Quick | Extent::Instructions => &[(16, 1), (256, 1), (4096, 1), (256, 64)],
    };
    for &(wrs, qps) in sizes {
        let row = format!("{wrs} of 1 QP among {qps}");
        // A provider that cannot have so many has no figure.
        let known = |provider, figure: io::Result<f64>| {
            figure
                .inspect_err(|error| {
                    eprintln!("bench: flush, {row}, {device}, {provider}: {error}")
                })
                .ok()
        };
        let figures = Provider::BOTH
            .map(|provider| known(provider, flush_instructions(device, provider, wrs, qps)));
        line("flush", device, &row, "instructions per WR", figures);
        let words = [
            "flush",
            &device.to_string(),
            &wrs.to_string(),
            &qps.to_string(),
        ];
        let [mut stock, mut ours] = [Vec::new(), Vec::new()];
        for _ in 0..RUNS {
            let both = Provider::BOTH.into_iter().zip(figures);
            for ((provider, figure), runs) in both.zip([&mut stock, &mut ours]) {
                if figure.is_some() {
                    runs.extend(counts(&plainly(provider, &words)?).get("µs").copied());
                }
            }
        }
        let figures = [median(stock), median(ours)];
        line("flush", device, &row, "µs to the last completion", figures);
    }
    Ok(())
}

fn lifetimes(device: Device) -> io::Result<()> {
    let [mut stock, mut ours] = [Vec::new(), Vec::new()];
    for _ in 0..RUNS {
        let words = ["lifetimes", &device.to_string()];
        let [a, b] = both(|provider| plainly(provider, &words))?;
        stock.push(counts(&a));
        ours.push(counts(&b));
    }
    let Some(first) = ours.first() else {
        return Ok(());
    };
    for name in first.keys() {
        let of = |runs: &[Figures]| {
            median(
                runs.iter()
                    .filter_map(|run| run.get(name).copied())
                    .collect(),
            )
        };
        let (unit, row) = name.split_once(' ').unwrap_or(("", name));
        line("objects", device, row, unit, [of(&stock), of(&ours)]);
    }
    Ok(())
}

pub(crate) fn median(mut figures: Vec<f64>) -> Option<f64> {
    figures.sort_by(f64::total_cmp);
    figures.get(figures.len() / 2).copied()
}
