// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause

//! Theme `flush_late`: what is posted to a dead queue pair is accepted, as far as there is room, and
//! flushed.

use guest::death::Death;
use guest::links::Device;
use guest::pair::{Bench, Pair, QKEY, Retry};
use guest::roll::{LineId, Roll, patience, wr_id};
use guest::scene::{DEPTH, Plan, SMALL, Scene};
use guest::suite::{Outcome, Stop, Suite};
use guest::verbs::{Ah, BadWr, Caps, Qp, RecvWr, Refused, SendWr, Transport, sys};

/// The fault of both stock providers.
const NO_DOORBELL: &str = "nobody tells the kernel of a receive that is posted to a dead QP";

/// The fault of stock siw.
const IGNORED: &str = "siw ignores the doorbell of a dead QP";

/// The fault of stock rxe.
const ENDLESS: &str =
    "the kernel flushes sends into the CQ before they are polled, and overruns it";

/// Adds the cases of this theme.
pub(crate) fn add(suite: &mut Suite) {
    for device in Device::ALL {
        let on_siw = device.pick(None, Some(IGNORED));
        suite
            .on("flush_late", device, "recvs", recvs)
            .beyond_stock(NO_DOORBELL);
        suite
            .on("flush_late", device, "sends", sends)
            .beyond_stock(on_siw);
        suite
            .on("flush_late", device, "send_lists", send_lists)
            .beyond_stock(device.pick(
                Some("6.1: a list of as many entries as the ring has hides its doorbell"),
                Some(IGNORED),
            ));
        suite
            .on("flush_late", device, "one_by_one", one_by_one)
            .beyond_stock(NO_DOORBELL);
        suite
            .on(
                "flush_late",
                device,
                "recvs_to_the_depth",
                recvs_to_the_depth,
            )
            .beyond_stock(NO_DOORBELL);
        suite
            .on(
                "flush_late",
                device,
                "sends_to_the_depth",
                sends_to_the_depth,
            )
            .beyond_stock(device.pick(ENDLESS, IGNORED));
        suite
            .on(
                "flush_late",
                device,
                "behind_outstanding",
                behind_outstanding,
            )
            .beyond_stock(NO_DOORBELL);
        suite
            .on("flush_late", device, "bad_among_good", bad_among_good)
            .beyond_stock(NO_DOORBELL);
        suite
            .on("flush_late", device, "never_connected", never_connected)
            .beyond_stock(NO_DOORBELL);
    }
    suite
        .on("flush_late", Device::Rxe, "uc", |_| of(Transport::Uc))
        .beyond_stock(NO_DOORBELL);
    suite
        .on("flush_late", Device::Rxe, "ud", |_| of(Transport::Ud))
        .beyond_stock(NO_DOORBELL);
}

/// A QP that was connected, had nothing to do, and is dead.
fn dead(device: Device) -> Result<Scene, Stop> {
    let scene = Scene::set(device, Death::ModifyErr, Plan::PLAIN)?;
    Death::ModifyErr.inflict(&scene, 0)?;
    Ok(scene)
}

fn recvs(device: Device) -> Outcome {
    let scene = dead(device)?;
    for count in [1, 20, 1, 1, 40] {
        scene.post_recvs(count)?;
        scene.settle()?;
    }
    scene.roll.assert_flushed(scene.recvs);
    Ok(())
}

/// One by one, signaled or not, inline or not.
fn sends(device: Device) -> Outcome {
    let scene = dead(device)?;
    let sge = [scene.near.sge(0, SMALL)];
    let send = SendWr::send(&sge);
    let write = SendWr::write(&sge, scene.far);
    for wr in [
        send.clone().signaled(),
        send.clone(),
        write.clone().inline(),
        SendWr::read(&sge, scene.far).signaled(),
        write.signaled(),
        send.inline().signaled(),
    ] {
        let wr = scene.roll.send(scene.sends, wr);
        scene.victim.qp.post_send(&[wr])?;
        scene.roll.demand_all(scene.sends);
        scene.settle()?;
    }
    scene.roll.assert_flushed(scene.sends);
    Ok(())
}

/// Lists of many lengths, so that the ring wraps in many places.
fn send_lists(device: Device) -> Outcome {
    let caps = Caps {
        send_wr: 15,
        ..Caps::default()
    };
    let pair = Pair::with(device, Transport::Rc, caps)?;
    let memory = pair.bench.memory(64)?;
    let roll = Roll::new();
    let line = roll.sends_of(&pair.a.qp);
    let write = SendWr::write(&[memory.sge(0, SMALL)], memory.remote(SMALL));
    pair.a.qp.move_to(sys::IBV_QPS_ERR)?;
    for count in [2, 15, 1, 15, 7, 8, 15] {
        pair.a
            .qp
            .post_send(&roll.alternating(line, count, &write))?;
        roll.demand_all(line);
        roll.settle(&[&pair.a.send_cq])
            .map_err(|stop| stop.during(format_args!("a list of {count}")))?;
    }
    roll.assert_flushed(line);
    Ok(())
}

/// More requests than the rings have entries, each polled before the next is posted.
fn one_by_one(device: Device) -> Outcome {
    let scene = dead(device)?;
    for _ in 0..3 * DEPTH {
        scene.post_recvs(1)?;
        scene.post_sends(1)?;
        scene.roll.collect(&scene.cqs(), patience())?;
        scene.roll.check()?;
    }
    scene.settle()
}

/// A queue takes what it was created for, and no request more until one is polled.
fn fill(roll: &Roll, line: LineId, mut post: impl FnMut() -> Result<(), Refused>) -> Outcome {
    let mut accepted = 0;
    let refused = loop {
        assert!(accepted <= 4 * DEPTH, "the queue is never full");
        match post() {
            Ok(()) => accepted += 1,
            Err(refused) => break refused,
        }
    };
    roll.refuse(line, 1);
    // The sign is the theme `bad_input`'s to check.
    assert_eq!(refused.returned.abs(), libc::ENOMEM, "{refused}");
    assert!(accepted >= DEPTH, "only {accepted} of {DEPTH} fit");
    Ok(())
}

fn recvs_to_the_depth(device: Device) -> Outcome {
    let scene = dead(device)?;
    for _ in 0..2 {
        fill(&scene.roll, scene.recvs, || {
            let list = scene.roll.recvs(scene.recvs, 1, scene.near.sge(0, SMALL));
            scene.victim.qp.post_recv(&list)
        })?;
        scene.settle()?;
    }
    Ok(())
}

fn sends_to_the_depth(device: Device) -> Outcome {
    let scene = dead(device)?;
    let write = SendWr::write(&[scene.near.sge(0, SMALL)], scene.far);
    for _ in 0..2 {
        fill(&scene.roll, scene.sends, || {
            let list = scene.roll.sends(scene.sends, 1, &write);
            scene.victim.qp.post_send(&list)
        })?;
        scene.roll.demand_all(scene.sends);
        scene.settle()?;
    }
    Ok(())
}

/// Posted while what was outstanding at death has not been polled: it comes behind that.
fn behind_outstanding(device: Device) -> Outcome {
    let scene = Scene::set(device, Death::ModifyErr, Plan::PLAIN)?;
    scene.post_recvs(20)?;
    scene.load_sends()?;
    Death::ModifyErr.inflict(&scene, 0)?;
    scene.post_sends(10)?;
    scene.post_recvs(20)?;
    scene.settle()?;
    scene.roll.assert_flushed(scene.recvs);
    Ok(())
}

/// A request that no QP would take is refused by a dead one too, and what stands before it in the
/// list is not.
fn bad_among_good(device: Device) -> Outcome {
    let scene = dead(device)?;
    let too_many = vec![scene.near.sge(0, SMALL); 40];
    let mut list = scene.roll.recvs(scene.recvs, 4, scene.near.sge(0, SMALL));
    list[2] = RecvWr::new(wr_id(scene.recvs, 2), &too_many);
    scene.roll.refuse(scene.recvs, 2);
    let refused = scene
        .victim
        .qp
        .post_recv(&list)
        .map_err(|refused| refused.bad);
    assert_eq!(refused, Err(BadWr::At(2)));
    scene.settle()
}

/// A QP that has died before it was connected.
fn never_connected(device: Device) -> Outcome {
    let bench = Bench::open(device)?;
    let init = bench.init(Transport::Rc, Caps::default())?;
    let qp = bench.unconnected(&init)?;
    let memory = bench.memory(64)?;
    let roll = Roll::new();
    let (sends, recvs) = (roll.sends_of(&qp), roll.recvs_of(&qp));
    qp.post_recv(&roll.recvs(recvs, 10, memory.sge(0, SMALL)))?;
    qp.move_to(sys::IBV_QPS_ERR)?;
    qp.post_recv(&roll.recvs(recvs, 10, memory.sge(0, SMALL)))?;
    let send = SendWr::send(&[memory.sge(0, SMALL)]);
    qp.post_send(&roll.alternating(sends, 10, &send))?;
    roll.demand_all(sends);
    roll.settle(&[&init.send_cq, &init.recv_cq])?;
    roll.assert_flushed(recvs);
    roll.assert_flushed(sends);
    Ok(())
}

/// The same with rxe's other transports.
fn of(transport: Transport) -> Outcome {
    let bench = Bench::open(Device::Rxe)?;
    let init = bench.init(transport, Caps::default())?;
    let qp = Qp::create(&bench.pd, &init)?;
    bench.bring_up(&qp, qp.number(), Retry::PATIENT)?;
    let ah = Ah::create(&bench.pd, bench.device.address())?;
    let memory = bench.memory(256)?;
    let roll = Roll::new();
    let (sends, recvs) = (roll.sends_of(&qp), roll.recvs_of(&qp));
    let send = match transport {
        Transport::Ud => SendWr::send(&[memory.sge(0, SMALL)]).to(&ah, qp.number(), QKEY),
        _ => SendWr::send(&[memory.sge(0, SMALL)]),
    };
    qp.post_recv(&roll.recvs(recvs, 10, memory.sge(0, 256)))?;
    qp.move_to(sys::IBV_QPS_ERR)?;
    for _ in 0..3 {
        qp.post_recv(&roll.recvs(recvs, 10, memory.sge(0, 256)))?;
        qp.post_send(&roll.alternating(sends, 10, &send))?;
        roll.demand_all(sends);
        roll.settle(&[&init.send_cq, &init.recv_cq])?;
    }
    roll.assert_flushed(recvs);
    roll.assert_flushed(sends);
    Ok(())
}
