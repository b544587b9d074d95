// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause

//! What the victim has to do when its responder refuses a request.

use guest::scene::{Plan, Scene};
use guest::suite::Outcome;
use guest::verbs::sys;

/// A load.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Load {
    /// Nothing.
    Empty,
    /// Sends and receives.
    Full,
    /// Its receives come from an SRQ.
    Shared,
}

/// Receives, of a QP or an SRQ.
const RECVS: usize = 10;

impl Load {
    pub(super) const ALL: [Self; 3] = [Self::Empty, Self::Full, Self::Shared];

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Empty => "empty",
            Self::Full => "full",
            Self::Shared => "shared",
        }
    }

    pub(super) fn plan(self) -> Plan {
        match self {
            Self::Shared => Plan::SHARED,
            Self::Empty | Self::Full => Plan::PLAIN,
        }
    }

    /// What the stock provider does wrong, with the module and without it.
    pub(super) fn stock_fault(self) -> Option<&'static str> {
        (self == Self::Shared)
            .then_some("LAST_WQE_REACHED is missing (6.1), or comes after an error (6.12)")
    }

    /// Posts it.
    pub(super) fn give(self, scene: &Scene) -> Outcome {
        if self != Self::Empty {
            scene.post_recvs(RECVS)?;
        }
        if self == Self::Full {
            scene.load_sends()?;
        }
        Ok(())
    }

    /// Checks that the victim is dead and has completed all of it, and left the SRQ what is the SRQ's.
    pub(super) fn assert_flushed(self, scene: &Scene) -> Outcome {
        assert_eq!(scene.victim.qp.query_state()?, sys::IBV_QPS_ERR);
        scene.settle()?;
        if self == Self::Full {
            scene.roll.assert_flushed(scene.sends);
            scene.roll.assert_flushed(scene.recvs);
        }
        if self == Self::Shared {
            assert_eq!(scene.roll.answered(scene.recvs), 0, "taken from the SRQ");
        }
        Ok(())
    }
}
