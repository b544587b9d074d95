// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause

//! A queue pair that is going to die, its peer, and the roll of what it has been given to do.

use std::mem;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::cable::{self, Cable};
use crate::death::Death;
use crate::links::Device;
use crate::pair::{Bench, End, Retry};
use crate::peer::{Peer, Seat};
use crate::roll::{LineId, Roll};
use crate::suite::{Outcome, Stop};
use crate::verbs::{
    AsyncEvent, Caps, CompChannel, Context, Cq, Mr, QpInit, Remote, SendWr, Srq, Transport,
    attributes_ex, send_ops, sys,
};

/// Bytes of a small message.
pub const SMALL: usize = 8;

/// Bytes of a message that TCP cannot take at once.
pub const LARGE: usize = 1 << 20;

/// Entries of each queue, unless the plan wants more.
pub const DEPTH: u32 = 64;

/// What a scene is built like.
#[derive(Debug, Clone, Copy)]
pub struct Plan {
    /// One CQ for both queues of the victim.
    pub one_cq: bool,
    /// The victim takes its receives from an SRQ.
    pub shared: bool,
    /// Its CQs are extended ones, which are polled in batches.
    pub extended: bool,
    /// Entries of each of its CQs.
    pub cq_depth: usize,
    /// Entries of each queue of both ends.
    pub queue_depth: u32,
    /// The victim, with its CQs, is in a thread domain.
    pub in_thread_domain: bool,
    /// The victim's sends are posted by [`Qp::draft`](crate::verbs::Qp::draft).
    pub by_draft: bool,
}

impl Plan {
    /// Two CQs, which hold all that the kernel and the library may have to say, and no SRQ.
    pub const PLAIN: Self = Self {
        one_cq: false,
        shared: false,
        extended: false,
        cq_depth: 256,
        queue_depth: DEPTH,
        in_thread_domain: false,
        by_draft: false,
    };

    /// One CQ.
    pub const ONE_CQ: Self = Self {
        one_cq: true,
        ..Self::PLAIN
    };

    /// With extended CQs.
    pub const EXTENDED: Self = Self {
        extended: true,
        ..Self::PLAIN
    };

    /// With an SRQ.
    pub const SHARED: Self = Self {
        shared: true,
        ..Self::PLAIN
    };

    /// All that can be in a thread domain.
    pub const IN_THREAD_DOMAIN: Self = Self {
        in_thread_domain: true,
        by_draft: true,
        ..Self::EXTENDED
    };

    /// Sends as drafts.
    pub const BY_DRAFT: Self = Self {
        by_draft: true,
        ..Self::PLAIN
    };
}

/// The other end of the victim's connection.
#[derive(Debug)]
pub enum Other {
    /// In this process.
    Here(Arc<End>),
    /// In another one.
    There(Peer),
    /// Destroyed or killed.
    Gone,
}

/// A victim and its surroundings.
#[derive(Debug)]
pub struct Scene {
    /// The QP that is going to die.
    pub victim: End,
    /// Its peer.
    other: Mutex<Other>,
    /// The channel of the victim's CQs.
    pub channel: Arc<CompChannel>,
    /// The SRQ that the victim takes its receives from, if it has one.
    pub srq: Option<Arc<Srq>>,
    /// All that the victim was given to do.
    pub roll: Arc<Roll>,
    /// The victim's send queue.
    pub sends: LineId,
    /// The victim's receive queue, or its SRQ.
    pub recvs: LineId,
    /// Memory of the victim, [`LARGE`] bytes.
    pub near: Mr,
    /// As much memory of the peer.
    pub far: Remote,
    /// What keeps [`Self::far`] registered, if it is in this process.
    _far: Option<Mr>,
    /// What all of it is made from.
    pub bench: Bench,
}

impl Scene {
    /// Connects a victim of `death` on `device` with a peer as that death wants it.
    ///
    /// The caller must have one thread only, and no device open.
    ///
    /// # Errors
    ///
    /// A failure of any verb.
    pub fn set(device: Device, death: Death, plan: Plan) -> Result<Self, Stop> {
        let peer = if death.needs_process() {
            Some(Peer::fork(device, move |seat| sit(device, seat))?)
        } else {
            None
        };
        Self::on(Bench::open(device)?, peer, death.retry(), plan)
    }

    /// Connects a victim with a peer at the far end of a new cable; this process is at its near end from then
    /// on.
    ///
    /// The caller must have one thread only, and no device open.
    ///
    /// # Errors
    ///
    /// A failure of any verb, or to lay the cable.
    pub fn across(plan: Plan) -> Result<(Self, Cable), Stop> {
        let mut peer = Peer::fork(Device::Siw, |seat| {
            cable::isolate()?;
            seat.say("isolated")?;
            seat.hear()?;
            sit(Device::Siw, seat)
        })?;
        cable::isolate()?;
        peer.hear()?;
        let cable = Cable::lay(peer.pid())?;
        peer.say("laid")?;
        let bench = Bench::open_at(Cable::NEAR)?;
        let scene = Self::on(bench, Some(peer), Retry::PATIENT, plan)?;
        Ok((scene, cable))
    }

    /// Connects a victim with that peer, or one in this process.
    fn on(bench: Bench, peer: Option<Peer>, retry: Retry, plan: Plan) -> Result<Self, Stop> {
        let bench = if plan.in_thread_domain {
            bench.into_thread_domain()?
        } else {
            bench
        };
        let channel = CompChannel::create(&bench.context)?;
        let (init, srq) = victim(&bench, &channel, plan)?;
        let near = bench.memory(LARGE)?;
        let (qp, other, far, kept) = match peer {
            Some(mut peer) => {
                let qp = peer.connect(&bench, &init, retry)?;
                let far = peer.remote()?;
                (qp, Other::There(peer), far, None)
            }
            None => {
                let others = bench.init(Transport::Rc, caps(plan.queue_depth))?;
                let (qp, other) = bench.connect_with(&init, &others, retry)?;
                let far = bench.memory(LARGE)?;
                let end = End {
                    qp: other,
                    send_cq: others.send_cq,
                    recv_cq: others.recv_cq,
                };
                (qp, Other::Here(Arc::new(end)), far.remote(0), Some(far))
            }
        };
        let roll = Arc::new(Roll::new());
        let sends = roll.sends_of(&qp);
        let recvs = match srq {
            Some(_) => roll.shared_recvs(),
            None => roll.recvs_of(&qp),
        };
        let victim = End {
            qp,
            send_cq: init.send_cq,
            recv_cq: init.recv_cq,
        };
        Ok(Self {
            victim,
            other: Mutex::new(other),
            channel,
            srq,
            roll,
            sends,
            recvs,
            near,
            far,
            _far: kept,
            bench,
        })
    }

    /// The driver.
    #[must_use]
    pub fn device(&self) -> Device {
        self.bench.device
    }

    /// The open device.
    #[must_use]
    pub fn context(&self) -> &Arc<Context> {
        &self.bench.context
    }

    /// The peer, which must be in this process.
    ///
    /// # Panics
    ///
    /// If it is not.
    #[must_use]
    pub fn peer(&self) -> Arc<End> {
        match &*self.other() {
            Other::Here(end) => Arc::clone(end),
            other => panic!("the peer is {other:?}"),
        }
    }

    /// Whether an event belongs to the peer.
    #[must_use]
    pub fn is_of_peer(&self, event: &AsyncEvent) -> bool {
        matches!(&*self.other(), Other::Here(end) if event.is_of_qp(&end.qp))
    }

    /// Takes the peer away.
    #[must_use]
    pub fn take_other(&self) -> Other {
        mem::replace(&mut *self.other(), Other::Gone)
    }

    fn other(&self) -> MutexGuard<'_, Other> {
        self.other.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Posts `count` receives to the victim, or to its SRQ, as one list.
    ///
    /// # Errors
    ///
    /// A failure of the verb.
    pub fn post_recvs(&self, count: usize) -> Outcome {
        self.post_recvs_of(count, SMALL)
    }

    /// As [`Self::post_recvs`], each with room for `len` bytes.
    ///
    /// # Errors
    ///
    /// A failure of the verb.
    pub fn post_recvs_of(&self, count: usize, len: usize) -> Outcome {
        let list = self.roll.recvs(self.recvs, count, self.near.sge(0, len));
        match &self.srq {
            Some(srq) => srq.post_recv(&list)?,
            None => self.victim.qp.post_recv(&list)?,
        }
        Ok(())
    }

    /// Posts `count` sends to the victim as one list; every second is unsignaled.
    ///
    /// # Errors
    ///
    /// A failure of the verb.
    pub fn post_sends(&self, count: usize) -> Outcome {
        let wr = small_send(&self.near, self.bench.device, self.far);
        self.post(&self.roll.alternating(self.sends, count, &wr))
    }

    /// Posts sends to the victim, in the way of the plan.
    ///
    /// # Errors
    ///
    /// A failure of the verb.
    pub fn post(&self, list: &[SendWr<'_>]) -> Outcome {
        if self.victim.qp.has_drafts() {
            Ok(self.victim.qp.post_draft(list)?)
        } else {
            Ok(self.victim.qp.post_send(list)?)
        }
    }

    /// Gives the victim sends that it cannot finish before it dies.
    ///
    /// rxe's peer has no receive, and is never tired of saying so. siw's has to take more bytes
    /// than TCP does, of which some may still succeed.
    ///
    /// # Errors
    ///
    /// A failure of the verb.
    pub fn load_sends(&self) -> Outcome {
        if self.device() == Device::Siw {
            let large = SendWr::write(&[self.near.sge(0, LARGE)], self.far).signaled();
            let list = self.roll.sends(self.sends, 12, &large);
            self.post(&list)?;
        }
        self.post_sends(20)
    }

    /// The victim's CQs.
    #[must_use]
    pub fn cqs(&self) -> [&Cq; 2] {
        [&self.victim.send_cq, &self.victim.recv_cq]
    }

    /// Collects what is due, by polling, and checks it against the roll.
    ///
    /// # Errors
    ///
    /// As [`Roll::settle`].
    pub fn settle(&self) -> Outcome {
        self.roll
            .settle(&[&self.victim.send_cq, &self.victim.recv_cq])
    }
}

/// Sizes of both ends' queues.
fn caps(depth: u32) -> Caps {
    Caps {
        send_wr: depth,
        recv_wr: depth,
        ..Caps::default()
    }
}

/// What the victim is created from.
fn victim(
    bench: &Bench,
    channel: &Arc<CompChannel>,
    plan: Plan,
) -> Result<(QpInit, Option<Arc<Srq>>), Stop> {
    let srq = match plan.shared {
        true => Some(Srq::create(&bench.pd, plan.queue_depth, 1)?),
        false => None,
    };
    let cq = || match plan.extended {
        true => {
            let entries = u32::try_from(plan.cq_depth)?;
            let attributes = attributes_ex(entries, sys::IBV_WC_STANDARD_FLAGS);
            Ok::<_, Stop>(match plan.in_thread_domain {
                true => Cq::create_in(&bench.pd, Some(channel), attributes)?,
                false => Cq::create_ex(&bench.context, Some(channel), attributes)?,
            })
        }
        false => Ok(Cq::on_channel(channel, plan.cq_depth)?),
    };
    let send_cq = cq()?;
    let recv_cq = match plan.one_cq {
        true => Arc::clone(&send_cq),
        false => cq()?,
    };
    let init = QpInit {
        transport: Transport::Rc,
        send_cq,
        recv_cq,
        srq: srq.clone(),
        caps: caps(plan.queue_depth),
        signal_all: false,
        send_ops: plan.by_draft.then(|| send_ops(bench.device, Transport::Rc)),
    };
    Ok((init, srq))
}

/// A small send: a SEND on rxe, a WRITE, which needs no receive, on siw.
fn small_send<'m>(near: &'m Mr, device: Device, far: Remote) -> SendWr<'m> {
    let sge = [near.sge(0, SMALL)];
    match device {
        Device::Rxe => SendWr::send(&sge),
        Device::Siw => SendWr::write(&sge, far),
    }
}

/// What a peer in another process does: it connects, offers memory, and waits to be killed.
fn sit(device: Device, seat: &mut Seat) -> Outcome {
    let bench = Bench::open(device)?;
    let init = bench.init(Transport::Rc, caps(DEPTH))?;
    let _qp = seat.connect(&bench, &init)?;
    let memory = bench.memory(LARGE)?;
    seat.offer(memory.remote(0))?;
    seat.rest()
}
