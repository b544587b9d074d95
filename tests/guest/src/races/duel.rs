// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause

//! One thread posts, one polls, and the queue pair dies meanwhile.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Instant;

use guest::death::Death;
use guest::links::Device;
use guest::payload::Random;
use guest::roll::patience;
use guest::scene::{Plan, SMALL, Scene};
use guest::suite::{Outcome, Suite, remark};
use guest::verbs::SendWr;

use super::{Score, deadline, rounds};
use crate::threads::join;

/// Requests that are posted in each round.
const REQUESTS: usize = 400;

/// Deaths that come from elsewhere, at any moment.
const DEATHS: [(Device, Death); 6] = [
    (Device::Rxe, Death::ModifyErr),
    (Device::Rxe, Death::Violated),
    (Device::Rxe, Death::PeerKilled),
    (Device::Siw, Death::ModifyErr),
    (Device::Siw, Death::PeerDisconnects),
    (Device::Siw, Death::PeerKilled),
];

pub(super) fn add(suite: &mut Suite) {
    for (device, death) in DEATHS {
        suite
            .case(format!("races/{device}/post/{}", death.name()), move || {
                run(device, death)
            })
            .within(deadline(4))
            .beyond_stock("what is posted at the moment of death, or later, is lost");
    }
}

fn run(device: Device, death: Death) -> Outcome {
    let mut random = Random::replayable();
    let mut score = Score::default();
    for _ in 0..rounds() {
        let scene = Scene::set(device, death, Plan::PLAIN)?;
        round(&scene, death, &mut random)?;
        score.add(&scene.roll);
        if !scene.roll.faults().is_empty() {
            remark_on(&scene)?;
        }
    }
    score.judge(format_args!("post/{} on {device}", death.name()))
}

/// Says what else is known of a round with faults: how far the victim has come, and what comes later.
fn remark_on(scene: &Scene) -> Outcome {
    let statuses = scene.roll.statuses(scene.sends);
    let last = &statuses[statuses.len().saturating_sub(6)..];
    let qp = &scene.victim.qp;
    let (queried, cached) = (qp.query_state()?, qp.cached_state());
    let lost = scene.roll.outstanding();
    scene.roll.collect(&scene.cqs(), 3 * patience())?;
    let still = scene.roll.outstanding();
    remark(format_args!(
        "state {queried}, cached {cached}; last sends {last:?}; lost {lost}, and later {still}"
    ));
    Ok(())
}

/// The main thread kills.
fn round(scene: &Scene, death: Death, random: &mut Random) -> Outcome {
    let before = random.between(1, REQUESTS);
    let seed = random.clone();
    let is_over = AtomicBool::new(false);
    thread::scope(|scope| {
        let poster = scope.spawn(|| post(scene, seed));
        let poller = scope.spawn(|| poll(scene, &is_over));
        while scene.roll.len() < before {
            thread::yield_now();
        }
        // rxe notices that its peer is gone by the sends that are being posted.
        let killed = death.strike(scene);
        let posted = join([poster]);
        is_over.store(true, Ordering::SeqCst);
        let polled = join([poller]);
        killed.and(posted).and(polled)
    })?;
    if death.is_by_send(scene.device()) {
        // All requests may have been carried out before the peer went.
        post_when_possible(scene)?;
    }
    scene.roll.collect(&scene.cqs(), patience())?;
    scene.roll.listen(&scene.cqs())
}

/// Posts receives and WRITEs, one by one or in short lists; what finds no room is given up.
fn post(scene: &Scene, mut random: Random) -> Outcome {
    let (roll, qp) = (&scene.roll, &scene.victim.qp);
    let write = SendWr::write(&[scene.near.sge(0, SMALL)], scene.far);
    while roll.len() < REQUESTS {
        let count = random.between(1, 4);
        let (line, posted) = if random.between(0, 1) == 0 {
            let list = roll.recvs(scene.recvs, count, scene.near.sge(0, SMALL));
            (scene.recvs, qp.post_recv(&list))
        } else {
            let list = roll.alternating(scene.sends, count, &write);
            (scene.sends, qp.post_send(&list))
        };
        if let Err(refused) = posted {
            let accepted = refused.accepted_for_want_of_room()?;
            roll.refuse(line, count - accepted);
            thread::yield_now();
        }
    }
    Ok(())
}

/// Posts one send more, as soon as what is polled makes room for it.
fn post_when_possible(scene: &Scene) -> Outcome {
    let start = Instant::now();
    while let Err(refused) = scene.post_sends(1) {
        scene.roll.refuse(scene.sends, 1);
        if start.elapsed() > patience() {
            return Err(refused);
        }
        for cq in scene.cqs() {
            scene.roll.poll(cq)?;
        }
    }
    Ok(())
}

fn poll(scene: &Scene, is_over: &AtomicBool) -> Outcome {
    while !is_over.load(Ordering::SeqCst) {
        for cq in scene.cqs() {
            scene.roll.poll(cq)?;
        }
        thread::yield_now();
    }
    Ok(())
}
