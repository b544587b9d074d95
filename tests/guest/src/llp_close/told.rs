// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause

//! What an application is told that reads events, and does nothing else.

use std::time::Duration;

use guest::companion;
use guest::events::{self, SILENCE};
use guest::load::Load;
use guest::scene::Scene;
use guest::suite::Stop;
use guest::verbs::sys;

use super::End;
use super::reason::Reason;

/// TCP gives up after some seconds; all else is told at once.
const PATIENCE: [Duration; 2] = [Duration::from_secs(2), Duration::from_secs(12)];

/// Whether the application has ended the connection itself, and waits for nothing: it need not be told.
fn is_idle(end: End, load: Load) -> bool {
    end.reason == Reason::None && load != Load::Shared
}

/// The events of the victim, until no more come.
pub(super) fn listen(
    scene: &Scene,
    end: End,
    load: Load,
) -> Result<Vec<sys::ibv_event_type>, Stop> {
    let limit = match is_idle(end, load) {
        true => SILENCE,
        false => PATIENCE[usize::from(end.reason == Reason::Lost)],
    };
    events::kinds_of_victim(scene, limit, |_| ())
}

/// Checks that the application was told once what it has to know. Returns whether siw has raised an error by
/// itself; the module does not count such an end.
pub(super) fn check(told: &[sys::ibv_event_type], end: End, load: Load) -> bool {
    let times = |kind| told.iter().filter(|told| **told == kind).count();
    let failed = [sys::IBV_EVENT_QP_FATAL, sys::IBV_EVENT_QP_ACCESS_ERR].map(times);
    if failed != [0, 0] {
        // siw has said so of a send that it was carrying out, if there was one.
        assert!(load == Load::Full || end.needs_send(), "events {told:?}");
        assert_eq!(
            times(sys::IBV_EVENT_QP_LAST_WQE_REACHED),
            0,
            "events {told:?}"
        );
        return true;
    }
    let last_wqe = usize::from(load == Load::Shared);
    assert_eq!(
        times(sys::IBV_EVENT_QP_LAST_WQE_REACHED),
        last_wqe,
        "events {told:?}"
    );
    let refused = usize::from(
        end.reason == Reason::Terminated && load != Load::Shared && companion::is_loaded(),
    );
    assert_eq!(times(sys::IBV_EVENT_QP_REQ_ERR), refused, "events {told:?}");
    assert!(times(sys::IBV_EVENT_SQ_DRAINED) <= 1, "events {told:?}");
    assert!(is_idle(end, load) || !told.is_empty(), "nothing was told");
    false
}
