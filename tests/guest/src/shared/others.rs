// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause

//! The SRQ itself, and its other queue pairs, live on.

use guest::death::Death;
use guest::events::next_event;
use guest::links::Device;
use guest::pair::Bench;
use guest::roll::{LineId, Roll, patience};
use guest::scene::SMALL;
use guest::suite::{Outcome, Stop, Suite};
use guest::verbs::{Caps, Mr, Qp, QpInit, SendWr, Srq, Transport, sys};

use super::{poll, victim};

pub(super) fn add(suite: &mut Suite) {
    for device in Device::ALL {
        suite.on("shared", device, "others_go_on", others_go_on);
        suite.on("shared", device, "next_qp_goes_on", next_qp_goes_on);
        suite
            .on("shared", device, "limit_and_death", limit_and_death)
            .beyond_stock(device.pick(None, Some("an SRQ cannot be queried")));
    }
}

/// Receives in the SRQ of [`Party`].
const STOCK: usize = 24;

/// QPs on one SRQ and one CQ, and their peers.
struct Party {
    qps: Vec<(Qp, Qp)>,
    far: QpInit,
    near: QpInit,
    memory: Mr,
    roll: Roll,
    line: LineId,
    bench: Bench,
}

impl Party {
    fn of(device: Device, count: usize) -> Result<Self, Stop> {
        let bench = Bench::open(device)?;
        let far = bench.init(Transport::Rc, Caps::default())?;
        let srq = Srq::create(&bench.pd, 64, 1)?;
        let near = QpInit {
            recv_cq: bench.cq(256)?,
            srq: Some(srq.clone()),
            ..bench.init(Transport::Rc, Caps::default())?
        };
        let memory = bench.memory(64)?;
        let roll = Roll::new();
        let line = roll.shared_recvs();
        let mut party = Self {
            qps: Vec::new(),
            far,
            near,
            memory,
            roll,
            line,
            bench,
        };
        for _ in 0..count {
            party.join()?;
        }
        srq.post_recv(
            &party
                .roll
                .recvs(party.line, STOCK, party.memory.sge(0, SMALL)),
        )?;
        Ok(party)
    }

    fn join(&mut self) -> Outcome {
        self.qps.push(self.bench.connect(&self.near, &self.far)?);
        Ok(())
    }

    /// Sends a message to one of the QPs.
    fn send_to(&self, at: usize) -> Outcome {
        let message = SendWr::send(&[self.memory.sge(0, SMALL)]).signaled();
        self.qps[at].1.post_send(&[message])?;
        self.far.send_cq.take_one()?.ok();
        Ok(())
    }

    /// Checks that exactly `count` receives have completed, all with success.
    fn expect(&self, count: usize) -> Outcome {
        let start = std::time::Instant::now();
        while self.roll.answered(self.line) < count && start.elapsed() < patience() {
            self.roll.poll(&self.near.recv_cq)?;
        }
        self.roll
            .settle(&[&self.near.recv_cq, &self.near.send_cq])?;
        let statuses = self.roll.statuses(self.line);
        let done: Vec<_> = statuses.iter().flatten().collect();
        assert_eq!(done, vec![&sys::IBV_WC_SUCCESS; count]);
        Ok(())
    }
}

/// One dies, and not one receive goes with it: the other two get as many messages as there are
/// receives.
fn others_go_on(device: Device) -> Outcome {
    let party = Party::of(device, 3)?;
    for at in 0..3 {
        party.send_to(at)?;
    }
    party.qps[1].0.move_to(sys::IBV_QPS_ERR)?;
    for at in 3..STOCK {
        party.send_to(at % 2 * 2)?;
    }
    party.expect(STOCK)
}

/// The only QP of an SRQ dies and goes; another one takes the receives that are left, and new ones.
fn next_qp_goes_on(device: Device) -> Outcome {
    let mut party = Party::of(device, 1)?;
    party.send_to(0)?;
    party.qps[0].0.move_to(sys::IBV_QPS_ERR)?;
    party.expect(1)?;
    drop(party.qps.pop());
    let late = party.roll.recvs(party.line, 4, party.memory.sge(0, SMALL));
    let srq = party.near.srq.clone();
    srq.ok_or_else(|| Stop::skip("no SRQ"))?.post_recv(&late)?;
    party.join()?;
    for _ in 1..STOCK + 4 {
        party.send_to(0)?;
    }
    party.expect(STOCK + 4)
}

/// The limit event comes once, and says nothing of the QP; then the limit is 0.
fn limit_and_death(device: Device) -> Outcome {
    let scene = victim(device)?;
    let srq = scene.srq.clone().ok_or_else(|| Stop::skip("no SRQ"))?;
    scene.post_recvs(10)?;
    srq.arm_limit(8)?;
    assert_eq!(srq.limit()?, 8);
    let message = SendWr::send(&[scene.near.sge(0, SMALL)]).signaled();
    for _ in 0..3 {
        scene.peer().qp.post_send(std::slice::from_ref(&message))?;
        scene.peer().send_cq.take_one()?.ok();
    }
    let event = next_event(scene.context(), patience(), || poll(&scene))?;
    let event = event.ok_or_else(|| Stop::Fail("no limit event".to_owned()))?;
    assert_eq!(event.kind(), sys::IBV_EVENT_SRQ_LIMIT_REACHED);
    assert!(event.is_of_srq(&srq));
    assert_eq!(srq.limit()?, 0);
    Death::ModifyErr.inflict(&scene, 0)?;
    scene.settle()?;
    assert_eq!(scene.roll.answered(scene.recvs), 3);
    assert_eq!(srq.limit()?, 0);
    Ok(())
}
