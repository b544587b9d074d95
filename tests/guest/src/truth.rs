// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause

//! Theme `truth`: a dead queue pair says that it is.

use std::thread;

use guest::death::Death;
use guest::links::Device;
use guest::scene::{Plan, Scene};
use guest::suite::{Outcome, Suite};
use guest::verbs::sys;

/// Adds the cases of this theme.
pub(crate) fn add(suite: &mut Suite) {
    for device in Device::ALL {
        for &death in Death::all(device) {
            suite
                .case(
                    format!("truth/{device}/queried/{}", death.name()),
                    move || queried(device, death),
                )
                .beyond_stock(
                    device.pick(None, Some("6.1 has no answer, and SQD and SQE are others")),
                );
            suite
                .case(
                    format!("truth/{device}/cached/{}", death.name()),
                    move || cached(device, death),
                )
                .beyond_stock((!death.is_announced()).then_some("only modify and query write it"));
        }
    }
    suite.case("truth/rxe/alive", alive);
}

/// The victim is dead, and its application has seen a flushed request.
fn seen(device: Device, death: Death) -> Result<Scene, guest::suite::Stop> {
    let scene = Scene::set(device, death, Plan::PLAIN)?;
    scene.post_recvs(2)?;
    death.inflict(&scene, 0)?;
    scene.settle()?;
    Ok(scene)
}

/// What `ibv_query_qp` says.
fn queried(device: Device, death: Death) -> Outcome {
    let scene = seen(device, death)?;
    for _ in 0..2 {
        assert_eq!(scene.victim.qp.query_state()?, sys::IBV_QPS_ERR);
    }
    assert_eq!(scene.victim.qp.cached_state(), sys::IBV_QPS_ERR);
    Ok(())
}

/// What stands in `ibv_qp`, without a query.
fn cached(device: Device, death: Death) -> Outcome {
    let scene = seen(device, death)?;
    assert_eq!(scene.victim.qp.cached_state(), sys::IBV_QPS_ERR);
    Ok(())
}

/// A QP that lives says so in every state.
fn alive() -> Outcome {
    let scene = Scene::set(Device::Rxe, Death::ModifyErr, Plan::PLAIN)?;
    let qp = &scene.victim.qp;
    for state in [
        sys::IBV_QPS_SQD,
        sys::IBV_QPS_RTS,
        sys::IBV_QPS_ERR,
        sys::IBV_QPS_RESET,
    ] {
        qp.move_to(state)?;
        assert_eq!((qp.query_state()?, qp.cached_state()), (state, state));
        while qp.is_draining()? {
            thread::yield_now();
        }
    }
    Ok(())
}
