// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause

//! Theme `storm`: hundreds of connections that are made, used and killed leave nothing behind.
//!
//! `GUEST_ROUNDS` counts twenty connections for one: a hundred rounds are two thousand.

use std::sync::Arc;
use std::time::Instant;

use guest::death::no_remote;
use guest::links::Device;
use guest::pair::{Bench, owner};
use guest::payload::Random;
use guest::roll::Roll;
use guest::scene::SMALL;
use guest::suite::{Outcome, Suite, remark};
use guest::verbs::{Caps, Mr, Qp, QpInit, RecvWr, SendWr, Srq, Transport, sys};

use crate::leaks::usage::{Usage, returns_resources};
use crate::races::{deadline, rounds};

/// Connections that count as one round.
const EACH: usize = 20;

/// Connections before the first look at memory: what is kept once is there then.
const WARM_UP: usize = 40;

/// Bytes of heap growth that are no leak; a leaked queue pair or CQ per connection is many times as
/// much.
const HEAP_SLACK: usize = 16 << 10;

/// Adds the cases of this theme.
pub(crate) fn add(suite: &mut Suite) {
    for device in Device::ALL {
        suite
            .case(format!("storm/{device}"), move || run(device, End::any))
            .within(deadline(30))
            .beyond_stock("what is posted to a dead QP is lost");
    }
    suite
        .case("storm/refused", || run(Device::Rxe, |_| End::Refused))
        .within(deadline(30))
        .beyond_stock("what is posted to a dead QP is lost");
}

/// Connections of which each ends as `end` says.
fn run(device: Device, end: fn(&mut Random) -> End) -> Outcome {
    let bench = Bench::open(device)?;
    let memory = bench.memory(64)?;
    let storm = Storm { bench, memory };
    returns_resources(device, || {
        let mut random = Random::replayable();
        for _ in 0..WARM_UP {
            storm.cycle(&mut random, end)?;
        }
        let (before, start) = (Usage::now()?, Instant::now());
        let count = EACH * rounds();
        for _ in 0..count {
            storm.cycle(&mut random, end)?;
        }
        let seconds = start.elapsed().as_secs_f32();
        remark(format_args!(
            "{count} connections on {device} in {seconds:.1} s"
        ));
        before.assert_flat_but_for(&Usage::now()?, HEAP_SLACK);
        Ok(())
    })
}

struct Storm {
    bench: Bench,
    memory: Mr,
}

/// How a connection ends.
#[derive(Clone, Copy)]
enum End {
    /// Somebody moves a QP to ERR.
    Err(bool),
    /// Somebody closes the connection, if there is such a thing.
    Close(bool),
    /// The QPs are just destroyed.
    Destroy,
    /// The peer asks for memory that is none.
    Refused,
}

impl End {
    fn any(random: &mut Random) -> Self {
        let mine = random.between(0, 1) == 0;
        match random.between(0, 2) {
            0 => Self::Err(mine),
            1 => Self::Close(mine),
            _ => Self::Destroy,
        }
    }
}

impl Storm {
    /// One connection: some messages, some requests that are never answered, some end, and some
    /// requests behind it. Half of them have an SRQ.
    fn cycle(&self, random: &mut Random, end: fn(&mut Random) -> End) -> Outcome {
        let far = self.bench.init(Transport::Rc, Caps::default())?;
        let mut near = self.bench.init(Transport::Rc, Caps::default())?;
        if random.between(0, 1) == 0 {
            near.srq = Some(Srq::create(&self.bench.pd, 64, 1)?);
        }
        let (qp, peer) = self.bench.connect(&near, &far)?;
        self.talk(&qp, &peer, &near, &far)?;
        let roll = Roll::new();
        let sends = roll.sends_of(&qp);
        let write = SendWr::write(&[self.memory.sge(0, SMALL)], self.memory.remote(SMALL));
        qp.post_send(&roll.alternating(sends, random.between(1, 16), &write))?;
        let (dying, end) = (&qp, end(random));
        match end {
            End::Err(mine) => pick(mine, dying, &peer).move_to(sys::IBV_QPS_ERR)?,
            End::Close(mine) if self.bench.device == Device::Siw => {
                owner(pick(mine, dying, &peer))?.disconnect()?;
            }
            End::Close(_) | End::Destroy => {}
            End::Refused => {
                let sge = self.memory.sge(0, SMALL);
                let write = SendWr::write(&[sge], no_remote(self.memory.remote(0)));
                peer.post_send(&[write.signaled()])?;
                let refused = far.send_cq.take_one()?;
                assert_eq!(refused.status, sys::IBV_WC_REM_ACCESS_ERR, "{refused:?}");
            }
        }
        if matches!(end, End::Err(true) | End::Refused) {
            qp.post_send(&roll.alternating(sends, 4, &write))?;
            roll.settle(&[&near.send_cq])?;
        }
        Ok(())
    }

    /// A few messages to the QP.
    fn talk(&self, qp: &Qp, peer: &Qp, near: &QpInit, far: &QpInit) -> Outcome {
        let sge = [self.memory.sge(0, SMALL)];
        let recvs: Vec<_> = (0..8).map(|at| RecvWr::new(at, &sge)).collect();
        match &near.srq {
            Some(srq) => Arc::clone(srq).post_recv(&recvs)?,
            None => qp.post_recv(&recvs)?,
        }
        let send = SendWr::send(&sge).signaled();
        peer.post_send(&vec![send; 4])?;
        for wc in far.send_cq.take(4)? {
            wc.ok();
        }
        for wc in near.recv_cq.take(4)? {
            wc.ok();
        }
        Ok(())
    }
}

fn pick<'q>(mine: bool, qp: &'q Qp, peer: &'q Qp) -> &'q Qp {
    if mine { qp } else { peer }
}
