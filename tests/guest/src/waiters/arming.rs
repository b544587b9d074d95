// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause

//! How many events an arming is worth, and which.

use std::time::Duration;

use guest::death::Death;
use guest::links::Device;
use guest::roll::patience;
use guest::scene::{SMALL, Scene};
use guest::suite::{Outcome, Stop, Suite};
use guest::verbs::{Cq, SendWr};

use super::{LATE, alive, dead};

/// How long to look for an event that must not come.
const SILENCE: Duration = Duration::from_millis(200);

pub(super) fn add(suite: &mut Suite) {
    for device in Device::ALL {
        suite.on(
            "waiters",
            device,
            "one_wake/kernel_flush",
            one_wake_for_many,
        );
        suite
            .on("waiters", device, "one_wake/late_recvs", one_wake_late)
            .beyond_stock(LATE);
        suite
            .on("waiters", device, "one_wake/both", one_wake_for_both)
            .beyond_stock(LATE);
        suite
            .on("waiters", device, "unarmed", unarmed)
            .beyond_stock(LATE);
        suite
            .on(
                "waiters",
                device,
                "next_outlasts_solicited",
                next_outlasts_solicited,
            )
            .beyond_stock(
                device.pick(None, Some("the second arming takes the place of the first")),
            );
        suite
            .on("waiters", device, "event_names_its_cq", names_its_cq)
            .beyond_stock(LATE);
    }
}

fn expect_silence(scene: &Scene) -> Outcome {
    match scene.channel.next_event(SILENCE)? {
        None => Ok(()),
        Some(_) => Err(Stop::Fail("an event that nobody has armed for".to_owned())),
    }
}

fn expect_one(scene: &Scene, cq: &Cq) -> Outcome {
    scene.channel.expect_event(cq, patience())?;
    expect_silence(scene)
}

/// Twenty flushed receives make one event.
fn one_wake_for_many(device: Device) -> Outcome {
    let scene = alive(device)?;
    scene.post_recvs(20)?;
    scene.victim.recv_cq.arm(false)?;
    Death::ModifyErr.inflict(&scene, 0)?;
    expect_one(&scene, &scene.victim.recv_cq)?;
    scene.settle()?;
    expect_silence(&scene)
}

/// So do receives posted one by one to a dead QP; and the next event takes the next arming.
fn one_wake_late(device: Device) -> Outcome {
    let scene = dead(device)?;
    for _ in 0..3 {
        scene.victim.recv_cq.arm(false)?;
        for _ in 0..5 {
            scene.post_recvs(1)?;
        }
        expect_one(&scene, &scene.victim.recv_cq)?;
        scene.settle()?;
        expect_silence(&scene)?;
    }
    Ok(())
}

/// What the kernel flushes and what is posted after that share the one event that was asked for.
fn one_wake_for_both(device: Device) -> Outcome {
    let scene = alive(device)?;
    scene.post_recvs(10)?;
    scene.victim.recv_cq.arm(false)?;
    Death::ModifyErr.inflict(&scene, 0)?;
    scene.post_recvs(10)?;
    expect_one(&scene, &scene.victim.recv_cq)?;
    scene.settle()?;
    expect_silence(&scene)
}

/// Nobody has asked, so nobody is woken.
fn unarmed(device: Device) -> Outcome {
    let scene = alive(device)?;
    scene.post_recvs(10)?;
    Death::ModifyErr.inflict(&scene, 0)?;
    scene.post_recvs(10)?;
    scene.post_sends(10)?;
    scene.settle()?;
    expect_silence(&scene)
}

/// Who is armed for any completion and arms for solicited ones as well is woken by any.
fn next_outlasts_solicited(device: Device) -> Outcome {
    let scene = alive(device)?;
    scene.post_recvs(1)?;
    scene.victim.recv_cq.arm(false)?;
    scene.victim.recv_cq.arm(true)?;
    let peer = scene.peer();
    let message = SendWr::send(&[scene.near.sge(0, SMALL)]).signaled();
    peer.qp.post_send(&[message])?;
    peer.send_cq.take_one()?.ok();
    expect_one(&scene, &scene.victim.recv_cq)?;
    scene.settle()
}

/// Two CQs on one channel.
fn names_its_cq(device: Device) -> Outcome {
    let scene = dead(device)?;
    let [send_cq, recv_cq] = scene.cqs();
    for _ in 0..2 {
        send_cq.arm(false)?;
        recv_cq.arm(false)?;
        scene.post_recvs(1)?;
        expect_one(&scene, recv_cq)?;
        scene.post_sends(1)?;
        expect_one(&scene, send_cq)?;
        scene.settle()?;
    }
    Ok(())
}
