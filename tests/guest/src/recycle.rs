// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause

//! Theme `recycle`: what a queue pair has left behind when it is reset or destroyed is gone, and
//! nobody who comes after it meets it.

use std::sync::Arc;

use guest::links::Device;
use guest::pair::{Bench, Retry};
use guest::roll::{LineId, Roll};
use guest::scene::SMALL;
use guest::suite::{Outcome, Stop, Suite};
use guest::verbs::{Caps, Cq, Mr, Qp, QpInit, RecvWr, SendWr, Srq, Transport, sys};

/// The fault of both stock providers.
const STALE: &str = "completions stay in the CQ when their QP goes";

/// Adds the cases of this theme.
pub(crate) fn add(suite: &mut Suite) {
    suite
        .on("recycle", Device::Rxe, "reset_unacked", reset_unacked)
        .beyond_stock("6.12: the requester walks over what was posted before the reset");
    suite
        .on("recycle", Device::Rxe, "reset_unpolled", reset_unpolled)
        .beyond_stock(STALE);
    suite
        .on("recycle", Device::Rxe, "reset_by_err", reset_by_err)
        .beyond_stock(STALE);
    suite
        .on("recycle", Device::Siw, "reset", reset)
        .beyond_stock("the kernel ignores the move");
    for device in Device::ALL {
        suite
            .on("recycle", device, "destroy_unpolled", destroy_unpolled)
            .beyond_stock(STALE);
        suite
            .on("recycle", device, "next_qp", next_qp)
            .beyond_stock(STALE);
        suite
            .on("recycle", device, "cq_in_use", cq_in_use)
            .beyond_stock(device.pick(None, Some("it unmaps the CQ before it asks the kernel")));
        suite.on("recycle", device, "srq_in_use", srq_in_use);
    }
}

/// QPs that share one CQ, and the roll of what they do.
struct Plant {
    bench: Bench,
    cq: Arc<Cq>,
    init: QpInit,
    memory: Mr,
    roll: Roll,
}

/// One of them, and its peer, whose CQs are its own.
struct Worker {
    qp: Qp,
    peer: Qp,
    peer_sends: Arc<Cq>,
    peer_recvs: Arc<Cq>,
    sends: LineId,
    recvs: LineId,
}

impl Plant {
    fn new(device: Device) -> Result<Self, Stop> {
        let bench = Bench::open(device)?;
        let cq = bench.cq(512)?;
        let init = QpInit {
            send_cq: Arc::clone(&cq),
            recv_cq: Arc::clone(&cq),
            ..bench.init(Transport::Rc, Caps::default())?
        };
        Ok(Self {
            memory: bench.memory(64)?,
            cq,
            init,
            roll: Roll::new(),
            bench,
        })
    }

    fn worker(&self) -> Result<Worker, Stop> {
        let far = self.bench.init(Transport::Rc, Caps::default())?;
        let (qp, peer) = self.bench.connect(&self.init, &far)?;
        Ok(Worker {
            sends: self.roll.sends_of(&qp),
            recvs: self.roll.recvs_of(&qp),
            qp,
            peer,
            peer_sends: far.send_cq,
            peer_recvs: far.recv_cq,
        })
    }

    fn write(&self) -> SendWr<'_> {
        SendWr::write(&[self.memory.sge(0, SMALL)], self.memory.remote(SMALL)).signaled()
    }

    fn post_recvs(&self, worker: &Worker, count: usize) -> Outcome {
        let list = self
            .roll
            .recvs(worker.recvs, count, self.memory.sge(0, SMALL));
        Ok(worker.qp.post_recv(&list)?)
    }

    fn post_writes(&self, worker: &Worker, count: usize) -> Outcome {
        let list = self.roll.sends(worker.sends, count, &self.write());
        Ok(worker.qp.post_send(&list)?)
    }

    /// Work that completes, and is there to be polled when this returns.
    fn complete_work(&self, worker: &Worker) -> Outcome {
        self.post_recvs(worker, 8)?;
        let message = SendWr::send(&[self.memory.sge(0, SMALL)]).signaled();
        worker.peer.post_send(&vec![message; 8])?;
        for wc in worker.peer_sends.take(8)? {
            wc.ok();
        }
        self.post_writes(worker, 8)
    }

    fn settle(&self) -> Outcome {
        self.roll.settle(&[&self.cq])
    }

    /// Says that the worker's queues are gone.
    fn withdraw(&self, worker: &Worker) {
        self.roll.withdraw(worker.sends);
        self.roll.withdraw(worker.recvs);
    }
}

/// Connects an rxe worker anew, after a reset. Its peer then takes SENDs and nothing else, so that a
/// WRITE nobody has posted kills them.
fn reconnect(plant: &Plant, worker: &Worker) -> Outcome {
    worker.peer.move_to(sys::IBV_QPS_RESET)?;
    plant
        .bench
        .bring_up(&worker.peer, worker.qp.number(), Retry::PATIENT)?;
    let no_access = sys::ibv_qp_attr::default();
    worker.peer.modify(no_access, sys::IBV_QP_ACCESS_FLAGS)?;
    plant
        .bench
        .bring_up(&worker.qp, worker.peer.number(), Retry::PATIENT)
}

/// Messages both ways, which must be all that completes.
fn talk(plant: &Plant, worker: &Worker) -> Outcome {
    let sge = plant.memory.sge(0, SMALL);
    let recvs: Vec<_> = (0..20).map(|at| RecvWr::new(at, &[sge])).collect();
    worker.peer.post_recv(&recvs)?;
    let send = SendWr::send(&[sge]).signaled();
    let list = plant.roll.sends(worker.sends, 20, &send);
    worker.qp.post_send(&list)?;
    for (wr_id, wc) in (0..).zip(worker.peer_recvs.take(20)?) {
        assert_eq!(wc.ok().wr_id, wr_id);
    }
    plant.post_recvs(worker, 20)?;
    worker.peer.post_send(&vec![send; 20])?;
    for wc in worker.peer_sends.take(20)? {
        wc.ok();
    }
    plant.settle()
}

/// RESET with sends under way, whose receiver never posts.
fn reset_unacked(device: Device) -> Outcome {
    let plant = Plant::new(device)?;
    let worker = plant.worker()?;
    let send = SendWr::send(&[plant.memory.sge(0, SMALL)]).signaled();
    for _ in 0..3 {
        let list = plant.roll.sends(worker.sends, 8, &send);
        worker.qp.post_send(&list)?;
        plant.post_recvs(&worker, 8)?;
        worker.qp.move_to(sys::IBV_QPS_RESET)?;
        plant.withdraw(&worker);
        reconnect(&plant, &worker)?;
        talk(&plant, &worker)?;
    }
    Ok(())
}

/// RESET with completions that nobody has polled, beside those of another QP.
fn reset_unpolled(device: Device) -> Outcome {
    let plant = Plant::new(device)?;
    let (worker, other) = (plant.worker()?, plant.worker()?);
    plant.complete_work(&worker)?;
    plant.complete_work(&other)?;
    worker.qp.move_to(sys::IBV_QPS_RESET)?;
    plant.withdraw(&worker);
    plant.settle()?;
    reconnect(&plant, &worker)?;
    talk(&plant, &worker)
}

/// The same by way of ERR, with flushed requests as well.
fn reset_by_err(device: Device) -> Outcome {
    let plant = Plant::new(device)?;
    let worker = plant.worker()?;
    for round in 0..4 {
        plant.complete_work(&worker)?;
        plant.post_recvs(&worker, 8)?;
        worker.qp.move_to(sys::IBV_QPS_ERR)?;
        plant.post_recvs(&worker, 8)?;
        if round % 2 == 0 {
            plant.settle()?;
        }
        worker.qp.move_to(sys::IBV_QPS_RESET)?;
        plant.withdraw(&worker);
        plant.settle()?;
        reconnect(&plant, &worker)?;
        talk(&plant, &worker)?;
        worker.peer.move_to(sys::IBV_QPS_RESET)?;
        worker.qp.move_to(sys::IBV_QPS_RESET)?;
        plant
            .bench
            .bring_up(&worker.peer, worker.qp.number(), Retry::PATIENT)?;
        plant
            .bench
            .bring_up(&worker.qp, worker.peer.number(), Retry::PATIENT)?;
    }
    Ok(())
}

/// siw cannot use a QP twice, so the move may be refused. If it is not, nothing is left behind, and
/// nothing more is taken.
fn reset(device: Device) -> Outcome {
    let plant = Plant::new(device)?;
    let (worker, other) = (plant.worker()?, plant.worker()?);
    plant.complete_work(&worker)?;
    plant.complete_work(&other)?;
    plant.post_recvs(&worker, 8)?;
    if worker.qp.move_to(sys::IBV_QPS_RESET).is_ok() {
        plant.withdraw(&worker);
        plant.settle()?;
        for wr in [plant.write(), plant.write()] {
            let list = [plant.roll.send(worker.sends, wr)];
            if worker.qp.post_send(&list).is_err() {
                plant.roll.refuse(worker.sends, 1);
            }
        }
    }
    plant.settle()?;
    worker.qp.move_to(sys::IBV_QPS_ERR).ok();
    plant.settle()
}

/// A QP is destroyed with completions that nobody has polled, and with work in its queues. Of all
/// that nothing comes; what belongs to another QP of the CQ does.
fn destroy_unpolled(device: Device) -> Outcome {
    let plant = Plant::new(device)?;
    let other = plant.worker()?;
    for dies_first in [false, true] {
        let worker = plant.worker()?;
        plant.complete_work(&worker)?;
        plant.complete_work(&other)?;
        plant.post_recvs(&worker, 8)?;
        if dies_first {
            worker.qp.move_to(sys::IBV_QPS_ERR)?;
            plant.post_recvs(&worker, 8)?;
        }
        plant.withdraw(&worker);
        drop(worker);
        plant.settle()?;
    }
    Ok(())
}

/// The next QP, which on siw gets the number of the one before, has nothing to do with it.
fn next_qp(device: Device) -> Outcome {
    let plant = Plant::new(device)?;
    let mut worker = plant.worker()?;
    for _ in 0..5 {
        plant.complete_work(&worker)?;
        plant.post_recvs(&worker, 8)?;
        plant.withdraw(&worker);
        drop(worker);
        worker = plant.worker()?;
        plant.complete_work(&worker)?;
        plant.settle()?;
    }
    Ok(())
}

/// A CQ that cannot be destroyed is as good as before.
fn cq_in_use(device: Device) -> Outcome {
    let plant = Plant::new(device)?;
    let worker = plant.worker()?;
    plant.complete_work(&worker)?;
    for _ in 0..3 {
        let refused = plant.cq.destroy_in_use();
        assert_eq!(refused.raw_os_error(), Some(libc::EBUSY), "{refused}");
    }
    plant.settle()?;
    plant.complete_work(&worker)?;
    plant.settle()?;
    plant.post_recvs(&worker, 8)?;
    worker.qp.move_to(sys::IBV_QPS_ERR)?;
    plant.settle()
}

/// So is an SRQ.
fn srq_in_use(device: Device) -> Outcome {
    let bench = Bench::open(device)?;
    let far = bench.init(Transport::Rc, Caps::default())?;
    let srq = Srq::create(&bench.pd, 16, 1)?;
    let near = QpInit {
        srq: Some(Arc::clone(&srq)),
        ..bench.init(Transport::Rc, Caps::default())?
    };
    let (_qp, peer) = bench.connect(&near, &far)?;
    let memory = bench.memory(64)?;
    let roll = Roll::new();
    let line = roll.shared_recvs();
    srq.post_recv(&roll.recvs(line, 4, memory.sge(0, SMALL)))?;
    let refused = srq.destroy_in_use();
    assert_eq!(refused.raw_os_error(), Some(libc::EBUSY), "{refused}");
    srq.post_recv(&roll.recvs(line, 4, memory.sge(0, SMALL)))?;
    let message = SendWr::send(&[memory.sge(0, SMALL)]).signaled();
    for _ in 0..8 {
        peer.post_send(std::slice::from_ref(&message))?;
        far.send_cq.take_one()?.ok();
        roll.answer(&near.recv_cq.take_one()?.ok());
    }
    assert_eq!(roll.answered(line), 8);
    roll.check()
}
