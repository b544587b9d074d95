// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause

//! Theme `shared`: a queue pair with an SRQ dies. "Last WQE reached" is said once, behind its last
//! receive; the SRQ keeps what nobody has taken.

mod destroy;
mod last_wqe;
mod mid_message;
mod others;

use std::time::Duration;

use guest::death::Death;
use guest::events::{self, SILENCE};
use guest::links::Device;
use guest::roll::patience;
use guest::scene::{Plan, Scene};
use guest::suite::{Outcome, Stop, Suite};
use guest::verbs::{AsyncEvent, sys};

/// Why the stock providers fail most cases.
const MISSING: &str = "the event is missing (siw; rxe of 6.1) or comes many times (rxe of 6.12)";

/// Adds the cases of this theme.
pub(crate) fn add(suite: &mut Suite) {
    last_wqe::add(suite);
    mid_message::add(suite);
    others::add(suite);
    destroy::add(suite);
}

fn victim(device: Device) -> Result<Scene, Stop> {
    Scene::set(device, Death::ModifyErr, Plan::SHARED)
}

/// The next event of the victim within `limit`, polling all the while. Its peer, in the same process,
/// has events of its own.
fn next_event(scene: &Scene, limit: Duration) -> Result<Option<AsyncEvent>, Stop> {
    loop {
        match events::next_event(scene.context(), limit, || poll(scene))? {
            Some(event) if scene.is_of_peer(&event) => {}
            next => return Ok(next),
        }
    }
}

/// Checks that the victim has no event.
fn expect_silence(scene: &Scene) -> Outcome {
    match next_event(scene, SILENCE)? {
        None => Ok(()),
        Some(event) => Err(Stop::Fail(format!("unexpected {event:?}"))),
    }
}

/// Waits for `IBV_EVENT_QP_LAST_WQE_REACHED` of the victim.
fn last_wqe(scene: &Scene) -> Result<AsyncEvent, Stop> {
    match next_event(scene, patience())? {
        Some(event) if event.kind() == sys::IBV_EVENT_QP_LAST_WQE_REACHED => Ok(event),
        Some(event) => Err(Stop::Fail(format!("{event:?} instead of last WQE"))),
        None => Err(Stop::Fail(format!("no last WQE within {:?}", patience()))),
    }
}

fn poll(scene: &Scene) -> Outcome {
    for cq in scene.cqs() {
        scene.roll.poll(cq)?;
    }
    Ok(())
}
