// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause

//! Theme `responder`: rxe refuses what the peer asks for. The application, which only reads
//! asynchronous events, is told so once if no receive tells, and never otherwise.
//!
//! The kernel needs the companion module (`companion/`) for it. Without it nobody is told, and the cases
//! hold that; with it and without it, all that the QP was given to do completes.

mod load;
mod refusal;
mod reported;
mod told;

use guest::companion;
use guest::death::Death;
use guest::links::Device;
use guest::load::Load;
use guest::pair::Retry;
use guest::scene::{Plan, SMALL, Scene};
use guest::suite::{Outcome, Suite};
use guest::verbs::{SendWr, sys};

use refusal::Refusal;
use reported::Reported;
use told::{Told, Why};

/// Adds the cases of this theme.
pub(crate) fn add(suite: &mut Suite) {
    for refusal in Refusal::ALL {
        for load in Load::ALL {
            let name = format!("responder/rxe/{}/{}", refusal.name(), load.name());
            suite
                .case(name, move || refuse(refusal, load))
                .beyond_stock(load::stock_fault(load));
        }
    }
    for reported in Reported::ALL {
        for load in [Load::Full, Load::Shared] {
            let name = format!("responder/rxe/{}/{}", reported.name(), load.name());
            suite
                .case(name, move || report(reported, load))
                .beyond_stock(load::stock_fault(load));
        }
    }
    suite.case("responder/rxe/no_receive", || no_receive(Plan::PLAIN));
    suite.case("responder/rxe/no_receive/shared", || {
        no_receive(Plan::SHARED)
    });
    suite.case("responder/rxe/again_after_reset", again_after_reset);
    suite.case("responder/rxe/moved_to_err", moved_to_err);
}

/// A victim whose peer is in this process.
fn victim(plan: Plan) -> Result<Scene, guest::suite::Stop> {
    Scene::set(Device::Rxe, Death::Violated, plan)
}

/// No receive tells: the module does.
fn refuse(refusal: Refusal, load: Load) -> Outcome {
    let scene = victim(load.plan())?;
    let target = refusal.prepare(&scene)?;
    load::give(load, &scene)?;
    let before = companion::count(refusal.why().counters())?;
    refusal.ask(&scene, target.remote)?;
    let told = Told::expect(&scene, refusal.why().event_if_told())?;
    if let Some(before) = before {
        let after = companion::count(refusal.why().counters())?;
        assert_eq!(after, Some(before + 1), "counted");
    }
    load::assert_flushed(load, &scene)?;
    told.assert_last_wqe(&scene, load)
}

/// A receive completes with the error, so that there is no event for it.
fn report(reported: Reported, load: Load) -> Outcome {
    let scene = victim(load.plan())?;
    let counters = [Why::Access, Why::Request].map(Why::counters).concat();
    let before = companion::count(&counters)?;
    reported.provoke(&scene)?;
    let told = Told::expect(&scene, None)?;
    assert_eq!(companion::count(&counters)?, before, "counted");
    assert_eq!(scene.victim.qp.query_state()?, sys::IBV_QPS_ERR);
    scene.settle()?;
    let statuses = scene.roll.statuses(scene.recvs);
    let is_told = |status: &Option<_>| {
        status.is_some_and(|status| {
            status != sys::IBV_WC_SUCCESS && status != sys::IBV_WC_WR_FLUSH_ERR
        })
    };
    assert!(statuses.first().is_some_and(is_told), "{statuses:?}");
    told.assert_last_wqe(&scene, load)
}

/// A message that finds no receive is asked for again: nothing is wrong with the QP.
fn no_receive(plan: Plan) -> Outcome {
    let scene = victim(plan)?;
    let send = SendWr::send(&[scene.near.sge(0, SMALL)]);
    scene.peer().qp.post_send(&[send.signaled()])?;
    drop(Told::expect(&scene, None)?);
    assert_eq!(scene.victim.qp.query_state()?, sys::IBV_QPS_RTS);
    Ok(())
}

/// A QP that lives again can be told of another refusal.
fn again_after_reset() -> Outcome {
    let refusal = Refusal::ALL[0];
    let scene = victim(Plan::PLAIN)?;
    let (victim, peer) = (&scene.victim.qp, &scene.peer().qp);
    for _ in 0..3 {
        let target = refusal.prepare(&scene)?;
        refusal.ask(&scene, target.remote)?;
        drop(Told::expect(&scene, refusal.why().event_if_told())?);
        for (qp, other) in [(victim, peer), (peer, victim)] {
            qp.move_to(sys::IBV_QPS_RESET)?;
            scene.bench.bring_up(qp, other.number(), Retry::PATIENT)?;
        }
    }
    drop(Told::expect(&scene, None)?);
    Ok(())
}

/// A QP that its application moves to ERR has refused nothing.
fn moved_to_err() -> Outcome {
    let scene = victim(Plan::PLAIN)?;
    load::give(Load::Full, &scene)?;
    scene.victim.qp.move_to(sys::IBV_QPS_ERR)?;
    drop(Told::expect(&scene, None)?);
    load::assert_flushed(Load::Full, &scene)
}
