// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause

//! "Last WQE reached": when, and how often.

use std::time::Duration;

use guest::death::Death;
use guest::events::{self, SILENCE};
use guest::links::Device;
use guest::pair::Retry;
use guest::roll::patience;
use guest::scene::{Plan, Scene};
use guest::suite::{Outcome, Suite};
use guest::verbs::{AsyncEvent, sys};

use super::{MISSING, expect_silence, last_wqe, next_event, poll, victim};

/// Why stock siw fails to flush after a local error.
const HALF_ALIVE: Option<&str> = Some("after a local error the QP stays half alive");

pub(super) fn add(suite: &mut Suite) {
    for device in Device::ALL {
        for &death in Death::all(device) {
            if is_catastrophic(device, death) {
                let name = format!("catastrophic/{}", death.name());
                suite
                    .on("shared", device, &name, move |device| {
                        catastrophic(device, death)
                    })
                    .beyond_stock(HALF_ALIVE.filter(|_| death == Death::LocalKey));
            } else {
                let name = format!("once/{}", death.name());
                suite
                    .on("shared", device, &name, move |device| once(device, death))
                    .beyond_stock(MISSING);
            }
        }
        suite
            .on("shared", device, "event_thread", event_thread)
            .beyond_stock(MISSING);
        suite.on("shared", device, "not_by_others", not_by_others);
    }
    for &death in Death::all(Device::Siw) {
        if !death.is_by_send(Device::Siw) {
            let name = format!("under_load/{}", death.name());
            suite
                .on("shared", Device::Siw, &name, move |_| under_load(death))
                .beyond_stock(MISSING);
        }
    }
    suite
        .on(
            "shared",
            Device::Rxe,
            "again_after_reset",
            again_after_reset,
        )
        .beyond_stock("6.1: the event is missing");
    suite
        .on("shared", Device::Rxe, "unread_at_reset", unread_at_reset)
        .beyond_stock("6.1: the event is missing; 6.12: that of the life before is told too");
}

/// Whether the kernel raises an event of the catastrophic kind, after which the other is not due.
fn is_catastrophic(device: Device, death: Death) -> bool {
    device == Device::Siw
        && matches!(
            death,
            Death::LocalKey | Death::Violated | Death::LongMessage
        )
}

/// Number of SRQ receives that the victim takes to die.
fn taken(death: Death) -> usize {
    usize::from(death == Death::LongMessage)
}

/// Once, behind the last receive; not again, whatever is done to the dead QP.
fn once(device: Device, death: Death) -> Outcome {
    let scene = Scene::set(device, death, Plan::SHARED)?;
    scene.post_recvs(10)?;
    // siw may report a send that it was carrying out as a catastrophic error.
    if device == Device::Rxe && !death.is_by_send(device) {
        scene.load_sends()?;
    }
    death.inflict(&scene, device.pick(4, 0))?;
    if death.may_be_catastrophic(device) {
        return last_wqe_or_catastrophic(&scene, death);
    }
    drop(last_wqe(&scene)?);
    // What the victim has taken has completed by now.
    poll(&scene)?;
    assert_eq!(scene.roll.answered(scene.recvs), taken(death));
    scene.settle()?;
    scene.victim.qp.move_to(sys::IBV_QPS_ERR)?;
    scene.post_sends(4)?;
    scene.settle()?;
    expect_silence(&scene)?;
    assert_eq!(scene.roll.answered(scene.recvs), taken(death));
    Ok(())
}

/// siw's deaths under load.
fn under_load(death: Death) -> Outcome {
    let scene = Scene::set(Device::Siw, death, Plan::SHARED)?;
    scene.post_recvs(10)?;
    scene.load_sends()?;
    death.inflict(&scene, 0)?;
    last_wqe_or_catastrophic(&scene, death)
}

/// The application hears of the last WQE and of nothing else, unless a send that siw was carrying out is a
/// catastrophic error. No last WQE comes behind that.
fn last_wqe_or_catastrophic(scene: &Scene, death: Death) -> Outcome {
    let mut kinds = Vec::new();
    let mut limit = patience();
    while let Some(event) = next_event(scene, limit)? {
        kinds.push(event.kind());
        limit = SILENCE;
    }
    let is_fatal =
        |kind: &_| [sys::IBV_EVENT_QP_FATAL, sys::IBV_EVENT_QP_ACCESS_ERR].contains(kind);
    let before = kinds.iter().position(is_fatal).unwrap_or(kinds.len());
    let last_wqe = sys::IBV_EVENT_QP_LAST_WQE_REACHED;
    let said = kinds[..before] == [last_wqe] || kinds[..before].is_empty() && before < kinds.len();
    assert!(
        said && !kinds[before..].contains(&last_wqe),
        "events {kinds:?}"
    );
    scene.settle()?;
    assert_eq!(scene.roll.answered(scene.recvs), taken(death));
    Ok(())
}

/// An application that waits for nothing but events, and does not poll.
fn event_thread(device: Device) -> Outcome {
    let scene = victim(device)?;
    scene.post_recvs(10)?;
    Death::ModifyErr.inflict(&scene, 0)?;
    loop {
        let event = events::next_event(scene.context(), patience(), || Ok(()))?;
        if !event.as_ref().is_some_and(|event| scene.is_of_peer(event)) {
            let kind = event.as_ref().map(AsyncEvent::kind);
            assert_eq!(kind, Some(sys::IBV_EVENT_QP_LAST_WQE_REACHED), "{event:?}");
            return Ok(());
        }
    }
}

/// An SRQ's other QPs, and its receives, have nothing to do with it: no event before death.
fn not_by_others(device: Device) -> Outcome {
    let scene = victim(device)?;
    scene.post_recvs(10)?;
    expect_silence(&scene)
}

/// After QP_FATAL or QP_ACCESS_ERR, "last WQE" is not said any more, not even at the move to ERR.
fn catastrophic(device: Device, death: Death) -> Outcome {
    let scene = Scene::set(device, death, Plan::SHARED)?;
    scene.post_recvs(10)?;
    death.inflict(&scene, 4)?;
    let first = next_event(&scene, patience())?;
    let kind = first.as_ref().map(AsyncEvent::kind);
    let expected = match death {
        Death::Violated => sys::IBV_EVENT_QP_ACCESS_ERR,
        _ => sys::IBV_EVENT_QP_FATAL,
    };
    assert_eq!(kind, Some(expected), "{first:?}");
    drop(first);
    scene.settle()?;
    scene.victim.qp.move_to(sys::IBV_QPS_ERR)?;
    scene.post_sends(2)?;
    scene.settle()?;
    while let Some(event) = next_event(&scene, SILENCE)? {
        assert_ne!(event.kind(), sys::IBV_EVENT_QP_LAST_WQE_REACHED);
    }
    assert_eq!(scene.roll.answered(scene.recvs), taken(death));
    Ok(())
}

/// A QP that lives again can die again.
fn again_after_reset(device: Device) -> Outcome {
    let scene = victim(device)?;
    let qp = &scene.victim.qp;
    let peer = scene.peer().qp.number();
    scene.post_recvs(10)?;
    for _ in 0..3 {
        qp.move_to(sys::IBV_QPS_ERR)?;
        drop(last_wqe(&scene)?);
        expect_silence(&scene)?;
        qp.move_to(sys::IBV_QPS_RESET)?;
        scene.bench.bring_up(qp, peer, Retry::PATIENT)?;
    }
    let nothing = next_event(&scene, Duration::from_millis(100))?;
    assert!(nothing.is_none(), "{nothing:?}");
    Ok(())
}

/// What was raised before a reset, and is read after another death, is not told besides. The application
/// may have an event in its place that means nothing.
fn unread_at_reset(device: Device) -> Outcome {
    let scene = victim(device)?;
    let qp = &scene.victim.qp;
    let peer = scene.peer().qp.number();
    scene.post_recvs(10)?;
    let live_again = || {
        qp.move_to(sys::IBV_QPS_RESET)?;
        scene.bench.bring_up(qp, peer, Retry::PATIENT)
    };
    for _ in 0..3 {
        qp.move_to(sys::IBV_QPS_ERR)?;
        live_again()?;
        qp.move_to(sys::IBV_QPS_ERR)?;
        let (mut told, mut limit) = (0, patience());
        while let Some(event) = next_event(&scene, limit)? {
            if event.kind() == sys::IBV_EVENT_QP_LAST_WQE_REACHED {
                told += 1;
                limit = SILENCE;
            }
        }
        assert_eq!(told, 1, "LAST_WQE_REACHED");
        live_again()?;
    }
    expect_silence(&scene)
}
