// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause

//! Theme `resize_cq`: a CQ gets another size, and nothing that completes on it is lost, doubled or out of
//! order.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Instant;

use guest::death::Death;
use guest::links::Device;
use guest::pair::Bench;
use guest::scene::{Plan, SMALL, Scene};
use guest::sleeper::{Bed, Sleeper};
use guest::suite::{Outcome, Stop, Suite};
use guest::verbs::{PATIENCE, SendWr, errno};

/// What libsiw lacks.
const NONE: &str = "libsiw has no ibv_resize_cq";

/// Entries of the victim's CQs at first.
const ENTRIES: i32 = 64;

const PLAN: Plan = Plan {
    cq_depth: 64,
    queue_depth: 512,
    ..Plan::PLAIN
};

/// Adds the cases of this theme.
pub(crate) fn add(suite: &mut Suite) {
    for device in Device::ALL {
        let beyond = device.pick(None, Some(NONE));
        suite
            .on("resize_cq", device, "sizes", sizes)
            .beyond_stock(beyond);
        suite
            .on("resize_cq", device, "out_of_range", out_of_range)
            .beyond_stock(beyond);
        suite
            .on("resize_cq", device, "below_unread", below_unread)
            .beyond_stock(beyond);
        suite
            .on("resize_cq", device, "flush_due", flush_due)
            .beyond_stock("a receive that is posted to a dead QP never completes");
        suite
            .on("resize_cq", device, "sleeper", sleeper)
            .beyond_stock(beyond);
    }
    suite.on("resize_cq", Device::Rxe, "unread_survive", unread_survive);
    suite
        .on("resize_cq", Device::Rxe, "while_polled", while_polled)
        .within(60);
    suite.on("resize_cq", Device::Siw, "no_room", no_room);
}

fn victim(device: Device) -> Result<Scene, Stop> {
    Scene::set(device, Death::ModifyErr, PLAN)
}

/// The peer sends `count` messages, whose receives complete before its sends do.
fn messages(scene: &Scene, count: usize) -> Outcome {
    scene.post_recvs(count)?;
    let peer = scene.peer();
    let message = SendWr::send(&[scene.near.sge(0, SMALL)]).signaled();
    // No more at a time than the peer's CQ holds.
    for chunk in vec![message; count].chunks(16) {
        peer.qp.post_send(chunk)?;
        for wc in peer.send_cq.take(chunk.len())? {
            wc.ok();
        }
    }
    Ok(())
}

/// A size is taken, up and down, and said to be that or more.
fn sizes(device: Device) -> Outcome {
    let bench = Bench::open(device)?;
    let cq = bench.cq(ENTRIES as usize)?;
    assert!(cq.entries() >= ENTRIES);
    // siw's CQ has room for half more than it was created for.
    let up = device.pick(1000, ENTRIES + ENTRIES / 4);
    for entries in [up, 1, ENTRIES, up, 2] {
        cq.resize(entries)?;
        let has = cq.entries();
        assert!(has >= entries, "asked for {entries}, has {has}");
    }
    Ok(())
}

/// A size that no CQ of the device has is refused, and the CQ keeps its own.
fn out_of_range(device: Device) -> Outcome {
    let scene = victim(device)?;
    let max = scene.context().limits()?.max_cqe;
    let cq = &scene.victim.recv_cq;
    let entries = cq.entries();
    for size in [0, -1, i32::MIN, max + 1, i32::MAX] {
        let said = errno(cq.resize(size));
        assert_eq!(said, Some(libc::EINVAL), "{size} entries");
        assert_eq!(cq.entries(), entries);
    }
    if device == Device::Rxe {
        cq.resize(max)?;
        messages(&scene, 10)?;
    } else {
        scene.post_recvs(10)?;
        Death::ModifyErr.inflict(&scene, 0)?;
    }
    scene.settle()
}

/// What is unread goes along, to a larger ring and to a smaller one.
fn unread_survive(device: Device) -> Outcome {
    let scene = victim(device)?;
    let cq = &scene.victim.recv_cq;
    let mut unread = 0;
    for (more, entries) in [(40, 300), (200, 1000), (10, 250), (0, 251), (1, 5000)] {
        if more > 0 {
            messages(&scene, more)?;
        }
        unread += more;
        cq.resize(entries)?;
        assert_eq!(scene.roll.outstanding(), unread);
    }
    scene.settle()?;
    // The ring is in use on both sides of its end.
    for entries in [40, 64, 33, 100] {
        cq.resize(entries)?;
        for _ in 0..5 {
            messages(&scene, 30)?;
            scene.roll.poll(cq)?;
            cq.resize(entries)?;
            scene.settle()?;
        }
    }
    Ok(())
}

/// A size below the number of unread completions is refused, and costs none.
fn below_unread(device: Device) -> Outcome {
    let scene = victim(device)?;
    let cq = &scene.victim.recv_cq;
    if device == Device::Rxe {
        messages(&scene, 20)?;
    } else {
        scene.post_recvs(20)?;
        Death::ModifyErr.inflict(&scene, 0)?;
    }
    let entries = cq.entries();
    for size in [1, 10, 19] {
        let said = errno(cq.resize(size));
        assert_eq!(said, Some(libc::EINVAL), "{size} entries for 20 unread");
        assert_eq!(cq.entries(), entries);
    }
    cq.resize(20)?;
    scene.settle()
}

/// What the library has flushed, in no ring of the kernel's, is there after a resize.
fn flush_due(device: Device) -> Outcome {
    let scene = victim(device)?;
    scene.post_recvs(10)?;
    Death::ModifyErr.inflict(&scene, 0)?;
    scene.post_recvs(200)?;
    let up = device.pick(500, ENTRIES + ENTRIES / 4);
    for entries in [up, ENTRIES] {
        scene.victim.recv_cq.resize(entries)?;
        scene.roll.poll(&scene.victim.recv_cq)?;
        scene.post_recvs(20)?;
    }
    scene.settle()?;
    scene.roll.assert_flushed(scene.recvs);
    Ok(())
}

/// A CQ stays armed.
fn sleeper(device: Device) -> Outcome {
    let scene = victim(device)?;
    scene.post_recvs(10)?;
    let cq = &scene.victim.recv_cq;
    let sleeper = Sleeper::start(&scene.roll, &scene.channel, &[cq], false, Bed::GetCqEvent)?;
    cq.resize(device.pick(500, ENTRIES + ENTRIES / 4))?;
    Death::ModifyErr.inflict(&scene, 0)?;
    sleeper.settle()?;
    cq.resize(ENTRIES)?;
    assert!(sleeper.wakes() > 0, "nobody slept");
    Ok(())
}

/// One thread resizes, another polls, and the traffic goes on, until the QP dies.
fn while_polled(device: Device) -> Outcome {
    let scene = victim(device)?;
    let cq = &scene.victim.recv_cq;
    let is_over = AtomicBool::new(false);
    thread::scope(|scope| {
        let poller = scope.spawn(|| -> Outcome {
            while !is_over.load(Ordering::SeqCst) {
                scene.roll.poll(cq)?;
            }
            Ok(())
        });
        let resizer = scope.spawn(|| -> Result<usize, Stop> {
            let mut resizes = 0;
            while !is_over.load(Ordering::SeqCst) {
                for entries in [64, 300, 100, 2000] {
                    match cq.resize(entries) {
                        Err(error) if error.raw_os_error() != Some(libc::EINVAL) => {
                            return Err(error.into());
                        }
                        resized => resizes += usize::from(resized.is_ok()),
                    }
                    thread::yield_now();
                }
            }
            Ok(resizes)
        });
        let sent = (0..30).try_for_each(|_| {
            messages(&scene, 60)?;
            // The smallest CQ holds no more.
            let start = Instant::now();
            while scene.roll.outstanding() > 0 && start.elapsed() < PATIENCE {
                thread::yield_now();
            }
            Ok(())
        });
        let dead = sent.and_then(|()| {
            scene.post_recvs(60)?;
            Death::ModifyErr.inflict(&scene, 0)
        });
        is_over.store(true, Ordering::SeqCst);
        let polled = poller
            .join()
            .unwrap_or_else(|_| panic!("the poller panics"));
        let resizes = resizer
            .join()
            .unwrap_or_else(|_| panic!("the resizer panics"))?;
        assert!(resizes > 0, "no resize");
        dead.and(polled)
    })?;
    scene.settle()
}

/// siw's kernel cannot replace a ring: a size beyond its room is refused, and the CQ goes on.
fn no_room(device: Device) -> Outcome {
    let scene = victim(device)?;
    let cq = &scene.victim.recv_cq;
    let entries = cq.entries();
    let said = errno(cq.resize(4096));
    assert_eq!(said, Some(libc::EOPNOTSUPP));
    assert_eq!(cq.entries(), entries);
    scene.post_recvs(20)?;
    Death::ModifyErr.inflict(&scene, 0)?;
    scene.settle()
}
