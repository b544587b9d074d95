// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause

//! Theme `signs`: however a queue pair has died, what was outstanding completes, and so does what is
//! posted later by somebody who has not noticed; whoever sleeps is woken.

mod special;

use guest::death::Death;
use guest::links::Device;
use guest::scene::{Plan, Scene};
use guest::sleeper::{Bed, Sleeper};
use guest::suite::{Outcome, Stop, Suite};

/// What an application does that is a victim.
struct Part {
    name: &'static str,
    play: fn(&Scene, Death) -> Outcome,
    /// What the stock provider does wrong here, if it does.
    stock_fault: fn(Device, Death) -> Option<&'static str>,
}

const PARTS: [Part; 6] = [
    Part {
        name: "outstanding",
        play: outstanding,
        stock_fault: kept_back,
    },
    Part {
        name: "later_recvs",
        play: later_recvs,
        stock_fault: untold,
    },
    Part {
        name: "later_sends",
        play: later_sends,
        stock_fault: ignored,
    },
    Part {
        name: "sleeper",
        play: sleeper,
        stock_fault: untold,
    },
    Part {
        name: "sleeper_unaware",
        play: sleeper_unaware,
        stock_fault: untold,
    },
    Part {
        name: "sleeper_armed_later",
        play: sleeper_armed_later,
        stock_fault: untold,
    },
];

fn kept_back(device: Device, death: Death) -> Option<&'static str> {
    match (device, death) {
        (Device::Siw, Death::ModifySqd | Death::Disconnect) => Some("CLOSING flushes no send"),
        (Device::Siw, Death::LocalKey) => Some("after a local error the QP stays half alive"),
        _ => None,
    }
}

fn untold(_: Device, _: Death) -> Option<&'static str> {
    Some("nobody tells the kernel of a receive that is posted to a dead QP")
}

fn ignored(device: Device, _: Death) -> Option<&'static str> {
    device.pick(None, Some("siw ignores the doorbell of a dead QP"))
}

/// Adds the cases of this theme.
pub(crate) fn add(suite: &mut Suite) {
    each_death(suite, "signs", Plan::PLAIN, |_| None);
    special::add(suite);
}

/// Adds each part for each death to `theme`, with victims built after `plan`, and what the stock provider
/// lacks for that.
pub(crate) fn each_death(
    suite: &mut Suite,
    theme: &str,
    plan: Plan,
    stock_lacks: fn(Device) -> Option<&'static str>,
) {
    for device in Device::ALL {
        for &death in Death::all(device) {
            each_part(suite, theme, (device, death), plan, stock_lacks(device));
        }
    }
}

/// The same, for one death.
pub(crate) fn each_part(
    suite: &mut Suite,
    theme: &str,
    (device, death): (Device, Death),
    plan: Plan,
    stock_lacks: Option<&'static str>,
) {
    for part in PARTS {
        let name = format!("{theme}/{device}/{}/{}", death.name(), part.name);
        suite
            .case(name, move || {
                (part.play)(&Scene::set(device, death, plan)?, death)
            })
            .beyond_stock(stock_lacks.or((part.stock_fault)(device, death)));
    }
}

/// Full queues when the QP dies, and an application that only polls.
fn outstanding(scene: &Scene, death: Death) -> Outcome {
    scene.post_recvs(20)?;
    if !death.is_by_send(scene.device()) {
        scene.load_sends()?;
    }
    death.inflict(scene, 10)?;
    scene.settle()
}

/// Empty queues when the QP dies: nothing tells the application so, and it posts receives and polls.
fn later_recvs(scene: &Scene, death: Death) -> Outcome {
    death.inflict(scene, 0)?;
    scene.post_recvs(10)?;
    scene.settle()?;
    scene.post_sends(10)?;
    scene.settle()?;
    scene.post_recvs(1)?;
    scene.settle()
}

/// The same, with sends.
fn later_sends(scene: &Scene, death: Death) -> Outcome {
    death.inflict(scene, 0)?;
    scene.post_sends(10)?;
    scene.settle()?;
    scene.post_sends(1)?;
    scene.settle()
}

/// An application that sleeps until it is woken, before, at and after death.
fn sleeper(scene: &Scene, death: Death) -> Outcome {
    scene.post_recvs(2)?;
    let sleeper = start(scene)?;
    death.inflict(scene, 2)?;
    sleeper.settle()?;
    scene.post_recvs(2)?;
    sleeper.settle()?;
    scene.post_sends(2)?;
    sleeper.settle()
}

/// The same, with empty queues when the QP dies: nothing wakes it then, and no poll tells it anything.
fn sleeper_unaware(scene: &Scene, death: Death) -> Outcome {
    let sleeper = start(scene)?;
    death.inflict(scene, 0)?;
    scene.post_recvs(2)?;
    sleeper.settle()?;
    scene.post_sends(2)?;
    sleeper.settle()
}

/// And one that arms only when it has something to wait for.
fn sleeper_armed_later(scene: &Scene, death: Death) -> Outcome {
    death.inflict(scene, 0)?;
    scene.post_recvs(2)?;
    let sleeper = start(scene)?;
    sleeper.settle()?;
    scene.post_sends(2)?;
    sleeper.settle()
}

fn start(scene: &Scene) -> Result<Sleeper, Stop> {
    let cqs = [&scene.victim.send_cq, &scene.victim.recv_cq];
    Sleeper::start(&scene.roll, &scene.channel, &cqs, false, Bed::GetCqEvent)
}
