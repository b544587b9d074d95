// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause

//! What becomes of an application whose peer is killed.
//!
//! `killed rxe` and `killed siw` connect two QPs in two processes, which toss sixteen messages to and
//! fro, and kill the other process (SIGKILL) in mid-traffic. The survivor does not know. It posts as
//! much again at once, then one receive at a time, and each time it sleeps in `ibv_get_cq_event` until
//! all that was accepted has completed. Then the same with an SRQ, where LAST_WQE_REACHED is counted.
//!
//! Prints a line: the device, the provider's file, work requests accepted, completed and lost,
//! whether the survivor was woken each time, and how often the event came. Succeeds if nothing was
//! lost or doubled, it was, and once.

#![expect(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "the line, or why there is none"
)]

use std::cell::Cell;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;
use std::{env, fs, io};

use guest::links::{Device, Links};
use guest::pair::{Bench, Retry};
use guest::peer::{Peer, Seat};
use guest::process::Process;
use guest::roll::{LineId, Roll};
use guest::suite::{Outcome, Stop};
use guest::verbs::{
    Caps, CompChannel, Cq, Mr, Qp, QpInit, RecvWr, SendWr, Srq, Transport, load_providers, sys,
};

/// Messages that fly at a time.
const WINDOW: usize = 16;
/// Messages that are sent before the peer is killed.
const BEFORE: usize = 100;
/// Bytes of a message.
const LEN: usize = 64;
/// Whoever sleeps as long as this with completions due sleeps for ever.
const PATIENCE: Duration = Duration::from_secs(3);
/// Longer than a run takes, sleepers and all.
const DEADLINE: Duration = Duration::from_secs(60);
/// An event that has not come by then never comes.
const SILENCE: Duration = Duration::from_millis(500);

fn main() -> ExitCode {
    let device = match env::args().nth(1).as_deref() {
        Some("rxe") => Device::Rxe,
        Some("siw") => Device::Siw,
        _ => {
            eprintln!("usage: killed rxe|siw");
            return ExitCode::from(2);
        }
    };
    match run_apart(device) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("killed: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Runs in a process of its own, since librdmacm keeps a device open until its process ends, and an
/// open device's link cannot be removed; whether all went well.
fn run_apart(device: Device) -> io::Result<bool> {
    let _links = Links::create()?;
    load_providers()?;
    let process = Process::fork(|| match run(device) {
        Ok(well) => i32::from(!well),
        Err(stop) => {
            eprintln!("killed: {stop:?}");
            1
        }
    })?;
    let status = process.wait(DEADLINE)?;
    print!("{}", process.output()?);
    Ok(status.is_some_and(|status| status.success()))
}

/// Both deaths; whether all went well.
fn run(device: Device) -> Result<bool, Stop> {
    // Before the device is open, so that it is not open in them too.
    let [mut one, mut other] = [fork(device)?, fork(device)?];
    let bench = Bench::open(device)?;
    let plain = Survivor::connect(&bench, &mut one, None)?;
    let srq = Srq::create(&bench.pd, 64, 1)?;
    let shared = Survivor::connect(&bench, &mut other, Some(srq))?;

    let woken = plain.outlive(one)?;
    shared.outlive(other)?;
    let last_wqes = shared.count_last_wqes()?;

    let (accepted, completed) = (plain.accepted.get(), plain.completed());
    println!(
        "{device} {} {accepted} {completed} {} {} {last_wqes}",
        provider(device)?,
        accepted.saturating_sub(completed),
        if woken { "yes" } else { "no" },
    );
    let kept = plain.roll.check().is_ok() && shared.roll.check().is_ok();
    Ok(kept && woken && last_wqes == 1)
}

fn fork(device: Device) -> Result<Peer, Stop> {
    Peer::fork(device, move |seat| toss(device, seat))
}

/// The peer's process: each message goes back where it came from, until the process is killed.
fn toss(device: Device, seat: &mut Seat) -> Outcome {
    let bench = Bench::open(device)?;
    let channel = CompChannel::create(&bench.context)?;
    let init = init(&channel, None)?;
    let qp = seat.connect(&bench, &init)?;
    let memory = bench.memory(LEN)?;
    let sge = [memory.sge(0, LEN)];
    qp.post_recv(&vec![RecvWr::new(0, &sge); WINDOW])?;
    seat.say("ready")?;
    loop {
        init.recv_cq.arm(false)?;
        while let Some(wc) = init.recv_cq.poll_one()? {
            if wc.opcode == sys::IBV_WC_RECV {
                qp.post_recv(&[RecvWr::new(0, &sge)])?;
                qp.post_send(&[SendWr::send(&sge)])?;
            }
        }
        drop(channel.get_event()?);
    }
}

/// One CQ for all.
fn init(channel: &Arc<CompChannel>, srq: Option<Arc<Srq>>) -> Result<QpInit, Stop> {
    let cq = Cq::on_channel(channel, 256)?;
    Ok(QpInit {
        transport: Transport::Rc,
        send_cq: Arc::clone(&cq),
        recv_cq: cq,
        srq,
        caps: Caps::default(),
        signal_all: false,
        send_ops: None,
    })
}

/// The end that is left.
struct Survivor<'b> {
    bench: &'b Bench,
    qp: Qp,
    cq: Arc<Cq>,
    channel: Arc<CompChannel>,
    srq: Option<Arc<Srq>>,
    memory: Mr,
    /// What it was given to do.
    roll: Roll,
    sends: LineId,
    recvs: LineId,
    accepted: Cell<usize>,
}

impl<'b> Survivor<'b> {
    fn connect(bench: &'b Bench, peer: &mut Peer, srq: Option<Arc<Srq>>) -> Result<Self, Stop> {
        let channel = CompChannel::create(&bench.context)?;
        let init = init(&channel, srq.clone())?;
        let qp = peer.connect(bench, &init, Retry::BRIEF)?;
        peer.hear()?;
        let roll = Roll::new();
        Ok(Self {
            bench,
            sends: roll.sends_of(&qp),
            recvs: match srq {
                Some(_) => roll.shared_recvs(),
                None => roll.recvs_of(&qp),
            },
            qp,
            cq: init.send_cq,
            channel,
            srq,
            memory: bench.memory(LEN)?,
            roll,
            accepted: Cell::new(0),
        })
    }

    /// Lives as long as `peer`, and longer; whether the sleeper was woken each time.
    fn outlive(&self, peer: Peer) -> Result<bool, Stop> {
        self.post(WINDOW, WINDOW);
        let mut sent = WINDOW;
        while sent < BEFORE {
            self.sleep()?;
            // As many as have come back.
            let flying = sent.saturating_sub(self.roll.answered(self.recvs));
            let next = WINDOW
                .saturating_sub(flying)
                .min(BEFORE.saturating_sub(sent));
            self.post(next, next);
            sent = sent.saturating_add(next);
        }
        peer.kill()?;
        self.post(WINDOW, WINDOW);
        let mut woken = self.sleep_until_done()?;
        for _ in 0..WINDOW {
            self.post(1, 0);
            woken = woken && self.sleep_until_done()?;
        }
        Ok(woken)
    }

    /// Posts, and counts what is accepted.
    fn post(&self, recvs: usize, sends: usize) {
        let sge = self.memory.sge(0, LEN);
        for recv in self.roll.recvs(self.recvs, recvs, sge) {
            let posted = match &self.srq {
                Some(srq) => srq.post_recv(&[recv]),
                None => self.qp.post_recv(&[recv]),
            };
            self.count(self.recvs, posted.is_ok());
        }
        for send in self
            .roll
            .sends(self.sends, sends, &SendWr::send(&[sge]).signaled())
        {
            self.count(self.sends, self.qp.post_send(&[send]).is_ok());
        }
    }

    fn count(&self, line: LineId, accepted: bool) {
        if accepted {
            self.accepted.set(self.accepted.get().saturating_add(1));
        } else {
            self.roll.refuse(line, 1);
        }
    }

    fn completed(&self) -> usize {
        self.roll
            .answered(self.sends)
            .saturating_add(self.roll.answered(self.recvs))
    }

    /// Takes what has completed and, if that was nothing, sleeps until woken; false if nobody does.
    fn sleep(&self) -> Result<bool, Stop> {
        self.cq.arm(false)?;
        let mut came = false;
        while self.roll.poll(&self.cq)? > 0 {
            came = true;
        }
        if came {
            return Ok(true);
        }
        // Dropped, an event is acknowledged.
        Ok(self.channel.next_event(PATIENCE)?.is_some())
    }

    fn sleep_until_done(&self) -> Result<bool, Stop> {
        while self.roll.outstanding() > 0 {
            if !self.sleep()? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    fn count_last_wqes(&self) -> Result<usize, Stop> {
        let mut count = 0_usize;
        while let Some(event) = self.bench.context.next_event(SILENCE)? {
            let counts = event.kind() == sys::IBV_EVENT_QP_LAST_WQE_REACHED;
            count = count.saturating_add(counts.into());
        }
        Ok(count)
    }
}

/// The file that serves the device.
fn provider(device: Device) -> Result<String, Stop> {
    let maps = fs::read_to_string("/proc/self/maps")?;
    ["liblastwqe-rdmav", device.stock_provider()]
        .into_iter()
        .find_map(|name| {
            let from = maps.get(maps.find(name)?..)?;
            from.lines().next().map(str::to_owned)
        })
        .ok_or_else(|| Stop::Fail("no provider is loaded".to_owned()))
}
