// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause

//! Arming, posting, dying and polling at once: no wake-up is lost.

use std::thread;
use std::time::Instant;

use guest::links::Device;
use guest::payload::Random;
use guest::roll::patience;
use guest::scene::{SMALL, Scene};
use guest::sleeper::{Bed, Sleeper};
use guest::suite::{Outcome, Stop, Suite};
use guest::verbs::sys;

use super::{LATE, alive, dead};

pub(super) fn add(suite: &mut Suite) {
    for device in Device::ALL {
        suite
            .on("waiters", device, "race/one_at_a_time", one_at_a_time)
            .beyond_stock(LATE);
        suite
            .on("waiters", device, "race/many", many)
            .beyond_stock(LATE);
        suite
            .on("waiters", device, "race/death", death)
            .beyond_stock(LATE);
    }
}

fn sleeper(scene: &Scene) -> Result<Sleeper, Stop> {
    let cqs = [&scene.victim.send_cq, &scene.victim.recv_cq];
    Sleeper::start(&scene.roll, &scene.channel, &cqs, false, Bed::GetCqEvent)
}

/// The next request is posted as soon as the waiter has taken the last one, and is about to sleep.
fn one_at_a_time(device: Device) -> Outcome {
    let scene = dead(device)?;
    let sleeper = sleeper(&scene)?;
    for _ in 0..300 {
        scene.post_recvs(1)?;
        sleeper.settle()?;
    }
    Ok(())
}

/// Posts one receive, as soon as there is room for it.
fn post_when_possible(scene: &Scene) -> Outcome {
    let start = Instant::now();
    let list = scene.roll.recvs(scene.recvs, 1, scene.near.sge(0, SMALL));
    loop {
        match scene.victim.qp.post_recv(&list) {
            Ok(()) => return Ok(()),
            Err(refused) if refused.returned.abs() != libc::ENOMEM => return Err(refused.into()),
            Err(_) if start.elapsed() > patience() => {
                return Err(Stop::Fail("the receive queue stays full".to_owned()));
            }
            Err(_) => thread::yield_now(),
        }
    }
}

/// Requests are posted while the waiter polls, arms and sleeps.
fn many(device: Device) -> Outcome {
    let scene = dead(device)?;
    let sleeper = sleeper(&scene)?;
    for _ in 0..2000 {
        post_when_possible(&scene)?;
    }
    sleeper.settle()
}

/// The QP dies while receives are posted and the waiter sleeps.
fn death(device: Device) -> Outcome {
    let mut random = Random::replayable();
    for round in 0..20 {
        let scene = alive(device)?;
        let sleeper = sleeper(&scene)?;
        let before = random.between(1, 60);
        thread::scope(|scope| {
            let killer = scope.spawn(|| {
                while scene.roll.len() < before {
                    thread::yield_now();
                }
                scene.victim.qp.move_to(sys::IBV_QPS_ERR)
            });
            for _ in 0..120 {
                post_when_possible(&scene)?;
            }
            match killer.join() {
                Ok(moved) => Ok::<(), Stop>(moved?),
                Err(_) => panic!("the killer panicked"),
            }
        })?;
        sleeper
            .settle()
            .map_err(|stop| stop.during(format_args!("round {round}")))?;
    }
    Ok(())
}
