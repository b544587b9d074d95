// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause

//! Queues that are full: the request that does not fit is refused with `ENOMEM`, and there is room
//! again when completions have been polled.

use guest::links::Device;
use guest::pair::{Bench, Pair};
use guest::suite::{Outcome, Stop, Suite};
use guest::verbs::{BadWr, Caps, QpInit, RecvWr, Refused, SendWr, Srq, Transport};

use super::{NEGATIVE, assert_works};

/// Entries that each queue is created with; the driver may round it up.
const DEPTH: u32 = 16;

/// Requests of a list that no queue of that depth takes.
const FLOOD: u64 = 200;

pub(super) fn add(suite: &mut Suite) {
    for device in Device::ALL {
        let on_siw = device.pick(None, Some(NEGATIVE));
        suite
            .on("bad_input", device, "full_send_queue", send)
            .beyond_stock(device.pick(None, Some("the doorbell's success hides the refusal")));
        suite
            .on("bad_input", device, "full_recv_queue", recv)
            .beyond_stock(on_siw);
        suite
            .on("bad_input", device, "full_srq", srq)
            .beyond_stock(on_siw);
    }
}

const CAPS: Caps = Caps {
    send_wr: DEPTH,
    recv_wr: DEPTH,
    send_sge: 1,
    recv_sge: 1,
    inline: 0,
};

/// How many of the list were accepted, when the rest did not fit.
fn accepted(posted: Result<(), Refused>) -> Result<usize, Stop> {
    match posted {
        Err(Refused {
            returned: libc::ENOMEM,
            bad: BadWr::At(accepted),
        }) => {
            assert!(
                accepted >= DEPTH as usize,
                "only {accepted} of {DEPTH} were accepted"
            );
            Ok(accepted)
        }
        Err(refused) => Err(refused.into()),
        Ok(()) => Err(Stop::Fail(format!(
            "all {FLOOD} fit into a queue of {DEPTH}"
        ))),
    }
}

/// A pair with small queues and CQs that could hold all completions of the flood.
fn small_pair(device: Device) -> Result<Pair, Stop> {
    let bench = Bench::open(device)?;
    let mut ends = Vec::new();
    for _ in 0..2 {
        let (send_cq, recv_cq) = (bench.cq(256)?, bench.cq(256)?);
        ends.push(QpInit {
            send_cq,
            recv_cq,
            ..bench.init(Transport::Rc, CAPS)?
        });
    }
    Pair::of(bench, ends[0].clone(), ends[1].clone())
}

fn send(device: Device) -> Outcome {
    let pair = small_pair(device)?;
    let (memory, far) = (pair.bench.memory(64)?, pair.bench.memory(64)?);
    for _ in 0..3 {
        let flood: Vec<_> = (0..FLOOD)
            .map(|id| {
                SendWr::write(&[memory.sge(0, 8)], far.remote(0))
                    .id(id)
                    .signaled()
            })
            .collect();
        let accepted = accepted(pair.a.qp.post_send(&flood))?;
        for (wr_id, wc) in (0..).zip(pair.a.send_cq.take(accepted)?) {
            assert_eq!(wc.ok().wr_id, wr_id);
        }
    }
    assert_works(&pair)
}

fn recv(device: Device) -> Outcome {
    let pair = small_pair(device)?;
    let memory = pair.bench.memory(64)?;
    for _ in 0..3 {
        let flood: Vec<_> = (0..FLOOD)
            .map(|id| RecvWr::new(id, &[memory.sge(0, 8)]))
            .collect();
        let accepted = accepted(pair.b.qp.post_recv(&flood))?;
        for wr_id in (0..).take(accepted) {
            pair.a
                .qp
                .post_send(&[SendWr::send(&[memory.sge(8, 8)]).signaled()])?;
            pair.a.send_cq.take_one()?.ok();
            assert_eq!(pair.b.recv_cq.take_one()?.ok().wr_id, wr_id);
        }
    }
    assert_works(&pair)
}

fn srq(device: Device) -> Outcome {
    let bench = Bench::open(device)?;
    let srq = Srq::create(&bench.pd, DEPTH, 1)?;
    let a = bench.init(Transport::Rc, CAPS)?;
    let b = QpInit {
        srq: Some(srq.clone()),
        ..bench.init(Transport::Rc, CAPS)?
    };
    let (sender, _receiver) = bench.connect(&a, &b)?;
    let memory = bench.memory(64)?;
    for _ in 0..3 {
        let flood: Vec<_> = (0..FLOOD)
            .map(|id| RecvWr::new(id, &[memory.sge(0, 8)]))
            .collect();
        let accepted = accepted(srq.post_recv(&flood))?;
        for wr_id in (0..).take(accepted) {
            sender.post_send(&[SendWr::send(&[memory.sge(8, 8)]).signaled()])?;
            a.send_cq.take_one()?.ok();
            assert_eq!(b.recv_cq.take_one()?.ok().wr_id, wr_id);
        }
    }
    Ok(())
}
