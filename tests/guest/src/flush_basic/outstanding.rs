// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause

//! Full queues of one queue pair.

use guest::clog::Clog;
use guest::death::Death;
use guest::links::Device;
use guest::pair::{Bench, Retry};
use guest::roll::Roll;
use guest::scene::{Plan, SMALL, Scene};
use guest::suite::{Outcome, Suite};
use guest::verbs::{Caps, Qp, SendWr, Transport, sys};

/// Requests in each queue.
const COUNT: usize = 40;

pub(super) fn add(suite: &mut Suite) {
    for device in Device::ALL {
        suite.on("flush_basic", device, "two_cqs", |device| {
            flush(device, Plan::PLAIN)
        });
        suite.on("flush_basic", device, "one_cq", |device| {
            flush(device, Plan::ONE_CQ)
        });
        suite
            .on("flush_basic", device, "fields", fields)
            .beyond_stock(device.pick(Some("a flushed receive says IBV_WC_SEND"), None));
        suite.on("flush_basic", device, "after_success", after_success);
    }
    for (name, transport) in [
        ("uc_receives", Transport::Uc),
        ("ud_receives", Transport::Ud),
    ] {
        suite.on("flush_basic", Device::Rxe, name, move |_| {
            receives_of(transport)
        });
    }
}

/// One list for each queue: SENDs, WRITEs and READs, inline or not, signaled or not.
fn fill(scene: &Scene) -> Outcome {
    let sge = [scene.near.sge(0, SMALL)];
    let kinds = [
        SendWr::send(&sge),
        SendWr::write(&sge, scene.far),
        SendWr::read(&sge, scene.far),
        SendWr::send(&sge).inline(),
        SendWr::write(&sge, scene.far).inline(),
    ];
    let mut list = Vec::new();
    for (at, kind) in kinds.iter().cycle().take(COUNT).enumerate() {
        let wr = kind.clone();
        let wr = if at % 2 == 0 { wr.signaled() } else { wr };
        list.push(scene.roll.send(scene.sends, wr));
    }
    scene.victim.qp.post_send(&list)?;
    scene.post_recvs(COUNT)
}

/// Nothing has succeeded, so all of it is flushed, unsignaled sends too.
fn flush(device: Device, plan: Plan) -> Outcome {
    flush_on(&Scene::set(device, Death::ModifyErr, plan)?)
}

fn flush_on(scene: &Scene) -> Outcome {
    let _clog = Clog::post(scene)?;
    fill(scene)?;
    scene.roll.demand_all(scene.sends);
    scene.victim.qp.move_to(sys::IBV_QPS_ERR)?;
    scene.settle()?;
    scene.roll.assert_flushed(scene.recvs);
    scene.roll.assert_flushed(scene.sends);
    Ok(())
}

/// The opcode tells sends from receives, and SENDs from WRITEs and READs.
fn fields(device: Device) -> Outcome {
    let scene = Scene::set(device, Death::ModifyErr, Plan::ONE_CQ)?;
    scene.roll.insist_on_opcodes();
    flush_on(&scene)
}

/// Half of the receives are used, then the rest is flushed.
fn after_success(device: Device) -> Outcome {
    let scene = Scene::set(device, Death::ModifyErr, Plan::PLAIN)?;
    scene.post_recvs(COUNT)?;
    let half = COUNT / 2;
    let message = SendWr::send(&[scene.near.sge(0, SMALL)]).signaled();
    for _ in 0..half {
        let peer = scene.peer();
        peer.qp.post_send(std::slice::from_ref(&message))?;
        peer.send_cq.take_one()?.ok();
    }
    scene.victim.qp.move_to(sys::IBV_QPS_ERR)?;
    scene.settle()?;
    scene.roll.assert_flushed_from(scene.recvs, half);
    let succeeded = scene.roll.statuses(scene.recvs)[..half]
        .iter()
        .all(|&status| status == Some(sys::IBV_WC_SUCCESS));
    assert!(succeeded, "a message that arrived was flushed");
    Ok(())
}

/// The receives of rxe's other transports, which have no connection to lose.
fn receives_of(transport: Transport) -> Outcome {
    let bench = Bench::open(Device::Rxe)?;
    let init = bench.init(transport, Caps::default())?;
    let qp = Qp::create(&bench.pd, &init)?;
    bench.bring_up(&qp, qp.number(), Retry::PATIENT)?;
    let memory = bench.memory(256)?;
    let roll = Roll::new();
    let line = roll.recvs_of(&qp);
    qp.post_recv(&roll.recvs(line, COUNT, memory.sge(0, 256)))?;
    qp.move_to(sys::IBV_QPS_ERR)?;
    roll.settle(&[&init.recv_cq, &init.send_cq])?;
    roll.assert_flushed(line);
    Ok(())
}
