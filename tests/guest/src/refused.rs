// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause

//! Theme `refused`: what a verb has refused never completes and is never sent, whatever becomes of
//! the queue pair; what it has accepted early is carried out later.

use std::thread;

use guest::links::Device;
use guest::pair::Bench;
use guest::roll::{LineId, Roll, patience, wr_id};
use guest::scene::SMALL;
use guest::suite::{Outcome, Stop, Suite};
use guest::verbs::{BadWr, Caps, Mr, Qp, QpInit, RecvWr, Refused, SendWr, Transport, sys};

/// The fault of both stock providers.
const KEPT: &str = "the refused send stays in the ring";

/// Adds the cases of this theme.
pub(crate) fn add(suite: &mut Suite) {
    for device in Device::ALL {
        suite
            .on("refused", device, "sends_then_rts", sends_then_rts)
            .beyond_stock(KEPT);
        suite
            .on("refused", device, "sends_then_err", sends_then_err)
            .beyond_stock(KEPT);
        suite
            .on("refused", device, "bad_among_good", bad_among_good)
            .beyond_stock(device.pick(None, Some("the doorbell's success hides the refusal")));
        suite.on("refused", device, "recvs_in_init", recvs_in_init);
    }
    suite.on("refused", Device::Rxe, "recvs_in_reset", recvs_in_reset);
    suite
        .on("refused", Device::Rxe, "sqd_then_rts", sqd_then_rts)
        .beyond_stock("6.1: nobody starts what was posted in SQD");
    suite.on("refused", Device::Rxe, "sqd_then_err", sqd_then_err);
}

/// What the cases of this theme are made from.
struct Ground {
    bench: Bench,
    a: QpInit,
    b: QpInit,
    memory: Mr,
    roll: Roll,
}

impl Ground {
    fn new(device: Device) -> Result<Self, Stop> {
        let bench = Bench::open(device)?;
        Ok(Self {
            a: bench.init(Transport::Rc, Caps::default())?,
            b: bench.init(Transport::Rc, Caps::default())?,
            memory: bench.memory(64)?,
            bench,
            roll: Roll::new(),
        })
    }

    /// Posts two sends, which must be refused. How, is the theme `bad_input`'s to check.
    fn refuse_sends(&self, qp: &Qp) -> Outcome {
        let line = self.roll.sends_of(qp);
        let list = self.roll.alternating(line, 2, &self.write());
        self.roll.refuse(line, 2);
        assert!(
            qp.post_send(&list).is_err(),
            "a send before RTS is accepted"
        );
        Ok(())
    }

    fn write(&self) -> SendWr<'_> {
        SendWr::write(&[self.memory.sge(0, SMALL)], self.memory.remote(SMALL))
    }

    /// Sends `count` messages from `qp` to `peer`: nothing else must be sent or completed.
    fn exchange(&self, qp: &Qp, peer: &Qp, count: usize) -> Outcome {
        let (sends, recvs) = (self.roll.sends_of(qp), self.roll.recvs_of(peer));
        peer.post_recv(&self.roll.recvs(recvs, count, self.memory.sge(0, SMALL)))?;
        let send = SendWr::send(&[self.memory.sge(0, SMALL)]).signaled();
        qp.post_send(&self.roll.sends(sends, count, &send))?;
        self.settle()
    }

    fn settle(&self) -> Outcome {
        let (a, b) = (&self.a, &self.b);
        self.roll
            .settle(&[&a.send_cq, &a.recv_cq, &b.send_cq, &b.recv_cq])
    }
}

/// Refused in every state before RTS, and still refused when the QP is there and works.
fn sends_then_rts(device: Device) -> Outcome {
    let ground = Ground::new(device)?;
    let connected = ground
        .bench
        .connect_watched(&ground.a, &ground.b, |qp| ground.refuse_sends(qp));
    let (a, b) = connected?;
    ground.exchange(&a, &b, 20)?;
    ground.exchange(&b, &a, 20)?;
    a.move_to(sys::IBV_QPS_ERR)?;
    ground.settle()
}

/// Refused in INIT, and not flushed when the QP dies there.
fn sends_then_err(device: Device) -> Outcome {
    let ground = Ground::new(device)?;
    let qp = ground.bench.unconnected(&ground.a)?;
    ground.refuse_sends(&qp)?;
    qp.move_to(sys::IBV_QPS_ERR)?;
    let line = ground.roll.sends_of(&qp);
    qp.post_send(&ground.roll.alternating(line, 4, &ground.write()))?;
    ground.roll.demand_all(line);
    ground.settle()?;
    ground.roll.assert_flushed(line);
    Ok(())
}

/// A bad request in the middle: what stands before it is carried out, the rest is not, not even
/// when the QP dies.
fn bad_among_good(device: Device) -> Outcome {
    let ground = Ground::new(device)?;
    let (a, _b) = ground.bench.connect(&ground.a, &ground.b)?;
    let (sends, recvs) = (ground.roll.sends_of(&a), ground.roll.recvs_of(&a));
    let too_many = vec![ground.memory.sge(0, 1); 40];

    let write = ground.write().signaled();
    let mut list = ground.roll.sends(sends, 5, &write);
    list[3] = SendWr::write(&too_many, ground.memory.remote(SMALL)).id(wr_id(sends, 3));
    ground.roll.refuse(sends, 2);
    assert_eq!(bad_wr(a.post_send(&list)), Some(BadWr::At(3)));

    let mut list = ground.roll.recvs(recvs, 5, ground.memory.sge(0, SMALL));
    list[3] = RecvWr::new(wr_id(recvs, 3), &too_many);
    ground.roll.refuse(recvs, 2);
    assert_eq!(bad_wr(a.post_recv(&list)), Some(BadWr::At(3)));

    ground.roll.collect(&[&ground.a.send_cq], patience())?;
    a.move_to(sys::IBV_QPS_ERR)?;
    ground.settle()?;
    accepted_succeeded(&ground.roll, sends, 3);
    Ok(())
}

fn bad_wr(posted: Result<(), Refused>) -> Option<BadWr> {
    posted.err().map(|refused| refused.bad)
}

fn accepted_succeeded(roll: &Roll, line: LineId, count: usize) {
    let statuses = roll.statuses(line);
    let expected = vec![Some(sys::IBV_WC_SUCCESS); count];
    assert_eq!(statuses[..count], expected);
}

/// A receive that was posted before the QP had a peer takes the first message.
fn recvs_in_init(device: Device) -> Outcome {
    let ground = Ground::new(device)?;
    let line = std::cell::Cell::new(None);
    let connected = ground.bench.connect_watched(&ground.a, &ground.b, |qp| {
        let is_init = qp.cached_state() == sys::IBV_QPS_INIT;
        if is_init && line.get().is_none() {
            let recvs = ground.roll.recvs_of(qp);
            line.set(Some(recvs));
            qp.post_recv(&ground.roll.recvs(recvs, 4, ground.memory.sge(0, SMALL)))?;
        }
        Ok(())
    });
    let (a, b) = connected?;
    let line = line
        .get()
        .ok_or_else(|| Stop::skip("the QP was never seen in INIT"))?;
    let sends = ground.roll.sends_of(&b);
    let send = SendWr::send(&[ground.memory.sge(0, SMALL)]).signaled();
    b.post_send(&ground.roll.sends(sends, 2, &send))?;
    ground.roll.collect(&[&ground.b.send_cq], patience())?;
    a.move_to(sys::IBV_QPS_ERR)?;
    ground.settle()?;
    accepted_succeeded(&ground.roll, line, 2);
    ground.roll.assert_flushed_from(line, 2);
    Ok(())
}

/// A receive in RESET is refused; neither the first message nor the error state completes it.
fn recvs_in_reset(device: Device) -> Outcome {
    let ground = Ground::new(device)?;
    let (a, b) = ground.bench.connect_watched(&ground.a, &ground.b, |qp| {
        if qp.cached_state() == sys::IBV_QPS_RESET {
            let recvs = ground.roll.recvs_of(qp);
            let list = ground.roll.recvs(recvs, 2, ground.memory.sge(0, SMALL));
            ground.roll.refuse(recvs, 2);
            assert!(
                qp.post_recv(&list).is_err(),
                "a receive in RESET is accepted"
            );
        }
        Ok(())
    })?;
    ground.exchange(&b, &a, 10)?;
    a.move_to(sys::IBV_QPS_ERR)?;
    ground.settle()
}

/// A connected pair, its sender drained, and sends posted to it.
fn drained(ground: &Ground) -> Result<(Qp, Qp, LineId), Stop> {
    let (a, b) = ground.bench.connect(&ground.a, &ground.b)?;
    ground.exchange(&a, &b, 4)?;
    a.move_to(sys::IBV_QPS_SQD)?;
    while a.is_draining()? {
        thread::yield_now();
    }
    let line = ground.roll.sends_of(&a);
    a.post_send(&ground.roll.sends(line, 10, &ground.write().signaled()))?;
    Ok((a, b, line))
}

/// What was posted in SQD is carried out when the QP goes on, without another post.
fn sqd_then_rts(device: Device) -> Outcome {
    let ground = Ground::new(device)?;
    let (a, _b, line) = drained(&ground)?;
    ground.roll.listen(&[&ground.a.send_cq])?;
    assert_eq!(ground.roll.outstanding(), 10, "a drained QP sends");
    a.move_to(sys::IBV_QPS_RTS)?;
    ground.settle()?;
    accepted_succeeded(&ground.roll, line, 10);
    Ok(())
}

/// What was posted in SQD is flushed when the QP dies.
fn sqd_then_err(device: Device) -> Outcome {
    let ground = Ground::new(device)?;
    let (a, _b, line) = drained(&ground)?;
    a.move_to(sys::IBV_QPS_ERR)?;
    ground.settle()?;
    ground.roll.assert_flushed(line);
    Ok(())
}
