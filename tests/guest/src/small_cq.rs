// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause

//! Theme `small_cq`: a CQ that does not hold all completions. Who polls it gets every one of them,
//! once the queue pair is dead, and one event.

use std::sync::Arc;
use std::thread;
use std::time::Duration;

use guest::death::Death;
use guest::events::{SILENCE, next_event};
use guest::links::Device;
use guest::scene::{Plan, SMALL, Scene};
use guest::suite::{Outcome, Stop, Suite};
use guest::verbs::{Caps, QpInit, SendWr, Transport, sys};

/// Requests in each queue: more than fit into the CQ, however generously a provider rounds up what it
/// is asked for.
const COUNT: usize = 400;

/// The victim's CQs are small.
const SMALL_CQ: Plan = Plan {
    cq_depth: 8,
    queue_depth: 512,
    ..Plan::PLAIN
};

/// The fault of both stock providers.
const LOST: &str = "what the kernel drops when the CQ is full is lost";

/// Adds the cases of this theme.
pub(crate) fn add(suite: &mut Suite) {
    for device in Device::ALL {
        suite
            .on("small_cq", device, "recvs_at_death", recvs_at_death)
            .beyond_stock(LOST);
        suite
            .on("small_cq", device, "sends_at_death", sends_at_death)
            .beyond_stock(LOST);
        suite
            .on("small_cq", device, "both_on_one_cq", both_on_one)
            .beyond_stock(LOST);
        suite
            .on("small_cq", device, "late", late)
            .beyond_stock(LOST);
        for ending in Ending::ALL {
            let name = |what| format!("small_cq/{device}/{what}/{}", ending.name());
            suite
                .case(name("messages"), move || messages(device, ending))
                .beyond_stock(LOST);
            suite
                .case(name("shared"), move || shared(device, ending))
                .beyond_stock(LOST);
            suite
                .case(name("sends"), move || sends(device, ending))
                .beyond_stock(LOST);
        }
        suite.on("small_cq", device, "events_unread", events_unread);
    }
    suite
        .on("small_cq", Device::Rxe, "resized", resized)
        .beyond_stock(LOST);
}

fn victim(device: Device) -> Result<Scene, Stop> {
    Scene::set(device, Death::ModifyErr, SMALL_CQ)
}

/// Time for the kernel to fill the CQ, and to drop the rest.
fn overflow() {
    thread::sleep(Duration::from_millis(100));
}

/// Takes all events; there must be at most one `IBV_EVENT_CQ_ERR` for each CQ.
fn read_events(scene: &Scene) -> Outcome {
    count_errors(scene).map(drop)
}

/// As [`read_events`], and returns how many CQs it was said of that they are overrun.
fn count_errors(scene: &Scene) -> Result<usize, Stop> {
    let mut errors = [0, 0];
    while let Some(event) = next_event(scene.context(), SILENCE, || Ok(()))? {
        if event.kind() == sys::IBV_EVENT_CQ_ERR {
            for (at, cq) in scene.cqs().into_iter().enumerate() {
                errors[at] += usize::from(event.is_of_cq(cq));
            }
        }
    }
    assert!(
        errors[0] <= 1 && errors[1] <= 1,
        "CQ_ERR events: {errors:?}"
    );
    Ok(errors[0] + errors[1])
}

fn recvs_at_death(device: Device) -> Outcome {
    let scene = victim(device)?;
    scene.post_recvs(COUNT)?;
    Death::ModifyErr.inflict(&scene, 0)?;
    overflow();
    scene.settle()?;
    scene.roll.assert_flushed(scene.recvs);
    read_events(&scene)
}

fn sends_at_death(device: Device) -> Outcome {
    let scene = victim(device)?;
    scene.load_sends()?;
    scene.post_sends(COUNT)?;
    Death::ModifyErr.inflict(&scene, 0)?;
    overflow();
    scene.settle()?;
    read_events(&scene)
}

fn both_on_one(device: Device) -> Outcome {
    let plan = Plan {
        one_cq: true,
        ..SMALL_CQ
    };
    let scene = Scene::set(device, Death::ModifyErr, plan)?;
    scene.post_recvs(COUNT)?;
    scene.load_sends()?;
    scene.post_sends(COUNT)?;
    Death::ModifyErr.inflict(&scene, 0)?;
    overflow();
    scene.settle()?;
    scene.roll.assert_flushed(scene.recvs);
    read_events(&scene)
}

/// What is posted to a dead QP does not depend on the room in the CQ either.
fn late(device: Device) -> Outcome {
    let scene = victim(device)?;
    Death::ModifyErr.inflict(&scene, 0)?;
    for _ in 0..2 {
        scene.post_recvs(COUNT)?;
        scene.post_sends(COUNT)?;
        overflow();
        scene.settle()?;
    }
    read_events(&scene)
}

/// What the application does when its CQ is overrun.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Ending {
    /// It reads the event, and then the QP is dead.
    Hears,
    /// It reads no events, and moves the QP to ERR.
    Kills,
    /// It does nothing but poll.
    Polls,
}

impl Ending {
    const ALL: [Self; 3] = [Self::Hears, Self::Kills, Self::Polls];

    fn name(self) -> &'static str {
        match self {
            Self::Hears => "heard_of",
            Self::Kills => "killed",
            Self::Polls => "polled",
        }
    }
}

/// Messages overrun the CQ.
fn messages(device: Device, ending: Ending) -> Outcome {
    flooded(device, SMALL_CQ, ending).map(drop)
}

/// A victim whose CQ messages have overrun, and which was settled.
fn flooded(device: Device, plan: Plan, ending: Ending) -> Result<Scene, Stop> {
    let scene = Scene::set(device, Death::ModifyErr, plan)?;
    scene.post_recvs(COUNT)?;
    let message = SendWr::send(&[scene.near.sge(0, SMALL)]);
    scene.peer().qp.post_send(&vec![message; COUNT])?;
    end(&scene, ending)?;
    scene.settle()?;
    Ok(scene)
}

/// Messages into receives of an SRQ overrun the CQ. Those that the victim has not taken are there for
/// another QP, and no more than those.
fn shared(device: Device, ending: Ending) -> Outcome {
    let plan = Plan {
        shared: true,
        ..SMALL_CQ
    };
    let scene = flooded(device, plan, ending)?;
    let message = SendWr::send(&[scene.near.sge(0, SMALL)]);
    let bench = &scene.bench;
    let init = bench.init(Transport::Rc, Caps::default())?;
    let heir = QpInit {
        srq: scene.srq.clone(),
        ..bench.init(Transport::Rc, Caps::default())?
    };
    let (sender, _heir) = bench.connect(&init, &heir)?;
    for _ in scene.roll.answered(scene.recvs)..COUNT {
        sender.post_send(std::slice::from_ref(&message))?;
        heir.recv_cq.take_one()?.ok();
    }
    Ok(())
}

/// Sends overrun the CQ.
fn sends(device: Device, ending: Ending) -> Outcome {
    let scene = victim(device)?;
    let write = SendWr::write(&[scene.near.sge(0, SMALL)], scene.far).signaled();
    let list = scene.roll.sends(scene.sends, COUNT, &write);
    scene.victim.qp.post_send(&list)?;
    end(&scene, ending)?;
    scene.settle()
}

fn end(scene: &Scene, ending: Ending) -> Outcome {
    overflow();
    match ending {
        Ending::Hears => assert_eq!(count_errors(scene)?, 1, "CQs said to be overrun"),
        Ending::Kills => Death::ModifyErr.inflict(scene, 0)?,
        Ending::Polls => {}
    }
    Ok(())
}

/// A CQ is resized while it owes more completions than it has entries.
fn resized(device: Device) -> Outcome {
    let scene = victim(device)?;
    scene.post_recvs(COUNT)?;
    Death::ModifyErr.inflict(&scene, 0)?;
    scene.post_recvs(COUNT / 4)?;
    for entries in [16, 300, 8] {
        // Too small for what is in it, the kernel says EINVAL.
        match scene.victim.recv_cq.resize(entries) {
            Err(error) if error.raw_os_error() != Some(libc::EINVAL) => return Err(error.into()),
            _ => {}
        }
    }
    scene.settle()?;
    scene.roll.assert_flushed(scene.recvs);
    Ok(())
}

/// Events that nobody reads hold nothing up.
fn events_unread(device: Device) -> Outcome {
    let scene = victim(device)?;
    let context = Arc::clone(scene.context());
    scene.post_recvs(COUNT)?;
    scene.post_sends(COUNT)?;
    Death::ModifyErr.inflict(&scene, 0)?;
    overflow();
    drop(scene);
    let left = next_event(&context, SILENCE, || Ok(()))?;
    assert!(left.is_none(), "{left:?} outlives its CQ");
    Ok(())
}
