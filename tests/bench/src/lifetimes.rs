// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause

//! The program that is measured for what objects cost: their memory, and the time to make and to destroy them.

use std::time::{Duration, Instant};

use guest::links::Device;
use guest::pair::Bench;
use guest::suite::Stop;
use guest::verbs::{Caps, Context, Cq, Qp, QpInit, Srq, Transport, load_providers};

use crate::rows::median;

/// How often each is timed.
const TIMES: usize = 21;

/// Measures, and calls `tell` with the name, the unit and the value of each row.
///
/// # Errors
///
/// A failure of any verb.
pub(crate) fn run(device: Device, mut tell: impl FnMut(&str, &str, f64)) -> Result<(), Stop> {
    let begun = Instant::now();
    load_providers()?;
    tell("load providers", "µs", micros(begun.elapsed()));
    let open = timed(|| Ok(Context::open(device.ibdev())?))?;
    tell("open and close", "µs", open);
    let bench = Bench::open_directly(device)?;
    let cq = bench.cq(64)?;
    let init = |caps| QpInit {
        transport: Transport::Rc,
        send_cq: cq.clone(),
        recv_cq: cq.clone(),
        srq: None,
        caps,
        signal_all: false,
        send_ops: None,
    };
    let create = timed(|| bench.cq(64))?;
    tell("create and destroy a CQ", "µs", create);
    let create = timed(|| Ok(Qp::create(&bench.pd, &init(Caps::default()))?))?;
    tell("create and destroy a QP", "µs", create);
    let caps = |send_wr, recv_wr| Caps {
        send_wr,
        recv_wr,
        send_sge: 1,
        recv_sge: 1,
        inline: 0,
    };
    let (pd, context, init) = (&bench.pd, &bench.context, &init);
    let qp = |caps| move || Ok(Qp::create(pd, &init(caps))?);
    let (few, many) = (64, 16384 - 1);
    let per_entry = |small: f64, large: f64| (large - small) / f64::from(many - few);
    let least = heap_of(qp(caps(few, few)))?;
    tell("a QP of 64 and 64", "bytes", least);
    let sends = per_entry(least, heap_of(qp(caps(many, few)))?);
    tell("an SQ entry", "bytes", sends);
    let recvs = per_entry(least, heap_of(qp(caps(few, many)))?);
    tell("an RQ entry", "bytes", recvs);
    let srq = |wrs| move || Ok(Srq::create(pd, wrs, 1)?);
    let srqs = per_entry(heap_of(srq(few))?, heap_of(srq(many))?);
    tell("an SRQ entry", "bytes", srqs);
    let cqs = |entries| move || Ok(Cq::create(context, entries)?);
    let entries = per_entry(heap_of(cqs(few as usize))?, heap_of(cqs(many as usize))?);
    tell("a CQ entry", "bytes", entries);
    Ok(())
}

fn micros(time: Duration) -> f64 {
    time.as_secs_f64() * 1e6
}

/// The median time to make an object and to drop it.
fn timed<T>(mut make: impl FnMut() -> Result<T, Stop>) -> Result<f64, Stop> {
    let mut times = Vec::new();
    for _ in 0..TIMES {
        let begun = Instant::now();
        drop(make()?);
        times.push(micros(begun.elapsed()));
    }
    median(times).ok_or_else(|| Stop::Fail("nothing was timed".to_owned()))
}

/// The bytes of heap that an object has; the rings are mapped by the provider itself and not among them.
fn heap_of<T>(make: impl Fn() -> Result<T, Stop>) -> Result<f64, Stop> {
    // Once before, for what is made at the first one and stays.
    drop(make()?);
    let before = heap();
    let object = make()?;
    let after = heap();
    drop(object);
    Ok(after - before)
}

fn heap() -> f64 {
    // SAFETY: it takes nothing and returns numbers.
    let info = unsafe { libc::mallinfo2() };
    (info.uordblks + info.hblkhd) as f64
}
