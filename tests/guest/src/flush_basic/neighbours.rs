// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause

//! Several queue pairs on one CQ, of which some die.

use std::sync::Arc;

use guest::links::Device;
use guest::pair::Bench;
use guest::roll::{LineId, Roll};
use guest::scene::SMALL;
use guest::suite::{Outcome, Suite};
use guest::verbs::{Caps, Mr, Qp, QpInit, SendWr, Transport, sys};

pub(super) fn add(suite: &mut Suite) {
    for device in Device::ALL {
        suite.on("flush_basic", device, "one_of_four_on_a_cq", one_by_one);
    }
}

/// A QP on the common CQ, and its peer, which has CQs of its own.
struct Member {
    qp: Qp,
    peer: Qp,
    sends: LineId,
    recvs: LineId,
    /// Messages that were sent to it.
    messages: usize,
}

/// Four QPs share a CQ. They die one by one, and those that are left go on as if nothing had
/// happened.
fn one_by_one(device: Device) -> Outcome {
    let bench = Bench::open(device)?;
    let memory = bench.memory(64)?;
    let cq = bench.cq(512)?;
    let far = bench.init(Transport::Rc, Caps::default())?;
    let init = QpInit {
        send_cq: Arc::clone(&cq),
        recv_cq: Arc::clone(&cq),
        ..far.clone()
    };
    let roll = Roll::new();
    let mut members = Vec::new();
    for _ in 0..4 {
        let (qp, peer) = bench.connect(&init, &far)?;
        let (sends, recvs) = (roll.sends_of(&qp), roll.recvs_of(&qp));
        qp.post_recv(&roll.recvs(recvs, 20, memory.sge(0, SMALL)))?;
        members.push(Member {
            qp,
            peer,
            sends,
            recvs,
            messages: 0,
        });
    }
    for alive in (0..members.len()).rev() {
        for member in &mut members[..alive] {
            exchange(member, &roll, &memory, &far)?;
        }
        members[alive].qp.move_to(sys::IBV_QPS_ERR)?;
        for member in &mut members[..alive] {
            exchange(member, &roll, &memory, &far)?;
        }
    }
    roll.settle(&[&cq])?;
    for member in &members {
        let received = roll.statuses(member.recvs);
        let arrived = received
            .iter()
            .take_while(|&&status| status == Some(sys::IBV_WC_SUCCESS));
        assert_eq!(arrived.count(), member.messages);
        roll.assert_flushed_from(member.recvs, member.messages);
    }
    Ok(())
}

/// One message in, and one WRITE out.
fn exchange(member: &mut Member, roll: &Roll, memory: &Mr, far: &QpInit) -> Outcome {
    let sge = [memory.sge(0, SMALL)];
    let write = SendWr::write(&sge, memory.remote(SMALL)).signaled();
    member.qp.post_send(&[roll.send(member.sends, write)])?;
    member.peer.post_send(&[SendWr::send(&sge).signaled()])?;
    far.send_cq.take_one()?.ok();
    member.messages += 1;
    Ok(())
}
