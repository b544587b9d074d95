// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause

//! Sends that complete silently, and sends that all complete aloud.

use std::thread;
use std::time::Instant;

use guest::links::Device;
use guest::pair::{Bench, Pair};
use guest::payload::message;
use guest::suite::{Outcome, Suite};
use guest::verbs::{Caps, PATIENCE, Qp, RecvWr, SendWr, Transport};

pub(super) fn add(suite: &mut Suite) {
    for device in Device::ALL {
        suite.case(
            format!("traffic/{device}/rc/every_seventh_signaled"),
            move || seventh(device),
        );
        suite
            .case(format!("traffic/{device}/rc/never_signaled"), move || {
                never(device)
            })
            .within(40);
        suite.case(format!("traffic/{device}/rc/signal_all"), move || {
            all(device)
        });
    }
}

/// Exactly the seventh, fourteenth, … request completes, and each that does frees seven.
fn seventh(device: Device) -> Outcome {
    let caps = Caps {
        send_wr: 16,
        ..Caps::default()
    };
    let pair = Pair::with(device, Transport::Rc, caps)?;
    let (from, far) = (pair.bench.memory(8)?, pair.bench.memory(8)?);
    from.write(0, b"seventh!");
    for number in 1..=2100 {
        let write = SendWr::write(&[from.sge(0, 8)], far.remote(0)).id(number);
        let due = number % 7 == 0;
        pair.a
            .qp
            .post_send(&[if due { write.signaled() } else { write }])?;
        if due {
            assert_eq!(pair.a.send_cq.take_one()?.ok().wr_id, number);
        }
    }
    if let Some(wc) = pair.a.send_cq.poll_one()? {
        panic!("one completion too many: {wc:?}");
    }
    Ok(())
}

/// Posts `wr`, again and again while the queue is full.
fn post_when_possible(qp: &Qp, wr: &SendWr<'_>) -> Outcome {
    let start = Instant::now();
    loop {
        match qp.post_send(std::slice::from_ref(wr)) {
            Ok(()) => return Ok(()),
            Err(refused) if refused.returned.abs() != libc::ENOMEM => return Err(refused.into()),
            Err(_) if start.elapsed() > PATIENCE => panic!("the send queue stays full"),
            Err(_) => thread::yield_now(),
        }
    }
}

/// An application that never asks for a completion still gets its queue entries back.
fn never(device: Device) -> Outcome {
    let count: u64 = 20_000;
    let pair = Pair::with(
        device,
        Transport::Rc,
        Caps {
            send_wr: 128,
            ..Caps::default()
        },
    )?;
    let (from, to) = (pair.bench.memory(16)?, pair.bench.memory(16)?);
    for number in 1..=count {
        // Inline, so that the next number can be stored at once.
        from.write(0, &number.to_ne_bytes());
        let write = SendWr::write(&[from.sge(0, 8)], to.remote(0)).inline();
        post_when_possible(&pair.a.qp, &write.id(number))?;
    }
    pair.b.qp.post_recv(&[RecvWr::new(1, &[to.sge(8, 8)])])?;
    post_when_possible(&pair.a.qp, &SendWr::send(&[from.sge(0, 8)]))?;
    pair.b.recv_cq.take_one()?.ok();
    assert_eq!(to.read(0..8), count.to_ne_bytes(), "the last write");
    assert_eq!(to.read(8..16), count.to_ne_bytes(), "the send behind it");
    if let Some(wc) = pair.a.send_cq.poll_one()? {
        panic!("a completion that nobody asked for: {wc:?}");
    }
    Ok(())
}

/// With `sq_sig_all` the flag of the request does not matter.
fn all(device: Device) -> Outcome {
    let bench = Bench::open(device)?;
    let mut a = bench.init(Transport::Rc, Caps::default())?;
    a.signal_all = true;
    let b = bench.init(Transport::Rc, Caps::default())?;
    let pair = Pair::of(bench, a, b)?;
    let (from, to) = (pair.bench.memory(64)?, pair.bench.memory(64)?);
    for number in 0..100 {
        let sent = message(number, 64);
        from.write(0, &sent);
        pair.b
            .qp
            .post_recv(&[RecvWr::new(number, &[to.sge(0, 64)])])?;
        pair.a
            .qp
            .post_send(&[SendWr::send(&[from.sge(0, 64)]).id(number)])?;
        assert_eq!(pair.a.send_cq.take_one()?.ok().wr_id, number);
        assert_eq!(pair.b.recv_cq.take_one()?.ok().wr_id, number);
        assert!(to.read(0..64) == sent, "message {number} changed");
    }
    Ok(())
}
