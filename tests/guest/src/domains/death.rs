// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause

//! The flush guarantees hold in a thread domain, whose objects one thread uses, and by whose QP's death
//! others may come to them.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use guest::death::Death;
use guest::links::Device;
use guest::roll::patience;
use guest::scene::{Plan, SMALL, Scene};
use guest::suite::{Outcome, Suite};

use super::{NONE, case};
use crate::signs;
use crate::threads::join;

/// A death that the application knows of, one that it is told of, and one of which nothing tells.
const DEATHS: [Death; 3] = [Death::ModifyErr, Death::Violated, Death::PeerKilled];

/// How often the race is run.
const ROUNDS: usize = 10;

/// Receives that are posted in each round.
const REQUESTS: usize = 200;

pub(super) fn add(suite: &mut Suite) {
    for device in Device::ALL {
        for death in DEATHS {
            let victim = (device, death);
            signs::each_part(suite, "domains", victim, Plan::IN_THREAD_DOMAIN, Some(NONE));
        }
        case(suite, device, "reaped_elsewhere", reaped_elsewhere).within(60);
    }
}

/// One thread posts and polls, another one gets the event of the death.
fn reaped_elsewhere(device: Device) -> Outcome {
    for _ in 0..ROUNDS {
        let scene = Scene::set(device, Death::Violated, Plan::IN_THREAD_DOMAIN)?;
        let is_over = AtomicBool::new(false);
        thread::scope(|scope| {
            let user = scope.spawn(|| post_and_poll(&scene));
            let reaper = scope.spawn(|| reap(&scene, &is_over));
            while scene.roll.len() < REQUESTS / 2 {
                thread::yield_now();
            }
            let killed = Death::Violated.strike(&scene);
            let used = join([user]);
            is_over.store(true, Ordering::SeqCst);
            let reaped = join([reaper]);
            killed.and(used).and(reaped)
        })?;
        scene.roll.collect(&scene.cqs(), patience())?;
        scene.roll.listen(&scene.cqs())?;
        scene.roll.check()?;
    }
    Ok(())
}

fn post_and_poll(scene: &Scene) -> Outcome {
    while scene.roll.len() < REQUESTS {
        let list = scene.roll.recvs(scene.recvs, 1, scene.near.sge(0, SMALL));
        if let Err(refused) = scene.victim.qp.post_recv(&list) {
            let accepted = refused.accepted_for_want_of_room()?;
            scene.roll.refuse(scene.recvs, 1 - accepted);
        }
        for cq in scene.cqs() {
            scene.roll.poll(cq)?;
        }
    }
    Ok(())
}

fn reap(scene: &Scene, is_over: &AtomicBool) -> Outcome {
    while !is_over.load(Ordering::SeqCst) {
        drop(scene.context().next_event(Duration::from_millis(10))?);
    }
    Ok(())
}
