// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause

//! Queues that several queue pairs share.

use std::collections::HashMap;

use guest::links::Device;
use guest::pair::Bench;
use guest::payload::{Random, message};
use guest::suite::{Outcome, Suite};
use guest::verbs::{Caps, QpInit, RecvWr, SendWr, Srq, Transport, sys};

/// Bytes of each message.
const LEN: usize = 40;

pub(super) fn add(suite: &mut Suite) {
    for device in Device::ALL {
        suite.case(format!("traffic/{device}/rc/shared_srq"), move || {
            srq(device)
        });
        suite.case(format!("traffic/{device}/rc/shared_cq"), move || cq(device));
    }
}

/// Two QPs take from one SRQ, whatever comes first; each buffer is used once, and each message
/// arrives at the QP it was sent to.
fn srq(device: Device) -> Outcome {
    let (rounds, batch) = (60, 16);
    let mut random = Random::replayable();
    let bench = Bench::open(device)?;
    let srq = Srq::create(&bench.pd, 16, 1)?;
    let recv_cq = bench.cq(64)?;
    let receiver = QpInit {
        srq: Some(srq.clone()),
        recv_cq: recv_cq.clone(),
        ..bench.init(Transport::Rc, Caps::default())?
    };
    let sender = bench.init(Transport::Rc, Caps::default())?;
    let pairs = [
        bench.connect(&sender, &receiver)?,
        bench.connect(&sender, &receiver)?,
    ];
    let (from, to) = (bench.memory(batch * LEN)?, bench.memory(batch * LEN)?);
    let mut number: u64 = 0;
    for _ in 0..rounds {
        let recvs: Vec<_> = (0..batch)
            .map(|at| RecvWr::new(at as u64, &[to.sge(at * LEN, LEN)]))
            .collect();
        let (first, second) = recvs.split_at(random.between(1, batch - 1));
        srq.post_recv(first)?;
        srq.post_recv(second)?;
        // What each QP has been sent and not yet received, oldest first.
        let mut due: HashMap<u32, Vec<u64>> = HashMap::new();
        for at in 0..batch {
            let (qp, peer) = &pairs[random.between(0, 1)];
            number += 1;
            from.write(at * LEN, &message(number, LEN));
            qp.post_send(&[SendWr::send(&[from.sge(at * LEN, LEN)]).signaled()])?;
            due.entry(peer.number()).or_default().push(number);
        }
        let mut used = vec![false; batch];
        for wc in recv_cq.take(batch)? {
            let at = usize::try_from(wc.ok().wr_id)?;
            assert!(
                !std::mem::replace(&mut used[at], true),
                "buffer {at} was used twice"
            );
            let queue = due.entry(wc.qp_num).or_default();
            assert!(!queue.is_empty(), "too many messages at QP {}", wc.qp_num);
            let expected = message(queue.remove(0), LEN);
            assert!(
                to.read(at * LEN..(at + 1) * LEN) == expected,
                "not the message due: {wc:?}"
            );
        }
        for wc in sender.send_cq.take(batch)? {
            wc.ok();
        }
    }
    Ok(())
}

/// One CQ for the sends and receives of four QPs: each request completes once, in the order of
/// its queue, and names its QP.
fn cq(device: Device) -> Outcome {
    let mut random = Random::replayable();
    let bench = Bench::open(device)?;
    let cq = bench.cq(256)?;
    let mut init = bench.init(Transport::Rc, Caps::default())?;
    (init.send_cq, init.recv_cq) = (cq.clone(), cq.clone());
    let (a, b) = bench.connect(&init, &init)?;
    let (c, d) = bench.connect(&init, &init)?;
    let qps = [(&a, &b), (&b, &a), (&c, &d), (&d, &c)];
    let (from, to) = (bench.memory(LEN)?, bench.memory(LEN)?);
    from.write(0, &message(1, LEN));
    // The number of the request that is due next, per QP and opcode of its completion.
    let mut posted: HashMap<(u32, u32), u64> = HashMap::new();
    let mut completed = posted.clone();
    for _ in 0..100 {
        let mut expected = 0;
        for _ in 0..random.between(1, 20) {
            let (qp, peer) = qps[random.between(0, qps.len() - 1)];
            let number = posted.entry((peer.number(), sys::IBV_WC_RECV)).or_default();
            peer.post_recv(&[RecvWr::new(*number, &[to.sge(0, LEN)])])?;
            *number += 1;
            let number = posted.entry((qp.number(), sys::IBV_WC_SEND)).or_default();
            qp.post_send(&[SendWr::send(&[from.sge(0, LEN)]).id(*number).signaled()])?;
            *number += 1;
            expected += 2;
        }
        for wc in cq.take(expected)? {
            let due = completed.entry((wc.ok().qp_num, wc.opcode)).or_default();
            assert_eq!(wc.wr_id, *due, "out of order: {wc:?}");
            *due += 1;
        }
        assert_eq!(completed, posted);
    }
    Ok(())
}
