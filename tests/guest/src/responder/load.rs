// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause

//! What the victim has to do when its responder refuses a request.

use guest::load::Load;
use guest::scene::Scene;
use guest::suite::Outcome;
use guest::verbs::sys;

/// Receives, of a QP or an SRQ.
const RECVS: usize = 10;

/// What the stock provider does wrong, with the module and without it.
pub(super) fn stock_fault(load: Load) -> Option<&'static str> {
    (load == Load::Shared)
        .then_some("LAST_WQE_REACHED is missing (6.1), or comes after an error (6.12)")
}

/// Posts it.
pub(super) fn give(load: Load, scene: &Scene) -> Outcome {
    if load != Load::Empty {
        scene.post_recvs(RECVS)?;
    }
    if load == Load::Full {
        scene.load_sends()?;
    }
    Ok(())
}

/// Checks that the victim is dead and has completed all of it, and left the SRQ what is the SRQ's.
pub(super) fn assert_flushed(load: Load, scene: &Scene) -> Outcome {
    assert_eq!(scene.victim.qp.query_state()?, sys::IBV_QPS_ERR);
    scene.settle()?;
    if load == Load::Full {
        scene.roll.assert_flushed(scene.sends);
        scene.roll.assert_flushed(scene.recvs);
    }
    if load == Load::Shared {
        assert_eq!(scene.roll.answered(scene.recvs), 0, "taken from the SRQ");
    }
    Ok(())
}
