// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause

//! Inline data of every length the device allows.

use guest::links::Device;
use guest::pair::Pair;
use guest::payload::{Random, cut, message};
use guest::suite::{Outcome, Suite};
use guest::verbs::{Caps, RecvWr, SendWr, Sge, Transport};

pub(super) fn add(suite: &mut Suite) {
    for device in Device::ALL {
        suite.case(format!("traffic/{device}/rc/inline_sends"), move || {
            sends(device)
        });
        suite.case(format!("traffic/{device}/rc/inline_writes"), move || {
            writes(device)
        });
    }
}

/// The most that the driver takes: rxe `RXE_MAX_INLINE`, siw `SIW_MAX_INLINE`.
fn limit(device: Device) -> u32 {
    device.pick(512, 80)
}

/// Elements whose key means nothing: inline data is read by the library, not by the device.
fn keyless<'m>(sges: &[Sge<'m>]) -> Vec<Sge<'m>> {
    sges.iter().map(|sge| sge.with_lkey(0xdead_beef)).collect()
}

fn sends(device: Device) -> Outcome {
    let caps = Caps {
        inline: limit(device),
        ..Caps::default()
    };
    let limit = limit(device) as usize;
    let mut random = Random::replayable();
    let pair = Pair::with(device, Transport::Rc, caps)?;
    let (from, to) = (pair.bench.memory(limit)?, pair.bench.memory(limit + 1)?);
    for len in 0..=limit {
        let sent = message(len as u64, len);
        from.write(0, &sent);
        to.fill(0xee);
        let pieces = random.between(1, 4);
        // No more pieces than bytes; nothing is one empty piece.
        let lengths = match pieces.min(len) {
            0 => vec![0],
            pieces => cut(&mut random, len, pieces),
        };
        let sges = keyless(&from.sges(0, &lengths));
        pair.b
            .qp
            .post_recv(&[RecvWr::new(1, &[to.sge(0, limit)])])?;
        pair.a
            .qp
            .post_send(&[SendWr::send(&sges).inline().signaled()])?;
        from.fill(0);
        assert_eq!(pair.b.recv_cq.take_one()?.ok().byte_len as usize, len);
        assert!(
            to.read(0..len) == sent,
            "{len} bytes in pieces of {lengths:?} arrived changed"
        );
        assert_eq!(to.read(len..len + 1), [0xee], "{len} bytes overran");
        pair.a.send_cq.take_one()?.ok();
    }
    Ok(())
}

/// A list of inline WRITEs, then a READ that is executed after them and brings everything back.
fn writes(device: Device) -> Outcome {
    let caps = Caps {
        inline: limit(device),
        ..Caps::default()
    };
    let limit = limit(device) as usize;
    let mut random = Random::replayable();
    let pair = Pair::with(device, Transport::Rc, caps)?;
    let all = 16 * limit;
    let (from, far) = (pair.bench.memory(all)?, pair.bench.memory(all)?);
    for number in 0..10 {
        let sent = message(number, all);
        from.write(0, &sent);
        let writes: Vec<_> = (0..16)
            .map(|at| {
                let pieces = random.between(1, 4);
                let sges = from.sges(at * limit, &cut(&mut random, limit, pieces));
                SendWr::write(&keyless(&sges), far.remote(at * limit)).inline()
            })
            .collect();
        pair.a.qp.post_send(&writes)?;
        from.fill(0);
        pair.a
            .qp
            .post_send(&[SendWr::read(&[from.sge(0, all)], far.remote(0)).signaled()])?;
        pair.a.send_cq.take_one()?.ok();
        assert!(
            from.read(0..all) == sent,
            "round {number} came back changed"
        );
    }
    Ok(())
}
