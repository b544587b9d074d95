// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause

//! What `ibv_create_qp` answers is what fits: so many requests, elements and bytes, and not one more.

use guest::links::Device;
use guest::pair::{Bench, Pair};
use guest::payload::message;
use guest::suite::{Outcome, Stop, Suite};
use guest::verbs::{BadWr, Caps, Mr, QpInit, RecvWr, Refused, SendWr, Transport};

use super::pair_works;

/// Sizes that are asked for: the least, some that are no powers of two, and many.
const SIZES: [Caps; 4] = [
    caps(1, 1, 1, 1, 0),
    caps(5, 3, 2, 3, 17),
    caps(16, 100, 6, 1, 80),
    caps(200, 33, 3, 6, 33),
];

const fn caps(send_wr: u32, recv_wr: u32, send_sge: u32, recv_sge: u32, inline: u32) -> Caps {
    Caps {
        send_wr,
        recv_wr,
        send_sge,
        recv_sge,
        inline,
    }
}

/// CQEs that no queue of these fills.
const CQ_ENTRIES: usize = 1024;

pub(super) fn add(suite: &mut Suite, device: Device) {
    for &(name, check, fault) in CHECKS {
        suite
            .case(format!("contract/{device}/capacity/{name}"), move || {
                SIZES.into_iter().try_for_each(|asked| {
                    one(device, asked, check)
                        .map_err(|stop| stop.during(format!("asked for {asked:?}")))
                })
            })
            .within(60)
            .beyond_stock(device.pick(fault, Some("the errno is negative")));
    }
    suite
        .case(format!("contract/{device}/capacity/none"), move || {
            none(device)
        })
        .beyond_stock(device.pick(None, Some("a QP without receives cannot be had")));
}

/// Fills what `Caps` says there is.
type Check = fn(&Pair, Caps, &Mr) -> Outcome;

/// A fault of stock rxe.
const ROUNDED: Option<&str> = Some("6.1 does not tell of rounding");

/// A name, a check, and what stock rxe does wrong.
const CHECKS: &[(&str, Check, Option<&str>)] = &[
    ("sends", sends, ROUNDED),
    ("receives", receives, ROUNDED),
    ("elements", elements, None),
    ("inline", inline, None),
];

fn one(device: Device, asked: Caps, check: Check) -> Outcome {
    let pair = pair(device, asked)?;
    // There until messages have arrived: what siw has sent of a WRITE, and completed, may come to the far end later, which
    // refuses it if its memory is gone (linux 6.1 `siw_qp_rx.c: siw_proc_write`).
    let memory = pair.bench.memory(256)?;
    check(&pair, pair.a.qp.answer(), &memory)?;
    pair_works(&pair)
}

fn pair(device: Device, caps: Caps) -> Result<Pair, Stop> {
    let bench = Bench::open(device)?;
    let init = |bench: &Bench| -> Result<QpInit, Stop> {
        Ok(QpInit {
            send_cq: bench.cq(CQ_ENTRIES)?,
            recv_cq: bench.cq(CQ_ENTRIES)?,
            ..bench.init(Transport::Rc, caps)?
        })
    };
    let (a, b) = (init(&bench)?, init(&bench)?);
    Pair::of(bench, a, b)
}

/// How a list must be refused of which `fits` fit.
fn full(fits: u32) -> Result<(), Refused> {
    Err(Refused {
        returned: libc::ENOMEM,
        bad: BadWr::At(fits as usize),
    })
}

const INVALID: Result<(), Refused> = Err(Refused {
    returned: libc::EINVAL,
    bad: BadWr::At(0),
});

fn sends(pair: &Pair, has: Caps, memory: &Mr) -> Outcome {
    for _ in 0..3 {
        let write = SendWr::write(&[memory.sge(0, 8)], memory.remote(8)).signaled();
        let list = vec![write; has.send_wr as usize + 1];
        assert_eq!(pair.a.qp.post_send(&list), full(has.send_wr));
        for wc in pair.a.send_cq.take(has.send_wr as usize)? {
            wc.ok();
        }
    }
    Ok(())
}

fn receives(pair: &Pair, has: Caps, memory: &Mr) -> Outcome {
    let list: Vec<_> = (0..=u64::from(has.recv_wr))
        .map(|id| RecvWr::new(id, &[memory.sge(0, 8)]))
        .collect();
    for _ in 0..2 {
        assert_eq!(pair.a.qp.post_recv(&list), full(has.recv_wr));
        for id in 0..u64::from(has.recv_wr) {
            let send = SendWr::send(&[memory.sge(8, 8)]).signaled();
            pair.b.qp.post_send(&[send])?;
            pair.b.send_cq.take_one()?.ok();
            assert_eq!(pair.a.recv_cq.take_one()?.ok().wr_id, id);
        }
    }
    Ok(())
}

/// One byte in each element.
fn elements(pair: &Pair, has: Caps, memory: &Mr) -> Outcome {
    let list = |from, count: u32| memory.sges(from, &vec![1; count as usize]);
    let (to_send, to_take) = (has.send_sge, has.recv_sge);
    let too_many = SendWr::send(&list(0, to_send + 1)).signaled();
    assert_eq!(pair.a.qp.post_send(&[too_many]), INVALID, "send");
    let too_many = RecvWr::new(1, &list(0, to_take + 1));
    assert_eq!(pair.b.qp.post_recv(&[too_many]), INVALID, "receive");
    let bytes = to_send.min(to_take) as usize;
    let sent = message(7, bytes);
    memory.write(0, &sent);
    // As many bytes as both have elements for, the other elements in use too, but empty.
    let padded = |from, count: u32| {
        let lengths: Vec<_> = (0..count as usize)
            .map(|at| usize::from(at < bytes))
            .collect();
        memory.sges(from, &lengths)
    };
    pair.b
        .qp
        .post_recv(&[RecvWr::new(1, &padded(128, to_take))])?;
    let send = SendWr::send(&padded(0, to_send)).signaled();
    pair.a.qp.post_send(&[send])?;
    pair.a.send_cq.take_one()?.ok();
    assert_eq!(pair.b.recv_cq.take_one()?.ok().byte_len as usize, bytes);
    assert_eq!(memory.read(128..128 + bytes), sent);
    Ok(())
}

fn inline(pair: &Pair, has: Caps, from: &Mr) -> Outcome {
    let most = has.inline as usize;
    let to = pair.bench.memory(most + 1)?;
    let too_long = SendWr::send(&[from.sge(0, most + 1)]).inline().signaled();
    assert_eq!(pair.a.qp.post_send(&[too_long]), INVALID);
    let sent = message(7, most);
    from.write(0, &sent);
    pair.b.qp.post_recv(&[RecvWr::new(1, &[to.sge(0, most)])])?;
    let send = SendWr::send(&[from.sge(0, most)]).inline().signaled();
    pair.a.qp.post_send(&[send])?;
    from.fill(0);
    pair.a.send_cq.take_one()?.ok();
    assert_eq!(pair.b.recv_cq.take_one()?.ok().byte_len as usize, most);
    assert_eq!(to.read(0..most), sent);
    Ok(())
}

/// A QP without receives takes none, and sends.
fn none(device: Device) -> Outcome {
    let bench = Bench::open(device)?;
    let caps = Caps {
        recv_wr: 0,
        recv_sge: 0,
        ..Caps::default()
    };
    let mut a = bench.init(Transport::Rc, Caps::default())?;
    a.caps = caps;
    let b = bench.init(Transport::Rc, Caps::default())?;
    let pair = Pair::of(bench, a, b)?;
    let memory = pair.bench.memory(16)?;
    memory.write(0, b"one way!");
    for wr_id in 0..100 {
        let refused = pair.a.qp.post_recv(&[RecvWr::new(9, &[])]);
        assert_eq!(refused, full(0));
        pair.b
            .qp
            .post_recv(&[RecvWr::new(wr_id, &[memory.sge(8, 8)])])?;
        let send = SendWr::send(&[memory.sge(0, 8)]).id(wr_id).signaled();
        pair.a.qp.post_send(&[send])?;
        assert_eq!(pair.a.send_cq.take_one()?.ok().wr_id, wr_id);
        assert_eq!(pair.b.recv_cq.take_one()?.ok().wr_id, wr_id);
    }
    assert_eq!(memory.read(8..16), b"one way!");
    // Its death flushes no receive.
    pair.a.qp.move_to(guest::verbs::sys::IBV_QPS_ERR)?;
    assert!(pair.a.recv_cq.poll_one()?.is_none());
    Ok(())
}
