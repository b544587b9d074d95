// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause

//! What a draft has posted, or posts, when the QP dies: each request completes once and in order.

use guest::death::Death;
use guest::links::Device;
use guest::pair::Bench;
use guest::roll::Roll;
use guest::scene::{DEPTH, Plan, SMALL, Scene};
use guest::sleeper::{Bed, Sleeper};
use guest::suite::{Outcome, Stop, Suite};
use guest::verbs::{Caps, Qp, SendWr, Transport, sys};

use super::{case, init};

pub(super) fn add(suite: &mut Suite) {
    for device in Device::ALL {
        for &death in Death::all(device) {
            let name = |part| format!("{}/{part}", death.name());
            case(suite, device, &name("outstanding"), move |device| {
                outstanding(device, death)
            });
            case(suite, device, &name("later"), move |device| {
                later(device, death)
            });
            case(suite, device, &name("sleeper"), move |device| {
                sleeper(device, death)
            });
        }
        case(suite, device, "later_kinds", later_kinds);
        case(suite, device, "later_to_the_depth", to_the_depth).beyond_stock(device.pick(
            Some("the kernel flushes sends into the CQ before they are polled, and overruns it"),
            Some(super::NONE),
        ));
        case(suite, device, "dead_meanwhile", dead_meanwhile);
        case(suite, device, "refused_before_rts", before_rts).beyond_stock(device.pick(
            Some("the refused send stays in the ring"),
            Some(super::NONE),
        ));
    }
}

fn outstanding(device: Device, death: Death) -> Outcome {
    let scene = Scene::set(device, death, Plan::BY_DRAFT)?;
    scene.post_recvs(20)?;
    if !death.is_by_send(device) {
        scene.load_sends()?;
    }
    death.inflict(&scene, 10)?;
    scene.settle()
}

fn later(device: Device, death: Death) -> Outcome {
    let scene = Scene::set(device, death, Plan::BY_DRAFT)?;
    death.inflict(&scene, 0)?;
    for count in [10, 1, 16] {
        scene.post_sends(count)?;
        scene.settle()?;
    }
    Ok(())
}

/// It has only ever slept, and is woken for what was outstanding, and for what is posted later.
fn sleeper(device: Device, death: Death) -> Outcome {
    let scene = Scene::set(device, death, Plan::BY_DRAFT)?;
    if !death.is_by_send(device) {
        scene.load_sends()?;
    }
    let cqs = [&scene.victim.send_cq, &scene.victim.recv_cq];
    let sleeper = Sleeper::start(&scene.roll, &scene.channel, &cqs, false, Bed::GetCqEvent)?;
    death.inflict(&scene, 10)?;
    sleeper.settle()?;
    scene.post_sends(2)?;
    sleeper.settle()
}

/// A QP that was connected, had nothing to do, and is dead.
fn dead(device: Device) -> Result<Scene, Stop> {
    let scene = Scene::set(device, Death::ModifyErr, Plan::BY_DRAFT)?;
    Death::ModifyErr.inflict(&scene, 0)?;
    Ok(scene)
}

/// Every kind, signaled or not, inline or not, and both APIs by turns.
fn later_kinds(device: Device) -> Outcome {
    let scene = dead(device)?;
    let sge = [scene.near.sge(0, SMALL)];
    let kinds = [
        SendWr::send(&sge),
        SendWr::write(&sge, scene.far),
        SendWr::read(&sge, scene.far),
        SendWr::send(&sge).inline(),
        SendWr::local_invalidate(0x1234),
    ];
    for (at, kind) in kinds.iter().cycle().take(40).enumerate() {
        let wr = kind.clone();
        let wr = if at % 3 == 0 { wr.signaled() } else { wr };
        let list = [scene.roll.send(scene.sends, wr)];
        if at % 2 == 0 {
            scene.victim.qp.post_draft(&list)?;
        } else {
            scene.victim.qp.post_send(&list)?;
        }
        scene.roll.demand_all(scene.sends);
        scene.settle()?;
    }
    scene.roll.assert_flushed(scene.sends);
    Ok(())
}

/// A dead queue takes as much as a living one; a draft that is longer than the rest is refused whole.
fn to_the_depth(device: Device) -> Outcome {
    let scene = dead(device)?;
    let too_long = vec![SendWr::send(&[scene.near.sge(0, SMALL)]).id(u64::MAX); 200];
    for _ in 0..3 {
        scene.post_sends(DEPTH as usize - 5)?;
        let said = scene.victim.qp.post_draft(&too_long);
        assert_eq!(said.map_err(|refused| refused.returned), Err(libc::ENOMEM));
        scene.post_sends(5)?;
        scene.roll.demand_all(scene.sends);
        scene.settle()?;
    }
    scene.roll.assert_flushed(scene.sends);
    Ok(())
}

/// The QP dies while a draft is built: it is accepted, and flushed, or aborted, and not.
fn dead_meanwhile(device: Device) -> Outcome {
    for complete in [true, false] {
        let scene = Scene::set(device, Death::ModifyErr, Plan::BY_DRAFT)?;
        scene.post_recvs(3)?;
        let write = SendWr::write(&[scene.near.sge(0, SMALL)], scene.far).signaled();
        let draft = scene.victim.qp.draft();
        if complete {
            for wr in scene.roll.sends(scene.sends, 10, &write) {
                draft.add(&wr);
            }
        } else {
            (0..10).for_each(|_| draft.add(&write.clone().id(u64::MAX)));
        }
        scene.victim.qp.move_to(sys::IBV_QPS_ERR)?;
        if complete {
            draft.complete()?;
        } else {
            draft.abort();
        }
        scene.settle()?;
        scene.post_sends(2)?;
        scene.settle()?;
        scene.roll.assert_flushed(scene.sends);
    }
    Ok(())
}

/// Refused in RESET, INIT and RTR; nothing of it is left for RTS, nor for ERR.
fn before_rts(device: Device) -> Outcome {
    let bench = Bench::open(device)?;
    let memory = bench.memory(64)?;
    let roll = Roll::new();
    let (a, b) = (
        init(&bench, Transport::Rc, Caps::default())?,
        init(&bench, Transport::Rc, Caps::default())?,
    );
    let refuse = |qp: &Qp| -> Outcome {
        let wr = SendWr::write(&[memory.sge(0, SMALL)], memory.remote(SMALL));
        let said = qp.post_draft(&vec![wr.id(u64::MAX).signaled(); 2]);
        assert_eq!(
            said.map_err(|refused| refused.returned),
            Err(libc::EINVAL),
            "in state {}",
            qp.cached_state()
        );
        Ok(())
    };
    let (qp, peer) = bench.connect_watched(&a, &b, refuse)?;
    let (sends, recvs) = (roll.sends_of(&qp), roll.recvs_of(&peer));
    let cqs = [&*a.send_cq, &*a.recv_cq, &*b.send_cq, &*b.recv_cq];
    peer.post_recv(&roll.recvs(recvs, 20, memory.sge(0, SMALL)))?;
    let send = SendWr::send(&[memory.sge(0, SMALL)]).signaled();
    qp.post_draft(&roll.sends(sends, 20, &send))?;
    roll.settle(&cqs)?;
    qp.move_to(sys::IBV_QPS_ERR)?;
    roll.settle(&cqs)
}
