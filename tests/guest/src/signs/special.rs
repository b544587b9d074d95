// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause

//! Deaths that need a stage of their own.

use std::fs;
use std::thread;
use std::time::Duration;

use guest::death::{Death, NO_KEY};
use guest::links::{self, Device};
use guest::pair::{Bench, Retry};
use guest::peer::{Peer, Seat};
use guest::roll::Roll;
use guest::scene::{Plan, SMALL, Scene};
use guest::suite::{Outcome, Stop, Suite};
use guest::verbs::{Caps, Qp, SendWr, Transport, sys};

/// The fault of stock siw.
const IGNORED: &str = "siw ignores what is posted to a dead QP";

pub(super) fn add(suite: &mut Suite) {
    suite
        .case("signs/rxe/silent_peer/local_key_behind", silent_peer)
        .beyond_stock("6.1: the requester stops, and the retry timer waits for it");
    suite
        .case("signs/siw/interface_down", interface_down)
        .beyond_stock(IGNORED);
    for device in Device::ALL {
        suite
            .case(format!("signs/{device}/link_deleted"), move || {
                link_deleted(device)
            })
            .beyond_stock(device.pick(None, Some(IGNORED)));
    }
}

/// A send that nobody answers, and behind it one with bad memory.
fn silent_peer() -> Outcome {
    let bench = Bench::open(Device::Rxe)?;
    let init = bench.init(Transport::Rc, Caps::default())?;
    let (qp, deaf) = (Qp::create(&bench.pd, &init)?, Qp::create(&bench.pd, &init)?);
    bench.bring_up(&qp, deaf.number(), Retry::BRIEF)?;
    let memory = bench.memory(64)?;
    let roll = Roll::new();
    let line = roll.sends_of(&qp);
    let sge = memory.sge(0, SMALL);
    let good = SendWr::send(&[sge]).signaled();
    let bad = SendWr::send(&[sge.with_lkey(NO_KEY)]).signaled();
    let list = [good.clone(), bad, good].map(|wr| roll.send(line, wr));
    qp.post_send(&list)?;
    roll.settle(&[&init.send_cq])
}

/// siw of 6.1 gives up its connections when the interface goes down; later ones leave them to TCP,
/// which waits.
fn interface_down() -> Outcome {
    let scene = Scene::set(Device::Siw, Death::ModifyErr, Plan::PLAIN)?;
    scene.post_recvs(20)?;
    links::set_down(Device::Siw)?;
    if !fs::read_to_string("/proc/sys/kernel/osrelease")?.starts_with("6.1.") {
        scene.roll.listen(&scene.cqs())?;
        Death::ModifyErr.inflict(&scene, 0)?;
    }
    scene.settle()?;
    scene.post_recvs(4)?;
    scene.post_sends(4)?;
    let settled = scene.settle();
    links::set_up(Device::Siw)?;
    settled
}

/// The RDMA link goes away under load. On these kernels the command waits for those who use it;
/// siw's connections end at once, rxe's QPs go on until somebody ends them.
fn link_deleted(device: Device) -> Outcome {
    let mut user = Peer::fork(device, move |seat| use_link(device, seat))?;
    expect_line(&mut user, "busy")?;
    let mut delete = links::delete(device)?;
    user.say("going")?;
    let heard = expect_line(&mut user, "settled");
    user.kill()?;
    let deleted = delete.wait()?;
    links::add(device)?;
    heard?;
    assert!(deleted.success(), "rdma link delete: {deleted}");
    Ok(())
}

fn expect_line(user: &mut Peer, expected: &str) -> Outcome {
    let line = user.hear()?;
    if line == expected {
        return Ok(());
    }
    Err(Stop::Fail(line))
}

/// What the process does whose link goes away.
fn use_link(device: Device, seat: &mut Seat) -> Outcome {
    let scene = Scene::set(device, Death::ModifyErr, Plan::PLAIN)?;
    scene.post_recvs(10)?;
    scene.load_sends()?;
    seat.say("busy")?;
    seat.hear()?;
    // Time for the command to get as far as it does.
    thread::sleep(Duration::from_millis(300));
    scene.post_recvs(10)?;
    if device == Device::Rxe {
        scene.victim.qp.move_to(sys::IBV_QPS_ERR)?;
    }
    scene.post_sends(10)?;
    match scene.settle() {
        Ok(()) => seat.say("settled")?,
        Err(Stop::Fail(how) | Stop::Skip(how)) => seat.say(&how)?,
    }
    // The objects go with the process: the kernel has taken some of them already.
    seat.rest()
}
