// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause

//! A queue pair is destroyed after its last event: that waits for what was delivered, and for
//! nothing else.

use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use guest::death::Death;
use guest::events::expect_silence;
use guest::links::Device;
use guest::roll::patience;
use guest::scene::Scene;
use guest::suite::{Outcome, Stop, Suite};
use guest::verbs::readable;

use super::{MISSING, last_wqe, victim};

pub(super) fn add(suite: &mut Suite) {
    for device in Device::ALL {
        suite
            .on("shared", device, "destroy/unread", unread)
            .beyond_stock(MISSING);
        suite.on(
            "shared",
            device,
            "destroy/never_waited_for",
            never_waited_for,
        );
        suite
            .on("shared", device, "destroy/acknowledged", acknowledged)
            .beyond_stock(MISSING);
        suite
            .on("shared", device, "destroy/unacknowledged", unacknowledged)
            .beyond_stock(MISSING);
    }
}

fn dead(device: Device) -> Result<Scene, Stop> {
    let scene = victim(device)?;
    scene.post_recvs(4)?;
    Death::ModifyErr.inflict(&scene, 0)?;
    Ok(scene)
}

/// The event is there, and nobody has read it: it goes with its QP.
fn unread(device: Device) -> Outcome {
    let scene = dead(device)?;
    let is_there = readable(scene.context().async_fd(), patience())?;
    assert!(is_there, "the event never comes");
    let context = scene.context().clone();
    drop(scene);
    expect_silence(&context, || Ok(()))
}

/// The QP goes at once, with the event on its way or not.
fn never_waited_for(device: Device) -> Outcome {
    for _ in 0..10 {
        let scene = dead(device)?;
        let context = scene.context().clone();
        drop(scene);
        expect_silence(&context, || Ok(()))?;
    }
    Ok(())
}

/// A delivered and acknowledged event holds nothing up.
fn acknowledged(device: Device) -> Outcome {
    let scene = dead(device)?;
    drop(last_wqe(&scene)?);
    let context = scene.context().clone();
    drop(scene);
    expect_silence(&context, || Ok(()))
}

/// Destruction waits until the event is acknowledged, which the man page asks of it.
fn unacknowledged(device: Device) -> Outcome {
    let scene = dead(device)?;
    let event = last_wqe(&scene)?;
    let Scene { victim, .. } = scene;
    let (destroyed, is_destroyed) = mpsc::channel();
    let destroyer = thread::spawn(move || {
        drop(victim);
        destroyed.send(()).ok();
    });
    let early = is_destroyed.recv_timeout(Duration::from_millis(300));
    assert!(early.is_err(), "destroyed before the acknowledgement");
    drop(event);
    let late = is_destroyed.recv_timeout(patience());
    assert!(late.is_ok(), "not destroyed after the acknowledgement");
    destroyer.join().ok();
    Ok(())
}
