// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause

//! Lists that are bad as a whole or in one place.

use guest::links::Device;
use guest::pair::{Bench, Pair};
use guest::suite::{Outcome, Suite};
use guest::verbs::{BadWr, Caps, Mr, QpInit, RecvWr, SendWr, Srq, Transport};

use super::{NEGATIVE, assert_works, refusal};

pub(super) fn add(suite: &mut Suite) {
    for device in Device::ALL {
        let on_siw = device.pick(None, Some(NEGATIVE));
        suite.on("bad_input", device, "empty_list", empty);
        suite
            .on("bad_input", device, "third_send_bad", third_send)
            .beyond_stock(device.pick(None, Some("the doorbell's success hides the refusal")));
        suite
            .on("bad_input", device, "third_recv_bad", third_recv)
            .beyond_stock(on_siw);
        suite
            .on("bad_input", device, "third_srq_recv_bad", third_srq)
            .beyond_stock(on_siw);
        suite
            .on("bad_input", device, "recv_on_srq_qp", recv_on_srq_qp)
            .beyond_stock(device.pick("bad_wr is null", "the process dies of a division by zero"));
        suite.on("bad_input", device, "poll_for_nothing", poll);
    }
}

/// No list at all: refused or ignored, and nothing happens.
fn empty(device: Device) -> Outcome {
    let pair = Pair::new(device, Transport::Rc)?;
    for posted in [pair.a.qp.post_send(&[]), pair.a.qp.post_recv(&[])] {
        if let Err(refused) = posted {
            assert_eq!(refused.returned, libc::EINVAL, "{refused}");
            assert_ne!(refused.bad, BadWr::Stray);
        }
    }
    assert_works(&pair)
}

/// Elements enough to be refused on either device.
const TOO_MANY: usize = 40;

fn third_send(device: Device) -> Outcome {
    let pair = Pair::new(device, Transport::Rc)?;
    let (memory, far) = (pair.bench.memory(64)?, pair.bench.memory(64)?);
    let write = |at: usize, id: u64| {
        memory.write(at, &[b'0' + u8::try_from(id).unwrap_or(0)]);
        SendWr::write(&[memory.sge(at, 1)], far.remote(at))
            .id(id)
            .signaled()
    };
    let bad = SendWr::write(&vec![memory.sge(2, 1); TOO_MANY], far.remote(2))
        .id(3)
        .signaled();
    let list = [write(0, 1), write(1, 2), bad, write(3, 4)];
    assert_eq!(pair.a.qp.post_send(&list), refusal(libc::EINVAL, 2));
    for (wc, wr_id) in pair.a.send_cq.take(2)?.iter().zip([1, 2]) {
        assert_eq!(wc.ok().wr_id, wr_id);
    }
    assert_works(&pair)?;
    assert_eq!(
        far.read(0..4),
        *b"12\0\0",
        "not the first two alone were executed"
    );
    Ok(())
}

fn third_recv(device: Device) -> Outcome {
    let pair = Pair::new(device, Transport::Rc)?;
    let memory = pair.bench.memory(64)?;
    let list = with_third_bad(&memory);
    assert_eq!(pair.b.qp.post_recv(&list), refusal(libc::EINVAL, 2));
    for wr_id in [1, 2] {
        pair.a.qp.post_send(&[SendWr::send(&[memory.sge(0, 1)])])?;
        assert_eq!(pair.b.recv_cq.take_one()?.ok().wr_id, wr_id);
    }
    assert_works(&pair)
}

fn with_third_bad(memory: &Mr) -> [RecvWr<'_>; 4] {
    let good = |id| RecvWr::new(id, &[memory.sge(0, 1)]);
    [
        good(1),
        good(2),
        RecvWr::new(3, &vec![memory.sge(2, 1); TOO_MANY]),
        good(4),
    ]
}

fn third_srq(device: Device) -> Outcome {
    let bench = Bench::open(device)?;
    let srq = Srq::create(&bench.pd, 16, 1)?;
    let a = bench.init(Transport::Rc, Caps::default())?;
    let b = QpInit {
        srq: Some(srq.clone()),
        ..bench.init(Transport::Rc, Caps::default())?
    };
    let (sender, _receiver) = bench.connect(&a, &b)?;
    let memory = bench.memory(64)?;
    assert_eq!(
        srq.post_recv(&with_third_bad(&memory)),
        refusal(libc::EINVAL, 2)
    );
    srq.post_recv(&[RecvWr::new(5, &[memory.sge(0, 1)])])?;
    for wr_id in [1, 2, 5] {
        sender.post_send(&[SendWr::send(&[memory.sge(0, 1)])])?;
        assert_eq!(b.recv_cq.take_one()?.ok().wr_id, wr_id);
    }
    Ok(())
}

/// A QP on an SRQ has no receive queue of its own.
fn recv_on_srq_qp(device: Device) -> Outcome {
    let bench = Bench::open(device)?;
    let srq = Srq::create(&bench.pd, 16, 1)?;
    let a = bench.init(Transport::Rc, Caps::default())?;
    let b = QpInit {
        srq: Some(srq),
        ..bench.init(Transport::Rc, Caps::default())?
    };
    let (_sender, receiver) = bench.connect(&a, &b)?;
    let memory = bench.memory(64)?;
    let posted = receiver.post_recv(&[RecvWr::new(1, &[memory.sge(0, 8)])]);
    assert_eq!(posted, refusal(libc::EINVAL, 0));
    Ok(())
}

/// Asked for nothing, poll gives nothing and takes nothing.
fn poll(device: Device) -> Outcome {
    let pair = Pair::new(device, Transport::Rc)?;
    let memory = pair.bench.memory(64)?;
    assert_eq!(pair.a.send_cq.poll(&mut [])?, 0);
    pair.b
        .qp
        .post_recv(&[RecvWr::new(1, &[memory.sge(0, 8)])])?;
    pair.a
        .qp
        .post_send(&[SendWr::send(&[memory.sge(8, 8)]).id(2).signaled()])?;
    assert_eq!(pair.b.recv_cq.take_one()?.ok().wr_id, 1);
    assert_eq!(pair.a.send_cq.poll(&mut [])?, 0);
    assert_eq!(pair.a.send_cq.take_one()?.ok().wr_id, 2);
    Ok(())
}
