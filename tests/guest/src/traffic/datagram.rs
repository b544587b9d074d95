// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause

//! Datagrams, which rxe has.

use guest::links::Device;
use guest::pair::{PATH_MTU, Pair, QKEY};
use guest::payload::message;
use guest::suite::{Outcome, Suite};
use guest::verbs::{Ah, Caps, RecvWr, SendWr, Transport, sys};

/// Bytes in front of each datagram: a GRH, or the IPv4 header in its last 20 bytes.
const GRH: usize = 40;

pub(super) fn add(suite: &mut Suite) {
    suite.case("traffic/rxe/ud/sizes", || sizes(false));
    suite.case("traffic/rxe/ud/sizes_with_imm", || sizes(true));
    suite.case("traffic/rxe/ud/inline", inline);
    suite.case("traffic/rxe/ud/two_senders", two_senders);
}

fn sizes(with_imm: bool) -> Outcome {
    let pair = Pair::new(Device::Rxe, Transport::Ud)?;
    let ah = Ah::create(&pair.bench.pd, Device::Rxe.address())?;
    let (from, to) = (
        pair.bench.memory(PATH_MTU)?,
        pair.bench.memory(GRH + PATH_MTU + 1)?,
    );
    for (number, len) in (0xf000_0001_u32..).zip([0, 1, 3, 64, PATH_MTU - 1, PATH_MTU]) {
        for (sender, receiver) in pair.directions() {
            let sent = message(number.into(), len);
            from.write(0, &sent);
            to.fill(0xee);
            receiver
                .qp
                .post_recv(&[RecvWr::new(1, &[to.sge(0, GRH + len)])])?;
            let send = SendWr::send(&[from.sge(0, len)]).to(&ah, receiver.qp.number(), QKEY);
            let send = if with_imm { send.imm(number) } else { send };
            sender.qp.post_send(&[send.id(2).signaled()])?;
            let received = receiver.recv_cq.take_one()?.ok();
            assert_eq!((received.wr_id, received.byte_len as usize), (1, GRH + len));
            assert_eq!(received.src_qp, sender.qp.number());
            assert_eq!(received.wc_flags & sys::IBV_WC_GRH, sys::IBV_WC_GRH);
            let imm = received.wc_flags & sys::IBV_WC_WITH_IMM == sys::IBV_WC_WITH_IMM;
            assert_eq!(imm.then(|| received.imm()), with_imm.then_some(number));
            assert!(
                to.read(GRH..GRH + len) == sent,
                "{len} bytes arrived changed"
            );
            assert_eq!(
                to.read(GRH + len..GRH + len + 1),
                [0xee],
                "{len} bytes overran"
            );
            let source = to.read(GRH - 8..GRH - 4);
            assert_eq!(
                source,
                Device::Rxe.address().octets(),
                "source address in the GRH"
            );
            assert_eq!(sender.send_cq.take_one()?.ok().wr_id, 2);
        }
    }
    Ok(())
}

fn inline() -> Outcome {
    let limit = 256;
    let caps = Caps {
        inline: 256,
        ..Caps::default()
    };
    let pair = Pair::with(Device::Rxe, Transport::Ud, caps)?;
    let ah = Ah::create(&pair.bench.pd, Device::Rxe.address())?;
    let (from, to) = (pair.bench.memory(limit)?, pair.bench.memory(GRH + limit)?);
    for len in [0, 1, 17, limit - 1, limit] {
        let sent = message(len as u64, len);
        from.write(0, &sent);
        pair.b
            .qp
            .post_recv(&[RecvWr::new(1, &[to.sge(0, GRH + len)])])?;
        let sges = from.sges(0, &[len / 2, len - len / 2]);
        let send = SendWr::send(&sges).to(&ah, pair.b.qp.number(), QKEY);
        pair.a.qp.post_send(&[send.inline().signaled()])?;
        from.fill(0);
        assert_eq!(pair.b.recv_cq.take_one()?.ok().byte_len as usize, GRH + len);
        assert!(
            to.read(GRH..GRH + len) == sent,
            "{len} bytes arrived changed"
        );
        pair.a.send_cq.take_one()?.ok();
    }
    Ok(())
}

/// Each end sends to itself and to the other, by turns: `src_qp` tells who it was.
fn two_senders() -> Outcome {
    let pair = Pair::new(Device::Rxe, Transport::Ud)?;
    let ah = Ah::create(&pair.bench.pd, Device::Rxe.address())?;
    let (from, to) = (pair.bench.memory(8)?, pair.bench.memory(GRH + 8)?);
    for number in 0..50 {
        let sender = if number % 2 == 0 { &pair.a } else { &pair.b };
        from.write(0, &message(number, 8));
        pair.b
            .qp
            .post_recv(&[RecvWr::new(number, &[to.sge(0, GRH + 8)])])?;
        let send = SendWr::send(&[from.sge(0, 8)]).to(&ah, pair.b.qp.number(), QKEY);
        sender.qp.post_send(&[send.id(number).signaled()])?;
        let received = pair.b.recv_cq.take_one()?.ok();
        assert_eq!(
            (received.wr_id, received.src_qp),
            (number, sender.qp.number())
        );
        assert_eq!(to.read(GRH..GRH + 8), message(number, 8));
        assert_eq!(sender.send_cq.take_one()?.ok().wr_id, number);
    }
    Ok(())
}
