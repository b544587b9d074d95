// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause

//! A queue pair is destroyed in the middle of its work, while another one works on the same CQ.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;

use guest::links::Device;
use guest::pair::Bench;
use guest::payload::Random;
use guest::roll::{LineId, Roll, patience};
use guest::scene::SMALL;
use guest::suite::{Outcome, Stop, Suite};
use guest::verbs::{Caps, Cq, Mr, Qp, QpInit, SendWr, Transport};

use super::{Score, deadline, rounds};
use crate::threads::join;

pub(super) fn add(suite: &mut Suite) {
    for device in Device::ALL {
        suite
            .case(format!("races/{device}/destroy_of_another"), move || {
                run(device)
            })
            .within(deadline(4))
            .beyond_stock("completions stay in the CQ when their QP goes");
    }
}

/// A QP and its peer, and what it does.
struct Worker {
    qp: Qp,
    _peer: Qp,
    sends: LineId,
    recvs: LineId,
}

impl Worker {
    fn new(bench: &Bench, init: &QpInit, roll: &Roll) -> Result<Self, Stop> {
        let far = bench.init(Transport::Rc, Caps::default())?;
        let (qp, peer) = bench.connect(init, &far)?;
        let (sends, recvs) = (roll.sends_of(&qp), roll.recvs_of(&qp));
        Ok(Self {
            qp,
            _peer: peer,
            sends,
            recvs,
        })
    }

    /// Posts some WRITEs; what finds no room is given up.
    fn post(&self, roll: &Roll, memory: &Mr, count: usize) -> Outcome {
        let write = SendWr::write(&[memory.sge(0, SMALL)], memory.remote(SMALL)).signaled();
        let list = roll.sends(self.sends, count, &write);
        if let Err(refused) = self.qp.post_send(&list) {
            roll.refuse(self.sends, count - refused.accepted_for_want_of_room()?);
            thread::yield_now();
        }
        Ok(())
    }
}

/// Polls all the while. `looks` counts how often, so that others know when a look has begun after
/// something they did; the gate lets them shut the watch out.
struct Watch<'a> {
    roll: &'a Roll,
    cq: &'a Cq,
    looks: AtomicUsize,
    gate: Mutex<()>,
}

/// When [`Watch::looks`] says so, the watch is over.
const OVER: usize = usize::MAX;

impl Watch<'_> {
    fn keep(&self) -> Outcome {
        loop {
            let open = self.gate.lock();
            self.roll.poll(self.cq)?;
            drop(open);
            let seen = self.looks.load(Ordering::SeqCst);
            if seen == OVER {
                return Ok(());
            }
            // Fails only if the watch has just been ended.
            let next = seen + 1;
            let (set, kept) = (Ordering::SeqCst, Ordering::SeqCst);
            self.looks.compare_exchange(seen, next, set, kept).ok();
            thread::yield_now();
        }
    }

    /// Waits until every look that has begun by now is over.
    fn pass(&self) {
        let now = self.looks.load(Ordering::SeqCst);
        while self.looks.load(Ordering::SeqCst) < now + 2 {
            thread::yield_now();
        }
    }
}

fn run(device: Device) -> Outcome {
    let mut random = Random::replayable();
    let bench = Bench::open(device)?;
    let memory = bench.memory(64)?;
    let cq = bench.cq(1024)?;
    let init = QpInit {
        send_cq: Arc::clone(&cq),
        recv_cq: Arc::clone(&cq),
        ..bench.init(Transport::Rc, Caps::default())?
    };
    let mut score = Score::default();
    for _ in 0..rounds() {
        let roll = Roll::new();
        let stays = Worker::new(&bench, &init, &roll)?;
        let watch = Watch {
            roll: &roll,
            cq: &cq,
            looks: AtomicUsize::new(0),
            gate: Mutex::new(()),
        };
        thread::scope(|scope| {
            let watcher = scope.spawn(|| watch.keep());
            for at in 0..4 {
                let goes = Worker::new(&bench, &init, &roll)?;
                goes.qp
                    .post_recv(&roll.recvs(goes.recvs, 16, memory.sge(0, SMALL)))?;
                for _ in 0..random.between(1, 12) {
                    goes.post(&roll, &memory, 4)?;
                    stays.post(&roll, &memory, 4)?;
                }
                let (sends, recvs) = (goes.sends, goes.recvs);
                roll.excuse(sends);
                roll.excuse(recvs);
                if at % 2 == 0 {
                    // Something is left to be polled for when it has gone.
                    let shut = watch.gate.lock();
                    drop(goes);
                    roll.withdraw(sends);
                    roll.withdraw(recvs);
                    drop(shut);
                } else {
                    drop(goes);
                    watch.pass();
                    roll.withdraw(sends);
                    roll.withdraw(recvs);
                }
                stays.post(&roll, &memory, 4)?;
            }
            watch.looks.store(OVER, Ordering::SeqCst);
            join([watcher])
        })?;
        roll.collect(&[&cq], patience())?;
        roll.listen(&[&cq])?;
        score.add(&roll);
    }
    score.judge(format_args!("destroy of another QP on {device}"))
}
