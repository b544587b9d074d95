// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause

//! Threads with objects of their own, on one context: they have nothing to do with each other, but the
//! context's lists of them.

use std::thread;

use guest::links::Device;
use guest::pair::Bench;
use guest::roll::Roll;
use guest::scene::SMALL;
use guest::suite::{Outcome, Stop, Suite};
use guest::verbs::{Caps, SendWr, Srq, Transport, sys};

use super::{join, repeat};
use crate::leaks::usage::returns_resources;

/// Threads at work.
const THREADS: usize = 6;

/// Connections that each makes and ends.
const CONNECTIONS: usize = 5;

pub(super) fn add(suite: &mut Suite) {
    for device in Device::ALL {
        suite
            .on("threads", device, "own_objects", run)
            .within(120)
            .beyond_stock("what is posted to a dead QP is lost");
    }
}

fn run(device: Device) -> Outcome {
    let bench = Bench::open(device)?;
    returns_resources(device, || {
        thread::scope(|scope| {
            let threads: Vec<_> = (0..THREADS)
                .map(|_| repeat(scope, CONNECTIONS, || live_and_die(&bench)))
                .collect();
            join(threads)
        })
    })
}

/// A connection whose QP dies with requests on both queues, and takes some more.
fn live_and_die(bench: &Bench) -> Outcome {
    let memory = bench.memory(64)?;
    let far = bench.init(Transport::Rc, Caps::default())?;
    let mut near = bench.init(Transport::Rc, Caps::default())?;
    near.srq = Some(Srq::create(&bench.pd, 16, 1)?);
    let (qp, peer) = bench.connect(&near, &far)?;
    let roll = Roll::new();
    let (sends, recvs) = (roll.sends_of(&qp), roll.recvs_of(&peer));
    let write = SendWr::write(&[memory.sge(0, SMALL)], memory.remote(SMALL));
    peer.post_recv(&roll.recvs(recvs, 8, memory.sge(0, SMALL)))?;
    qp.post_send(&roll.alternating(sends, 12, &write))?;
    for dying in [&qp, &peer] {
        dying.move_to(sys::IBV_QPS_ERR)?;
    }
    qp.post_send(&roll.alternating(sends, 4, &write))?;
    peer.post_recv(&roll.recvs(recvs, 4, memory.sge(0, SMALL)))?;
    roll.settle(&[&near.send_cq, &far.recv_cq])
        .map_err(|stop: Stop| stop.during(format_args!("QP {}", qp.number())))
}
