// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause

//! Theme `event_semantics`: how events are got and acknowledged, as ibv_get_async_event(3) and
//! ibv_get_cq_event(3) have it, also those that a provider has made itself.

use std::io;
use std::sync::Arc;
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use guest::death::Death;
use guest::links::Device;
use guest::roll::patience;
use guest::scene::{Plan, Scene};
use guest::suite::{Outcome, Stop, Suite};
use guest::verbs::{AsyncEvent, Context, CqEvent, SendWr, readable, set_nonblocking, sys};

/// How long to look for something that must not happen.
const SILENCE: Duration = Duration::from_millis(300);

/// Why stock providers fail what waits for the last WQE.
const MISSING: &str = "the event is missing (siw; rxe of 6.1)";

/// Why they fail what waits for a late receive.
const LATE: &str = "a receive that is posted to a dead QP never completes";

/// Adds the cases of this theme.
pub(crate) fn add(suite: &mut Suite) {
    for device in Device::ALL {
        suite
            .on(
                "event_semantics",
                device,
                "nonblocking_async_events",
                nonblocking,
            )
            .beyond_stock(MISSING);
        suite
            .on(
                "event_semantics",
                device,
                "one_of_many_threads",
                one_of_many,
            )
            .beyond_stock(MISSING);
        suite
            .on(
                "event_semantics",
                device,
                "nonblocking_cq_events",
                nonblocking_cq_events,
            )
            .beyond_stock(LATE);
        suite
            .on(
                "event_semantics",
                device,
                "cq_waits_for_acks",
                cq_waits_for_acks,
            )
            .beyond_stock(LATE);
        suite.on(
            "event_semantics",
            device,
            "cq_error_waits_for_ack",
            cq_error_waits_for_ack,
        );
        suite.on(
            "event_semantics",
            device,
            "srq_waits_for_ack",
            srq_waits_for_ack,
        );
    }
}

fn is_nothing(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::WouldBlock
}

/// The manual page's example: the descriptor is made non-blocking and polled, and only then is the
/// event got.
fn nonblocking(device: Device) -> Outcome {
    let scene = Scene::set(device, Death::ModifyErr, Plan::SHARED)?;
    scene.post_recvs(4)?;
    let context = scene.context();
    set_nonblocking(context.async_fd())?;
    let early = context.get_event();
    assert!(
        early.is_err_and(|error| is_nothing(&error)),
        "an event before death"
    );
    Death::ModifyErr.inflict(&scene, 0)?;
    let start = Instant::now();
    loop {
        if readable(context.async_fd(), Duration::from_millis(10))? {
            match context.get_event() {
                Ok(event) if !event.is_of_qp(&scene.victim.qp) => {}
                Ok(event) if event.kind() == sys::IBV_EVENT_QP_LAST_WQE_REACHED => break,
                Ok(event) => return Err(Stop::Fail(format!("{event:?} comes first"))),
                // What was there may have been the provider's own affair.
                Err(error) if is_nothing(&error) => {}
                Err(error) => return Err(error.into()),
            }
        }
        assert!(start.elapsed() < patience(), "the event never comes");
    }
    while let Ok(event) = context.get_event() {
        let is_victims = event.is_of_qp(&scene.victim.qp);
        assert!(
            !is_victims || event.kind() == sys::IBV_EVENT_COMM_EST,
            "{event:?}"
        );
    }
    Ok(())
}

/// Four threads wait for an event; it is one of them that gets it.
fn one_of_many(device: Device) -> Outcome {
    let scene = Scene::set(device, Death::ModifyErr, Plan::SHARED)?;
    scene.post_recvs(4)?;
    let (got, is_got) = mpsc::channel();
    for _ in 0..4 {
        let (context, got) = (Arc::clone(scene.context()), got.clone());
        // They are never told to end, and go with the process.
        thread::spawn(move || wait_for_events(&context, &got));
    }
    Death::ModifyErr.inflict(&scene, 0)?;
    let first = is_got.recv_timeout(patience());
    assert_eq!(first, Ok(sys::IBV_EVENT_QP_LAST_WQE_REACHED));
    let second = is_got.recv_timeout(SILENCE);
    assert!(second.is_err(), "two threads get an event: {second:?}");
    Ok(())
}

fn wait_for_events(context: &Arc<Context>, got: &mpsc::Sender<sys::ibv_event_type>) {
    while let Ok(event) = context.get_event() {
        // The peer, in the same process, may have other events.
        if event.kind() == sys::IBV_EVENT_QP_LAST_WQE_REACHED {
            got.send(event.kind()).ok();
        }
    }
}

/// The same with a completion channel.
fn nonblocking_cq_events(device: Device) -> Outcome {
    let scene = Scene::set(device, Death::ModifyErr, Plan::PLAIN)?;
    set_nonblocking(scene.channel.fd())?;
    Death::ModifyErr.inflict(&scene, 0)?;
    for _ in 0..3 {
        let early = scene.channel.get_event();
        assert!(
            early.is_err_and(|error| is_nothing(&error)),
            "an early event"
        );
        scene.victim.recv_cq.arm(false)?;
        scene.post_recvs(1)?;
        scene
            .channel
            .expect_event(&scene.victim.recv_cq, patience())?;
        scene.settle()?;
    }
    Ok(())
}

/// Runs `destroy` in a thread: it must wait until `event` is dropped, and then not any longer.
fn waits_for(event: impl Sized, destroy: impl FnOnce() + Send + 'static) {
    let (destroyed, is_destroyed) = mpsc::channel();
    thread::spawn(move || {
        destroy();
        destroyed.send(()).ok();
    });
    let early = is_destroyed.recv_timeout(SILENCE);
    assert!(early.is_err(), "destroyed before the acknowledgement");
    drop(event);
    let late = is_destroyed.recv_timeout(patience());
    assert!(late.is_ok(), "not destroyed after the acknowledgement");
}

/// A CQ is not destroyed before its events are acknowledged, of which some are of late receives.
fn cq_waits_for_acks(device: Device) -> Outcome {
    let scene = Scene::set(device, Death::ModifyErr, Plan::ONE_CQ)?;
    Death::ModifyErr.inflict(&scene, 0)?;
    let mut events: Vec<CqEvent> = Vec::new();
    for _ in 0..3 {
        scene.victim.recv_cq.arm(false)?;
        scene.post_recvs(1)?;
        let event = scene.channel.next_event(patience())?;
        events.push(event.ok_or_else(|| Stop::Fail("no event".to_owned()))?);
        scene.settle()?;
    }
    let Scene { victim, .. } = scene;
    waits_for(events, move || drop(victim));
    Ok(())
}

/// The next event of the context of `kind`; others are acknowledged at once.
fn event_of(context: &Arc<Context>, kind: sys::ibv_event_type) -> Result<AsyncEvent, Stop> {
    while let Some(event) = context.next_event(patience())? {
        if event.kind() == kind {
            return Ok(event);
        }
    }
    Err(Stop::Fail(format!("no event {kind}")))
}

/// Nor before the event of its overrun is.
fn cq_error_waits_for_ack(device: Device) -> Outcome {
    let plan = Plan {
        cq_depth: 4,
        queue_depth: 512,
        ..Plan::ONE_CQ
    };
    let scene = Scene::set(device, Death::ModifyErr, plan)?;
    let message = SendWr::send(&[scene.near.sge(0, 8)]);
    scene.post_recvs(400)?;
    scene.peer().qp.post_send(&vec![message; 400])?;
    let event = event_of(scene.context(), sys::IBV_EVENT_CQ_ERR)?;
    let Scene { victim, .. } = scene;
    waits_for(event, move || drop(victim));
    Ok(())
}

/// An SRQ is not destroyed before the event of its limit is acknowledged.
fn srq_waits_for_ack(device: Device) -> Outcome {
    let scene = Scene::set(device, Death::ModifyErr, Plan::SHARED)?;
    let message = SendWr::send(&[scene.near.sge(0, 8)]);
    scene.post_recvs(4)?;
    let srq = scene.srq.clone().ok_or_else(|| Stop::skip("no SRQ"))?;
    srq.arm_limit(4)?;
    scene.peer().qp.post_send(&[message])?;
    let event = event_of(scene.context(), sys::IBV_EVENT_SRQ_LIMIT_REACHED)?;
    let Scene {
        victim, srq: other, ..
    } = scene;
    waits_for(event, move || drop((victim, other, srq)));
    Ok(())
}
