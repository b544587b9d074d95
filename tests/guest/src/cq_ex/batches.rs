// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause

//! Batches: how they begin and end, and what may be done in between.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Instant;

use guest::death::Death;
use guest::links::Device;
use guest::pair::End;
use guest::roll::patience;
use guest::scene::{Plan, Scene};
use guest::suite::{Outcome, Stop, Suite};
use guest::verbs::{Batch, SendWr, Transport, Wc, sys};

use super::{case, pair};

/// The fault of librxe 44.
pub(super) const ENDS_TWICE: &str =
    "ibv_next_poll that finds nothing ends the batch, and ibv_end_poll passes over a CQE more";

pub(super) fn add(suite: &mut Suite) {
    for device in Device::ALL {
        case(suite, device, "batch/ends", ends, Some(ENDS_TWICE));
        case(suite, device, "batch/is_cut", is_cut, Some(ENDS_TWICE));
        case(
            suite,
            device,
            "batch/goes_with_qp",
            goes_with_qp,
            Some("completions stay in the CQ when their QP goes"),
        );
        case(
            suite,
            device,
            "batch/verbs_inside",
            verbs_inside,
            Some(ENDS_TWICE),
        );
        case(
            suite,
            device,
            "batch/death_inside",
            death_inside,
            Some(ENDS_TWICE),
        );
        case(suite, device, "batch/shared", shared, Some(ENDS_TWICE));
        case(suite, device, "batch/threads", threads, Some(ENDS_TWICE)).within(60);
    }
    case(
        suite,
        Device::Rxe,
        "batch/resize_inside",
        resize_inside,
        Some("the CQ is locked"),
    );
}

fn victim(device: Device, plan: Plan) -> Result<Scene, Stop> {
    Scene::set(device, Death::ModifyErr, plan)
}

/// A dead victim with `count` completions due of its receive queue.
fn due(device: Device, count: usize) -> Result<Scene, Stop> {
    let scene = victim(device, Plan::EXTENDED)?;
    scene.post_recvs(count)?;
    Death::ModifyErr.inflict(&scene, 0)?;
    Ok(scene)
}

/// Begins a batch, for which there is something.
fn start(scene: &Scene) -> Result<Batch<'_>, Stop> {
    let begun = Instant::now();
    loop {
        match Batch::start(&scene.victim.recv_cq)? {
            Some(batch) => return Ok(batch),
            None if begun.elapsed() < patience() => thread::yield_now(),
            None => return Err(Stop::Fail("no completion".to_owned())),
        }
    }
}

/// Reads what a batch comes to behind the completion at which it is, and ends it.
fn read_rest(scene: &Scene, mut batch: Batch<'_>) -> Outcome {
    while batch.go_on()? {
        scene.roll.answer(&batch.wc());
    }
    Ok(())
}

/// A batch that has come to its end is ended, and the next begins with what came later.
fn ends(device: Device) -> Outcome {
    let scene = due(device, 10)?;
    for _ in 0..5 {
        while let Some(batch) = Batch::start(&scene.victim.recv_cq)? {
            scene.roll.answer(&batch.wc());
            read_rest(&scene, batch)?;
        }
        scene.post_recvs(3)?;
    }
    scene.settle()?;
    scene.roll.assert_flushed(scene.recvs);
    Ok(())
}

/// A batch may end anywhere, and whoever polls next goes on there, in a batch or not.
fn is_cut(device: Device) -> Outcome {
    let pair = pair(device, Transport::Rc, sys::IBV_WC_STANDARD_FLAGS)?;
    let memory = pair.bench.memory(8)?;
    let write = SendWr::write(&[memory.sge(0, 8)], memory.remote(0)).signaled();
    let list: Vec<_> = (0..30).map(|id| write.clone().id(id)).collect();
    pair.a.qp.post_send(&list)?;
    let cq = &pair.a.send_cq;
    let mut next = 0;
    let mut length = 0;
    let begun = Instant::now();
    while next < 30 && begun.elapsed() < patience() {
        if let Some(mut batch) = Batch::start(cq)? {
            length += 1;
            for at in 0..length {
                assert_eq!(batch.wc().ok().wr_id, next);
                next += 1;
                if at + 1 < length && !batch.go_on()? {
                    break;
                }
            }
        }
        let mut room = [Wc::untouched(); 2];
        let count = cq.poll_plainly(&mut room)?;
        for wc in &room[..count] {
            assert_eq!(wc.ok().wr_id, next);
            next += 1;
        }
    }
    assert_eq!(next, 30, "completions");
    Ok(())
}

/// What a batch has not come to when it ends is gone with its QP.
fn goes_with_qp(device: Device) -> Outcome {
    let pair = pair(device, Transport::Rc, sys::IBV_WC_STANDARD_FLAGS)?;
    let memory = pair.bench.memory(16)?;
    memory.write(0, &[0]);
    memory.write(8, &[1]);
    let write = SendWr::write(&[memory.sge(1, 1)], memory.remote(2)).signaled();
    let mut list: Vec<_> = (0..8).map(|id| write.clone().id(id)).collect();
    list.push(SendWr::read(&[memory.sge(0, 1)], memory.remote(8)).signaled());
    pair.a.qp.post_send(&list)?;
    // The writes have completed before the read's data is there.
    let begun = Instant::now();
    while memory.read(0..1) != [1] && begun.elapsed() < patience() {
        thread::yield_now();
    }
    let End { qp, send_cq, .. } = pair.a;
    let batch = Batch::start(&send_cq)?.ok_or(Stop::Fail("no completion".to_owned()))?;
    assert_eq!(batch.wc().ok().wr_id, 0);
    drop(batch);
    drop(qp);
    assert!(send_cq.poll_one()?.is_none(), "polled plainly");
    assert!(Batch::start(&send_cq)?.is_none(), "polled in a batch");
    Ok(())
}

/// In a batch, an application may post, arm, query, and poll another way.
fn verbs_inside(device: Device) -> Outcome {
    let scene = due(device, 6)?;
    let cq = &scene.victim.recv_cq;
    let mut batch = start(&scene)?;
    scene.roll.answer(&batch.wc());
    scene.post_recvs(3)?;
    scene.post_sends(3)?;
    scene.roll.demand_all(scene.sends);
    cq.arm(false)?;
    scene.victim.qp.query_state()?;
    assert!(batch.go_on()?);
    scene.roll.answer(&batch.wc());
    let mut room = [Wc::untouched(); 2];
    let count = cq.poll_plainly(&mut room)?;
    for wc in &room[..count] {
        scene.roll.answer(wc);
    }
    read_rest(&scene, batch)?;
    scene.settle()
}

/// A QP dies while a batch of its CQ is read, and what is posted then is flushed, in the same batch.
fn death_inside(device: Device) -> Outcome {
    let scene = victim(device, Plan::EXTENDED)?;
    let memory = &scene.near;
    // siw's receives complete when the peer has sent, so both have something to begin with.
    scene.post_recvs(20)?;
    let message = SendWr::send(&[memory.sge(0, 8)]).signaled();
    scene.peer().qp.post_send(&[message])?;
    let batch = start(&scene)?;
    scene.roll.answer(&batch.wc());
    Death::ModifyErr.inflict(&scene, 0)?;
    scene.post_recvs(5)?;
    read_rest(&scene, batch)?;
    scene.settle()?;
    scene.roll.assert_flushed_from(scene.recvs, 1);
    scene.post_recvs(1)?;
    let batch = start(&scene)?;
    scene.roll.answer(&batch.wc());
    read_rest(&scene, batch)?;
    scene.settle()
}

/// A QP with an SRQ and one CQ for both its queues.
fn shared(device: Device) -> Outcome {
    let plan = Plan {
        shared: true,
        one_cq: true,
        ..Plan::EXTENDED
    };
    let scene = victim(device, plan)?;
    scene.post_recvs(10)?;
    scene.load_sends()?;
    Death::ModifyErr.inflict(&scene, 0)?;
    scene.post_sends(5)?;
    scene.roll.demand_all(scene.sends);
    scene.settle()
}

/// Three threads poll, two of them in batches, while a QP is at work and dies.
fn threads(device: Device) -> Outcome {
    let scene = victim(device, Plan::EXTENDED)?;
    scene.roll.ignore_order(scene.recvs);
    let is_over = AtomicBool::new(false);
    thread::scope(|scope| {
        let pollers = [true, true, false].map(|in_batches| {
            let (scene, is_over) = (&scene, &is_over);
            scope.spawn(move || poll_until(is_over, scene, in_batches))
        });
        let work = || -> Outcome {
            let message = SendWr::send(&[scene.near.sge(0, 8)]).signaled();
            for _ in 0..20 {
                scene.post_recvs(10)?;
                scene.peer().qp.post_send(&vec![message.clone(); 10])?;
                scene.peer().send_cq.take(10)?;
                while scene.roll.outstanding() > 30 {
                    thread::yield_now();
                }
            }
            scene.post_recvs(20)?;
            Death::ModifyErr.inflict(&scene, 0)?;
            scene.post_recvs(10)
        };
        let worked = work();
        let begun = Instant::now();
        while scene.roll.outstanding() > 0 && begun.elapsed() < patience() {
            thread::yield_now();
        }
        is_over.store(true, Ordering::SeqCst);
        for poller in pollers {
            poller
                .join()
                .unwrap_or_else(|_| panic!("a poller panics"))?;
        }
        worked
    })?;
    scene.settle()
}

fn poll_until(is_over: &AtomicBool, scene: &Scene, in_batches: bool) -> Outcome {
    let cq = &scene.victim.recv_cq;
    while !is_over.load(Ordering::SeqCst) {
        if in_batches {
            scene.roll.poll(cq)?;
        } else {
            let mut room = [Wc::untouched(); 3];
            let count = cq.poll_plainly(&mut room)?;
            for wc in &room[..count] {
                scene.roll.answer(wc);
            }
        }
        thread::yield_now();
    }
    Ok(())
}

/// The CQ is resized in the middle of a batch, of which the kernel has got nothing back.
fn resize_inside(device: Device) -> Outcome {
    let scene = due(device, 12)?;
    let cq = &scene.victim.recv_cq;
    let mut batch = start(&scene)?;
    for entries in [2000, 300, 12] {
        scene.roll.answer(&batch.wc());
        assert!(batch.go_on()?);
        scene.roll.answer(&batch.wc());
        cq.resize(entries)?;
        assert!(batch.go_on()?);
    }
    scene.roll.answer(&batch.wc());
    read_rest(&scene, batch)?;
    scene.settle()?;
    scene.roll.assert_flushed(scene.recvs);
    Ok(())
}
