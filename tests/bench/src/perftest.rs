// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause

//! What users see: perftest's latency and message rate, and the processor time that both ends take.

use std::fs;
use std::io;
use std::mem::MaybeUninit;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use guest::links::Device;

use crate::measure::Provider;
use crate::rows::{RUNS, line, median};

/// Bytes of a message.
const SIZES: [u32; 5] = [2, 64, 4096, 65536, 1 << 20];

/// Measures all programs on `device`.
pub(crate) fn print(device: Device) -> io::Result<()> {
    let mut port = 18600;
    for program in [
        "ib_send_lat",
        "ib_write_lat",
        "ib_read_lat",
        "ib_send_bw",
        "ib_write_bw",
    ] {
        let is_latency = program.ends_with("_lat");
        for size in SIZES {
            for qps in if is_latency { &[1][..] } else { &[1, 8] } {
                let [mut stock, mut ours] = [Vec::new(), Vec::new()];
                for _ in 0..RUNS {
                    for (provider, runs) in [
                        (Provider::Stock, &mut stock),
                        (Provider::Lastwqe, &mut ours),
                    ] {
                        port += 1;
                        match talk(device, provider, program, size, *qps, port) {
                            Ok(run) => runs.push(run),
                            Err(error) => {
                                eprintln!("bench: {program} {size} on {provider}: {error}")
                            }
                        }
                    }
                }
                let row = format!("{program} {size} B {qps} QP");
                let of = |part: fn(&Run) -> f64| {
                    [&stock, &ours].map(|runs| median(runs.iter().map(part).collect()))
                };
                let unit = if is_latency {
                    "µs (median)"
                } else {
                    "messages/s"
                };
                line("perftest", device, &row, unit, of(|run| run.figure));
                line(
                    "perftest",
                    device,
                    &row,
                    "CPU µs/message",
                    of(|run| run.cpu_us),
                );
            }
        }
    }
    Ok(())
}

struct Run {
    figure: f64,
    cpu_us: f64,
}

fn talk(
    device: Device,
    provider: Provider,
    program: &str,
    size: u32,
    qps: u32,
    port: u16,
) -> io::Result<Run> {
    let is_latency = program.ends_with("_lat");
    // Emulated, a megabyte takes a tenth of a second.
    let count: u32 = match size {
        0..=4096 => 300,
        4097..=65536 => 40,
        _ => 10,
    };
    let words = [
        "-d",
        device.ibdev(),
        "-R",
        "-F",
        "-n",
        &count.to_string(),
        "-s",
        &size.to_string(),
        "-p",
        &port.to_string(),
    ]
    .map(str::to_owned);
    let start = |peer: Option<String>| {
        let mut command = Command::new(program);
        command.args(&words);
        if !is_latency {
            command.args(["-q", &qps.to_string()]);
        }
        command.args(peer);
        provider.choose(&mut command);
        command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn()
    };
    let before = cpu_us();
    let mut server = start(None)?;
    let output = await_listening(&mut server, device, port)
        .and_then(|()| ended(start(Some(device.address().to_string()))?));
    // It has ended by itself, or never will.
    drop(server.kill());
    server.wait()?;
    let output = output?;
    let used = cpu_us() - before;
    let figure =
        parse(&output, is_latency).ok_or_else(|| io::Error::other(format!("it said {output}")))?;
    let messages = f64::from(count) * f64::from(if is_latency { 1 } else { qps });
    Ok(Run {
        figure,
        cpu_us: used / messages,
    })
}

/// How long a program may take to do its part.
const PATIENCE: Duration = Duration::from_secs(40);

/// Waits until a server can be connected to. It is said to listen before `rdma_listen`(3) is over, and sleeps after it.
fn await_listening(server: &mut Child, device: Device, port: u16) -> io::Result<()> {
    let deadline = Instant::now() + PATIENCE;
    let place = format!(":{port}");
    loop {
        let ids = Command::new("rdma")
            .args(["resource", "show", "cm_id", "link", device.ibdev()])
            .output()?;
        let ids = String::from_utf8_lossy(&ids.stdout).into_owned();
        let is_there = |id: &str| {
            id.contains("state LISTEN") && id.split_whitespace().any(|word| word.ends_with(&place))
        };
        let state = fs::read_to_string(format!("/proc/{}/stat", server.id()))?;
        if ids.lines().any(is_there) && state.contains(") S ") {
            return Ok(());
        }
        if let Some(status) = server.try_wait()? {
            return Err(io::Error::other(format!("the server has ended: {status}")));
        }
        if Instant::now() > deadline {
            return Err(io::Error::other("the server does not listen"));
        }
        thread::sleep(Duration::from_millis(20));
    }
}

/// What a program that ends in time has printed.
fn ended(mut child: Child) -> io::Result<String> {
    let deadline = Instant::now() + PATIENCE;
    while child.try_wait()?.is_none() {
        if Instant::now() > deadline {
            child.kill()?;
        }
        thread::sleep(Duration::from_millis(20));
    }
    let output = child.wait_with_output()?;
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// The typical latency, or the messages per second, of the one line of figures.
fn parse(said: &str, is_latency: bool) -> Option<f64> {
    let figures: Vec<f64> = said
        .lines()
        .map(|line| {
            line.split_whitespace()
                .map_while(|word| word.parse().ok())
                .collect::<Vec<f64>>()
        })
        .find(|figures| figures.len() >= 5)?;
    if is_latency {
        // bytes, iterations, least, most, typical
        figures.get(4).copied()
    } else {
        // bytes, iterations, peak and average in MiB/s, Mpps. The one is told by hundredths, the other by millionths.
        let [bytes, _, _, average, rate] = figures.get(..5)?.try_into().ok()?;
        Some(if bytes < 4096.0 {
            rate * 1e6
        } else {
            average * 1048576.0 / bytes
        })
    }
}

/// Processor time of all children that have ended.
fn cpu_us() -> f64 {
    let mut usage = MaybeUninit::<libc::rusage>::zeroed();
    // SAFETY: a place for one.
    unsafe { libc::getrusage(libc::RUSAGE_CHILDREN, usage.as_mut_ptr()) };
    // SAFETY: zeroed is valid, and it was filled in.
    let usage = unsafe { usage.assume_init() };
    let of = |time: libc::timeval| time.tv_sec as f64 * 1e6 + time.tv_usec as f64;
    of(usage.ru_utime) + of(usage.ru_stime)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_line_of_figures_is_found() {
        let latency = " #bytes #iterations t_min\n 2       300          43.21          99.87        \t50.05  \t51.11\n";
        assert_eq!(parse(latency, true), Some(50.05));
        let rate = " 65536      1000             99.10              98.50  \t\t     0.001500\n";
        assert_eq!(parse(rate, false), Some(1576.0));
        let small = " 2     300          0.01              0.01  \t\t     0.006310\n";
        assert_eq!(parse(small, false), Some(6310.0));
    }
}
