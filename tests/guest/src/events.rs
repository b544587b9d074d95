// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause

//! Asynchronous events, as they come.

use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::scene::Scene;
use crate::suite::{Outcome, Stop};
use crate::verbs::{AsyncEvent, Context, sys};

/// How long to look for an event that must not come.
pub const SILENCE: Duration = Duration::from_millis(300);

/// The next event within `limit`, calling `meanwhile` all the time.
///
/// `IBV_EVENT_COMM_EST` is overlooked: neither driver has it, and no application acts on it, so a
/// provider may turn an event into it that it cannot take back.
///
/// # Errors
///
/// A failure of the verb or of `meanwhile`.
pub fn next_event(
    context: &Arc<Context>,
    limit: Duration,
    mut meanwhile: impl FnMut() -> Outcome,
) -> Result<Option<AsyncEvent>, Stop> {
    let start = Instant::now();
    loop {
        meanwhile()?;
        match context.next_event(Duration::from_millis(1))? {
            Some(event) if event.kind() == sys::IBV_EVENT_COMM_EST => {}
            Some(event) => return Ok(Some(event)),
            None if start.elapsed() > limit => return Ok(None),
            None => {}
        }
    }
}

/// Checks that no event comes.
///
/// # Errors
///
/// The event, or as [`next_event`].
pub fn expect_silence(context: &Arc<Context>, meanwhile: impl FnMut() -> Outcome) -> Outcome {
    match next_event(context, SILENCE, meanwhile)? {
        None => Ok(()),
        Some(event) => Err(Stop::Fail(format!("unexpected {event:?}"))),
    }
}

/// The kinds of the events of a scene's victim, of which the first may take `limit`, until no more come. Those of
/// others are shown to `other`.
///
/// # Errors
///
/// As [`next_event`].
pub fn kinds_of_victim(
    scene: &Scene,
    mut limit: Duration,
    mut other: impl FnMut(&AsyncEvent),
) -> Result<Vec<sys::ibv_event_type>, Stop> {
    let mut kinds = Vec::new();
    while let Some(event) = next_event(scene.context(), limit, || Ok(()))? {
        if event.is_of_qp(&scene.victim.qp) {
            kinds.push(event.kind());
            limit = SILENCE;
        } else {
            other(&event);
        }
    }
    Ok(kinds)
}
