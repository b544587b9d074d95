// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause

//! Theme `syscalls`: what the verbs of a healthy queue pair cost in system calls, counted by
//! strace(1). No provider may need more than the stock one.

use std::collections::BTreeMap;
use std::env;
use std::fs;
use std::path::Path;
use std::process::{self, Command};
use std::sync::Arc;
use std::thread;

use guest::links::Device;
use guest::pair::{Bench, Pair};
use guest::suite::{Outcome, Stop, Suite, remark};
use guest::verbs::{Caps, CompChannel, Cq, Mr, RecvWr, SendWr, Transport, attributes_ex};

/// Set in the process that strace watches.
const WATCHED: &str = "GUEST_WATCHED";

/// How often each verb is called.
const CALLS: u32 = 60;

/// What is counted, and how many system calls of stock rxe and stock siw it takes.
const LIMITS: [(&str, u32, u32); 7] = [
    ("post_send", 1, 1),
    ("post_recv", 0, 0),
    ("poll_cq", 0, 0),
    ("a batch of an extended CQ", 0, 0),
    ("req_notify_cq", 1, 0),
    // Two sends.
    ("polling ping-pong", 2, 2),
    // And for each of two receives: to arm the CQ, and to get the event.
    ("sleeping ping-pong", 6, 4),
];

/// Adds the cases of this theme.
pub(crate) fn add(suite: &mut Suite) {
    for device in Device::ALL {
        let name = format!("syscalls/{device}");
        suite
            .case(name.clone(), move || {
                if env::var_os(WATCHED).is_some() {
                    watched(device)
                } else {
                    count(device, &name)
                }
            })
            .within(60);
    }
}

/// Runs the case below strace and judges what it counts.
fn count(device: Device, name: &str) -> Outcome {
    if !Path::new("/usr/bin/strace").exists() {
        return Err(Stop::skip("there is no strace"));
    }
    let file = env::temp_dir().join(format!("syscalls.{}", process::id()));
    let output = Command::new("strace")
        .args(["-qq", "-e", "trace=!sched_yield", "-o"])
        .arg(&file)
        .arg(env::current_exe()?)
        .args(["--case", name])
        .env(WATCHED, "")
        .output()?;
    let trace = fs::read_to_string(&file)?;
    fs::remove_file(&file)?;
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stdout)
    );
    judge(device, &trace)
}

fn judge(device: Device, trace: &str) -> Outcome {
    // Each part begins behind one mark and ends at the next.
    let parts: Vec<_> = trace.split(&format!("{MARK}(")).skip(1).collect();
    let mut figures = Vec::new();
    let mut excess = Vec::new();
    for ((what, rxe, siw), part) in LIMITS.into_iter().zip(parts.chunks(2)) {
        let mut calls: BTreeMap<&str, u32> = BTreeMap::new();
        // The first line is the rest of the mark's.
        for line in part[0].lines().skip(1) {
            *calls
                .entry(line.split('(').next().unwrap_or_default())
                .or_default() += 1;
        }
        let total: u32 = calls.values().sum();
        figures.push(format!(
            "{what} {:.2} {calls:?}",
            f64::from(total) / f64::from(CALLS)
        ));
        // A few more may be the allocator's.
        if total > device.pick(rxe, siw) * CALLS + CALLS / 20 {
            excess.push(what);
        }
    }
    assert_eq!(figures.len(), LIMITS.len(), "parts in the trace");
    remark(format_args!(
        "system calls on {device}: {}",
        figures.join(", ")
    ));
    assert!(excess.is_empty(), "too many for {excess:?}: {figures:?}");
    Ok(())
}

/// A system call that nobody makes otherwise.
const MARK: &str = "getppid";

/// Runs what is counted between two marks.
fn part(body: impl FnOnce() -> Outcome) -> Outcome {
    // SAFETY: getppid(2) touches no memory.
    unsafe { libc::getppid() };
    body()?;
    // SAFETY: as above.
    unsafe { libc::getppid() };
    Ok(())
}

/// Polls until a completion comes. Without a look at the clock, which may be a system call, it is the
/// case's deadline that ends it otherwise.
fn await_one(cq: &Cq) -> Outcome {
    loop {
        if let Some(wc) = cq.poll_one()? {
            wc.ok();
            return Ok(());
        }
        thread::yield_now();
    }
}

/// Both ends of a connection, and the channels of their receive CQs.
struct Table {
    pair: Pair,
    channels: [Arc<CompChannel>; 2],
    memory: Mr,
}

/// The parts in the order of [`LIMITS`].
fn watched(device: Device) -> Outcome {
    let table = Table::new(device)?;
    let Table { pair, memory, .. } = &table;
    let write = [SendWr::write(&[memory.sge(0, 8)], memory.remote(8)).signaled()];
    part(|| {
        for _ in 0..CALLS {
            pair.a.qp.post_send(&write)?;
            await_one(&pair.a.send_cq)?;
        }
        Ok(())
    })?;
    let recv = [RecvWr::new(0, &[memory.sge(0, 8)])];
    part(|| {
        for _ in 0..CALLS {
            pair.a.qp.post_recv(&recv)?;
        }
        Ok(())
    })?;
    part(|| {
        for _ in 0..CALLS {
            assert!(pair.a.recv_cq.poll_one()?.is_none(), "a completion");
        }
        Ok(())
    })?;
    // libsiw has none to be counted.
    let (context, attributes) = (&pair.bench.context, attributes_ex(64, 0));
    let extended = Cq::create_ex(context, None, attributes).ok();
    part(|| {
        for _ in 0..CALLS {
            if let Some(cq) = &extended {
                assert!(cq.poll_one()?.is_none(), "a completion");
            }
        }
        Ok(())
    })?;
    part(|| {
        for _ in 0..CALLS {
            pair.b.recv_cq.arm(false)?;
        }
        Ok(())
    })?;
    // Both ends have as many receives.
    for _ in 0..CALLS {
        pair.b.qp.post_recv(&recv)?;
    }
    part(|| (0..CALLS).try_for_each(|_| table.play(false)))?;
    part(|| (0..CALLS).try_for_each(|_| table.play(true)))
}

impl Table {
    fn new(device: Device) -> Result<Self, Stop> {
        let bench = Bench::open(device)?;
        let channels = [
            CompChannel::create(&bench.context)?,
            CompChannel::create(&bench.context)?,
        ];
        let caps = Caps {
            recv_wr: 2 * CALLS,
            ..Caps::default()
        };
        let mut inits = [
            bench.init(Transport::Rc, caps)?,
            bench.init(Transport::Rc, caps)?,
        ];
        for (init, channel) in inits.iter_mut().zip(&channels) {
            init.recv_cq = Cq::on_channel(channel, 256)?;
        }
        let memory = bench.memory(64)?;
        let [a, b] = inits;
        Ok(Self {
            pair: Pair::of(bench, a, b)?,
            channels,
            memory,
        })
    }

    /// A message there, and one back.
    fn play(&self, sleeps: bool) -> Outcome {
        let [there, back] = self.pair.directions();
        for ((from, to), channel) in [(there, &self.channels[1]), (back, &self.channels[0])] {
            if sleeps {
                to.recv_cq.arm(false)?;
            }
            let send = SendWr::send(&[self.memory.sge(0, 8)]).signaled();
            from.qp.post_send(&[send])?;
            if sleeps {
                drop(channel.get_event()?);
            }
            await_one(&to.recv_cq)?;
            await_one(&from.send_cq)?;
            to.qp
                .post_recv(&[RecvWr::new(0, &[self.memory.sge(0, 8)])])?;
        }
        Ok(())
    }
}
