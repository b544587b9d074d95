// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause

//! READs, which siw keeps apart from other sends while they wait for their answer.

use std::hint;
use std::time::Instant;

use guest::death::{Death, NO_KEY};
use guest::links::{Device, Stall};
use guest::payload::Random;
use guest::scene::{LARGE, Plan, SMALL, Scene};
use guest::suite::{Outcome, Stop, Suite};
use guest::verbs::{SendWr, sys};

/// READs that may be under way at a time.
const LIMIT: usize = 16;

pub(super) fn add(suite: &mut Suite) {
    for device in Device::ALL {
        suite
            .on("flush_basic", device, "reads_in_order", in_order)
            .beyond_stock(device.pick(
                None,
                Some("a WRITE completes before the READ in front of it"),
            ));
        suite
            .on(
                "flush_basic",
                device,
                "reads_into_no_memory",
                into_no_memory,
            )
            .beyond_stock(device.pick(None, Some("the READs behind the bad one never complete")));
        suite
            .on("flush_basic", device, "reads_flushed_once", flushed_once)
            .beyond_stock(device.pick(None, Some("a READ that is being sent is flushed twice")));
    }
    let ends = [
        (Death::ModifyErr, None),
        (Death::ModifySqd, Some("CLOSING flushes no send")),
        (Death::Disconnect, Some("CLOSING flushes no send")),
    ];
    for (death, fault) in ends {
        let name = format!("reads_under_way/{}", death.name());
        suite
            .on("flush_basic", Device::Siw, &name, move |device| {
                under_way(device, death)
            })
            .beyond_stock(fault);
    }
    suite
        .on(
            "flush_basic",
            Device::Siw,
            "reads_before_writes",
            before_writes,
        )
        .beyond_stock("a WRITE completes before the READ in front of it");
}

fn victim(device: Device) -> Result<Scene, Stop> {
    Scene::set(device, Death::ModifyErr, Plan::PLAIN)
}

/// Sends that need no answer complete behind the READs in front of them.
fn in_order(device: Device) -> Outcome {
    let scene = victim(device)?;
    for _ in 0..10 {
        let large = SendWr::read(&[scene.near.sge(0, LARGE / 4)], scene.far).signaled();
        let small = SendWr::write(&[scene.near.sge(0, SMALL)], scene.far).signaled();
        let mut list = Vec::new();
        for wr in [&large, &small, &small, &large, &small] {
            list.push(scene.roll.send(scene.sends, wr.clone()));
        }
        scene.victim.qp.post_send(&list)?;
        scene.settle()?;
    }
    let succeeded = |status| status == Some(sys::IBV_WC_SUCCESS);
    assert!(scene.roll.statuses(scene.sends).into_iter().all(succeeded));
    Ok(())
}

/// The first READ's answer finds no memory to go to.
fn into_no_memory(device: Device) -> Outcome {
    let scene = victim(device)?;
    scene.post_recvs(4)?;
    let sge = scene.near.sge(0, SMALL);
    let bad = SendWr::read(&[sge.with_lkey(NO_KEY)], scene.far).signaled();
    let good = SendWr::read(&[sge], scene.far).signaled();
    let mut list = vec![scene.roll.send(scene.sends, bad)];
    list.extend(scene.roll.sends(scene.sends, LIMIT / 2, &good));
    scene.victim.qp.post_send(&list)?;
    scene.settle()?;
    assert_ne!(
        scene.roll.statuses(scene.sends)[0],
        Some(sys::IBV_WC_SUCCESS)
    );
    scene.roll.assert_flushed_from(scene.sends, 1);
    Ok(())
}

/// More READs than may be under way, so that one waits for its turn when the QP dies.
fn flushed_once(device: Device) -> Outcome {
    let mut random = Random::replayable();
    for round in 0..30 {
        let scene = victim(device)?;
        let read = SendWr::read(&[scene.near.sge(0, SMALL)], scene.far).signaled();
        let list = scene.roll.sends(scene.sends, 3 * LIMIT, &read);
        scene.victim.qp.post_send(&list)?;
        spin(random.between(0, 500));
        scene.victim.qp.move_to(sys::IBV_QPS_ERR)?;
        scene
            .settle()
            .map_err(|stop| stop.during(format_args!("round {round}")))?;
    }
    Ok(())
}

/// Lets some microseconds pass, without giving up the processor.
fn spin(microseconds: usize) {
    let start = Instant::now();
    while start.elapsed().as_micros() < microseconds as u128 {
        hint::spin_loop();
    }
}

/// READs that have been sent and whose answers do not come.
fn under_way(device: Device, death: Death) -> Outcome {
    let scene = Scene::set(device, death, Plan::PLAIN)?;
    let stall = Stall::begin()?;
    let read = SendWr::read(&[scene.near.sge(0, SMALL)], scene.far).signaled();
    let list = scene.roll.sends(scene.sends, LIMIT, &read);
    scene.victim.qp.post_send(&list)?;
    death.inflict(&scene, 0)?;
    scene.settle()?;
    scene.roll.assert_flushed(scene.sends);
    drop(stall);
    Ok(())
}

/// WRITEs behind such READs are complete for siw as soon as TCP has them, but not for those who
/// poll.
fn before_writes(device: Device) -> Outcome {
    let scene = victim(device)?;
    let stall = Stall::begin()?;
    let sge = [scene.near.sge(0, SMALL)];
    let mut list = scene
        .roll
        .sends(scene.sends, 4, &SendWr::read(&sge, scene.far).signaled());
    list.extend(
        scene
            .roll
            .sends(scene.sends, 4, &SendWr::write(&sge, scene.far).signaled()),
    );
    scene.victim.qp.post_send(&list)?;
    scene.victim.qp.move_to(sys::IBV_QPS_ERR)?;
    scene.settle()?;
    drop(stall);
    Ok(())
}
