// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause

//! What the victim's application is told that reads events, and does nothing else.

use std::time::Duration;

use guest::companion;
use guest::events::{self, SILENCE};
use guest::load::Load;
use guest::scene::Scene;
use guest::suite::{Outcome, Stop};
use guest::verbs::sys;

/// How long the event may take. It is raised before the peer's completion is.
const PATIENCE: Duration = Duration::from_secs(2);

/// Why a request is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Why {
    /// What it names may not be accessed.
    Access,
    /// It is not valid.
    Request,
}

impl Why {
    fn event(self) -> sys::ibv_event_type {
        match self {
            Self::Access => sys::IBV_EVENT_QP_ACCESS_ERR,
            Self::Request => sys::IBV_EVENT_QP_REQ_ERR,
        }
    }

    /// The event that tells of it, if anything does.
    pub(super) fn event_if_told(self) -> Option<sys::ibv_event_type> {
        companion::is_loaded().then(|| self.event())
    }

    /// What the module counts it as.
    pub(super) fn counters(self) -> &'static [&'static str] {
        match self {
            Self::Access => &["access_error"],
            Self::Request => &["invalid_request"],
        }
    }
}

/// The events of the victim, so far.
#[derive(Debug)]
pub(super) struct Told(Vec<sys::ibv_event_type>);

impl Told {
    /// Checks that the victim is told of this error once, or of none, and its peer of none.
    pub(super) fn expect(scene: &Scene, error: Option<sys::ibv_event_type>) -> Result<Self, Stop> {
        let told = Self(listen(scene, error.map_or(SILENCE, |_| PATIENCE))?);
        let errors: Vec<_> = told.0.iter().copied().filter(is_error).collect();
        assert_eq!(errors, Vec::from_iter(error), "events {told:?}");
        Ok(told)
    }

    /// Checks that the last receive of a dead QP with an SRQ is told of once, if no error has been.
    pub(super) fn assert_last_wqe(mut self, scene: &Scene, load: Load) -> Outcome {
        self.0.extend(listen(scene, SILENCE)?);
        let is_last_wqe = |kind: &&_| **kind == sys::IBV_EVENT_QP_LAST_WQE_REACHED;
        let due = load == Load::Shared && !self.0.iter().any(is_error);
        let times = self.0.iter().filter(is_last_wqe).count();
        assert_eq!(times, usize::from(due), "events {self:?}");
        Ok(())
    }
}

fn is_error(kind: &sys::ibv_event_type) -> bool {
    [
        sys::IBV_EVENT_QP_FATAL,
        sys::IBV_EVENT_QP_REQ_ERR,
        sys::IBV_EVENT_QP_ACCESS_ERR,
    ]
    .contains(kind)
}

/// The kinds of the victim's events, until no more come.
fn listen(scene: &Scene, limit: Duration) -> Result<Vec<sys::ibv_event_type>, Stop> {
    events::kinds_of_victim(scene, limit, |event| {
        assert!(!scene.is_of_peer(event), "the peer has {event:?}");
    })
}
