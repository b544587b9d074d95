// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause

//! Threads that share a QP and its CQ: they post, poll, arm, wait, resize, ask, and make and end other
//! objects beside it, before its death, while it dies and after.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use guest::links::Device;
use guest::pair::Bench;
use guest::roll::{LineId, Roll, patience};
use guest::scene::SMALL;
use guest::suite::{Outcome, Stop, Suite};
use guest::verbs::{Caps, CompChannel, Cq, Mr, Qp, QpInit, SendWr, Srq, Transport, sys};

use super::{join, repeat};

/// What each thread that posts, makes or asks does.
const TIMES: usize = 60;

/// Of the shared CQ; other QPs complete on it too.
const ENTRIES: usize = 2000;

pub(super) fn add(suite: &mut Suite) {
    for device in Device::ALL {
        suite
            .on("threads", device, "shared_objects", run)
            .within(120)
            .beyond_stock("what is posted at the moment of death, or later, is lost");
    }
}

struct Stage {
    bench: Bench,
    memory: Mr,
    channel: Arc<CompChannel>,
    cq: Arc<Cq>,
    init: QpInit,
    qp: Qp,
    peer: Qp,
    roll: Roll,
    sends: [LineId; 2],
    recvs: LineId,
    is_over: AtomicBool,
}

fn run(device: Device) -> Outcome {
    let stage = Stage::set(device)?;
    thread::scope(|scope| {
        let stage = &stage;
        let watchers = [
            scope.spawn(|| stage.poll()),
            scope.spawn(|| stage.poll()),
            scope.spawn(|| stage.sleep()),
            scope.spawn(|| stage.hear()),
        ];
        let workers = [
            repeat(scope, TIMES, || stage.post_sends(stage.sends[0])),
            repeat(scope, TIMES, || stage.post_sends(stage.sends[1])),
            repeat(scope, TIMES, || stage.post_recvs()),
            repeat(scope, TIMES, || stage.ask()),
            repeat(scope, TIMES, || stage.make_and_end()),
            repeat(scope, TIMES, || stage.register()),
            scope.spawn(|| stage.resize(device)),
            scope.spawn(|| stage.kill()),
        ];
        let worked = join(workers);
        stage.is_over.store(true, Ordering::SeqCst);
        worked.and(join(watchers))
    })?;
    stage.roll.collect(&[&stage.cq], patience())?;
    stage.roll.listen(&[&stage.cq])?;
    stage.roll.check()
}

impl Stage {
    fn set(device: Device) -> Result<Self, Stop> {
        let bench = Bench::open(device)?;
        let channel = CompChannel::create(&bench.context)?;
        let cq = Cq::on_channel(&channel, ENTRIES)?;
        let init = QpInit {
            send_cq: Arc::clone(&cq),
            recv_cq: Arc::clone(&cq),
            ..bench.init(Transport::Rc, Caps::default())?
        };
        let far = bench.init(Transport::Rc, Caps::default())?;
        let (qp, peer) = bench.connect(&init, &far)?;
        let roll = Roll::new();
        // One for each thread that posts: only it knows which of its requests were refused.
        let sends = [roll.sends_of(&qp), roll.sends_of(&qp)];
        let recvs = roll.recvs_of(&qp);
        // Of two threads that poll, either may come to the roll first.
        for line in [sends[0], sends[1], recvs] {
            roll.ignore_order(line);
        }
        Ok(Self {
            memory: bench.memory(64)?,
            is_over: AtomicBool::new(false),
            bench,
            channel,
            cq,
            init,
            qp,
            peer,
            roll,
            sends,
            recvs,
        })
    }

    fn post_sends(&self, line: LineId) -> Outcome {
        let write = SendWr::write(&[self.memory.sge(0, SMALL)], self.memory.remote(SMALL));
        let list = self.roll.sends(line, 3, &write.signaled());
        if let Err(refused) = self.qp.post_send(&list) {
            self.roll
                .refuse(line, 3 - refused.accepted_for_want_of_room()?);
        }
        thread::yield_now();
        Ok(())
    }

    fn post_recvs(&self) -> Outcome {
        let list = self.roll.recvs(self.recvs, 2, self.memory.sge(0, SMALL));
        if let Err(refused) = self.qp.post_recv(&list) {
            self.roll
                .refuse(self.recvs, 2 - refused.accepted_for_want_of_room()?);
        }
        thread::yield_now();
        Ok(())
    }

    fn poll(&self) -> Outcome {
        while !self.is_over.load(Ordering::SeqCst) {
            self.roll.poll(&self.cq)?;
            thread::yield_now();
        }
        Ok(())
    }

    /// Arms, and waits for events as long as others work.
    fn sleep(&self) -> Outcome {
        while !self.is_over.load(Ordering::SeqCst) {
            self.cq.arm(false)?;
            self.roll.poll(&self.cq)?;
            drop(self.channel.next_event(Duration::from_millis(20))?);
        }
        Ok(())
    }

    /// Reaps the events of all QPs.
    fn hear(&self) -> Outcome {
        while !self.is_over.load(Ordering::SeqCst) {
            drop(self.bench.context.next_event(Duration::from_millis(20))?);
        }
        Ok(())
    }

    fn ask(&self) -> Outcome {
        self.qp.query_state()?;
        self.peer.query_state()?;
        Ok(())
    }

    /// Another QP on the same CQ, with an SRQ or not, which dies with receives and goes.
    fn make_and_end(&self) -> Outcome {
        let mut init = self.init.clone();
        init.caps = Caps {
            send_wr: 4,
            recv_wr: 4,
            ..init.caps
        };
        let other = self.bench.unconnected(&init)?;
        let recvs = self.roll.recvs_of(&other);
        self.roll.ignore_order(recvs);
        other.post_recv(&self.roll.recvs(recvs, 3, self.memory.sge(0, SMALL)))?;
        other.move_to(sys::IBV_QPS_ERR)?;
        self.roll.excuse(recvs);
        drop(other);
        let srq = Srq::create(&self.bench.pd, 8, 1)?;
        init.srq = Some(Arc::clone(&srq));
        drop(Qp::create(&self.bench.pd, &init)?);
        srq.arm_limit(2)?;
        Ok(())
    }

    fn register(&self) -> Outcome {
        drop(self.bench.memory(4096)?);
        drop(self.bench.cq(16)?);
        Ok(())
    }

    fn resize(&self, device: Device) -> Outcome {
        let most = device.pick(ENTRIES + 500, ENTRIES);
        for entries in [most, ENTRIES, most].map(|entries| i32::try_from(entries).unwrap_or(0)) {
            match self.cq.resize(entries) {
                // libsiw has none, which is no race.
                Err(error) if error.raw_os_error() == Some(libc::EOPNOTSUPP) => return Ok(()),
                outcome => outcome?,
            }
            thread::yield_now();
        }
        Ok(())
    }

    /// Ends the QP in the middle of all that.
    fn kill(&self) -> Outcome {
        while self.roll.answered(self.sends[0]) < TIMES {
            thread::yield_now();
        }
        self.qp.move_to(sys::IBV_QPS_ERR)?;
        Ok(())
    }
}
