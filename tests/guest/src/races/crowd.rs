// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause

//! Eight queue pairs on one CQ, two threads that post, two that poll, and one that kills.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use guest::links::Device;
use guest::pair::Bench;
use guest::payload::Random;
use guest::roll::{LineId, Roll, patience};
use guest::scene::SMALL;
use guest::suite::{Outcome, Stop, Suite};
use guest::verbs::{Caps, Mr, Qp, QpInit, SendWr, Transport, sys};

use super::{Score, deadline, rounds};
use crate::threads::join;

/// Queue pairs on the CQ.
const CROWD: usize = 8;

/// Lists that are posted to each.
const LISTS: usize = 40;

pub(super) fn add(suite: &mut Suite) {
    for device in Device::ALL {
        suite
            .case(format!("races/{device}/crowd"), move || run(device))
            .within(deadline(6))
            .beyond_stock("what is posted at the moment of death, or later, is lost");
    }
}

/// One of the crowd.
struct Member {
    qp: Qp,
    _peer: Qp,
    sends: LineId,
    recvs: LineId,
}

impl Member {
    /// Posts a list of sends and one of receives; what finds no room is given up.
    fn post(&self, roll: &Roll, memory: &Mr) -> Outcome {
        let write = SendWr::write(&[memory.sge(0, SMALL)], memory.remote(SMALL));
        let sends = roll.alternating(self.sends, 4, &write);
        if let Err(refused) = self.qp.post_send(&sends) {
            roll.refuse(self.sends, 4 - refused.accepted_for_want_of_room()?);
        }
        let recvs = roll.recvs(self.recvs, 2, memory.sge(0, SMALL));
        if let Err(refused) = self.qp.post_recv(&recvs) {
            roll.refuse(self.recvs, 2 - refused.accepted_for_want_of_room()?);
        }
        Ok(())
    }
}

fn run(device: Device) -> Outcome {
    let mut random = Random::replayable();
    let bench = Bench::open(device)?;
    let memory = bench.memory(64)?;
    let mut score = Score::default();
    for _ in 0..rounds() {
        let cq = bench.cq(4096)?;
        let init = QpInit {
            send_cq: Arc::clone(&cq),
            recv_cq: Arc::clone(&cq),
            ..bench.init(Transport::Rc, Caps::default())?
        };
        let roll = Roll::new();
        let mut crowd = Vec::new();
        for _ in 0..CROWD {
            crowd.push(member(&bench, &init, &roll)?);
        }
        let is_over = AtomicBool::new(false);
        let poll = || -> Outcome {
            while !is_over.load(Ordering::SeqCst) {
                roll.poll(&cq)?;
                thread::yield_now();
            }
            Ok(())
        };
        let post = |half: &[Member]| -> Outcome {
            for _ in 0..LISTS {
                for member in half {
                    member.post(&roll, &memory)?;
                }
            }
            Ok(())
        };
        let (left, right) = crowd.split_at(CROWD / 2);
        let pauses: Vec<_> = (0..CROWD).map(|_| random.between(0, 60)).collect();
        thread::scope(|scope| {
            let pollers = [scope.spawn(poll), scope.spawn(poll)];
            let workers = [
                scope.spawn(|| post(left)),
                scope.spawn(|| post(right)),
                scope.spawn(|| kill(&crowd, &roll, &pauses)),
            ];
            let worked = join(workers);
            is_over.store(true, Ordering::SeqCst);
            worked.and(join(pollers))
        })?;
        roll.collect(&[&cq], patience())?;
        roll.listen(&[&cq])?;
        score.add(&roll);
    }
    score.judge(format_args!("crowd on {device}"))
}

fn member(bench: &Bench, init: &QpInit, roll: &Roll) -> Result<Member, Stop> {
    let far = bench.init(Transport::Rc, Caps::default())?;
    let (qp, peer) = bench.connect(init, &far)?;
    let (sends, recvs) = (roll.sends_of(&qp), roll.recvs_of(&qp));
    // Two threads poll, so which of two completions is on the roll first says nothing.
    roll.ignore_order(sends);
    roll.ignore_order(recvs);
    Ok(Member {
        qp,
        _peer: peer,
        sends,
        recvs,
    })
}

/// Kills one after the other, each after some more requests.
fn kill(crowd: &[Member], roll: &Roll, pauses: &[usize]) -> Outcome {
    let all = LISTS * CROWD * 6;
    for (member, &pause) in crowd.iter().zip(pauses) {
        let until = (roll.len() + pause * 6).min(all);
        while roll.len() < until {
            thread::yield_now();
        }
        member.qp.move_to(sys::IBV_QPS_ERR)?;
    }
    Ok(())
}
