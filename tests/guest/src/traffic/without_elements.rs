// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause

//! Receives without elements: they take messages without bytes, and no others.

use guest::links::Device;
use guest::pair::{Bench, Pair};
use guest::suite::{Outcome, Suite};
use guest::verbs::{Caps, QpInit, RecvWr, SendWr, Srq, Transport, sys};

/// Messages of each kind: more than the queue has entries for.
const ROUNDS: u64 = 150;

type Body = fn(Device) -> Outcome;

pub(super) fn add(suite: &mut Suite) {
    for device in Device::ALL {
        for (name, body) in [
            ("recvs_without_sges", empty as Body),
            ("srq_recvs_without_sges", of_an_srq),
            ("bytes_for_no_sge", too_much),
        ] {
            let name = format!("traffic/{device}/rc/{name}");
            let fault = device.pick(None, Some("a receive without elements is refused"));
            suite.case(name, move || body(device)).beyond_stock(fault);
        }
    }
}

/// Between others, each takes its message.
fn empty(device: Device) -> Outcome {
    let pair = Pair::new(device, Transport::Rc)?;
    let memory = pair.bench.memory(16)?;
    memory.write(0, b"elements");
    for round in 0..ROUNDS {
        let (empty, full) = (2 * round, 2 * round + 1);
        pair.b.qp.post_recv(&[
            RecvWr::new(empty, &[]),
            RecvWr::new(full, &[memory.sge(8, 8)]),
        ])?;
        pair.a.qp.post_send(&[
            SendWr::send(&[]).id(empty).signaled(),
            SendWr::send(&[memory.sge(0, 8)]).id(full).signaled(),
        ])?;
        for (wr_id, bytes) in [(empty, 0), (full, 8)] {
            let wc = pair.b.recv_cq.take_one()?.ok();
            assert_eq!((wc.wr_id, wc.byte_len), (wr_id, bytes));
            assert_eq!(pair.a.send_cq.take_one()?.ok().wr_id, wr_id);
        }
    }
    assert_eq!(memory.read(8..16), b"elements");
    Ok(())
}

/// The same of an SRQ.
fn of_an_srq(device: Device) -> Outcome {
    let bench = Bench::open(device)?;
    let srq = Srq::create(&bench.pd, 16, 1)?;
    let init = QpInit {
        srq: Some(srq.clone()),
        ..bench.init(Transport::Rc, Caps::default())?
    };
    let (sender, _receiver) = bench.connect(&init, &init)?;
    for wr_id in 0..ROUNDS {
        srq.post_recv(&[RecvWr::new(wr_id, &[])])?;
        sender.post_send(&[SendWr::send(&[]).id(wr_id).signaled()])?;
        let wc = init.recv_cq.take_one()?.ok();
        assert_eq!((wc.wr_id, wc.byte_len), (wr_id, 0));
        assert_eq!(init.send_cq.take_one()?.ok().wr_id, wr_id);
    }
    Ok(())
}

/// A byte finds no room: the receive fails, and those behind it are flushed.
fn too_much(device: Device) -> Outcome {
    let pair = Pair::new(device, Transport::Rc)?;
    let memory = pair.bench.memory(16)?;
    let recvs: Vec<_> = (0..4).map(|id| RecvWr::new(id, &[])).collect();
    pair.b.qp.post_recv(&recvs)?;
    pair.a.qp.post_send(&[SendWr::send(&[memory.sge(0, 1)])])?;
    let done = pair.b.recv_cq.take(4)?;
    assert!(!done[0].is_success(), "a byte went nowhere: {:?}", done[0]);
    for (wr_id, wc) in (0..).zip(&done) {
        assert_eq!(wc.wr_id, wr_id);
    }
    for wc in &done[1..] {
        assert_eq!(wc.status, sys::IBV_WC_WR_FLUSH_ERR, "{wc:?}");
    }
    assert!(pair.b.recv_cq.poll_one()?.is_none());
    Ok(())
}
