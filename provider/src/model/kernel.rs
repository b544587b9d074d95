// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause

//! The kernel as the provider meets it: its objects, what becomes of each work request, and whose
//! turn it is.

use std::collections::BTreeMap;
use std::ffi::c_int;
use std::fmt::Debug;

use rdma_core_sys::{
    IBV_EVENT_CQ_ERR, IBV_QPS_ERR, IBV_QPS_RESET, IBV_WC_SUCCESS, ibv_event_type, ibv_qp_state,
    ibv_wc_status,
};

use super::cq::{Cq, Cqe};
use super::events::Events;
use super::memory::Memory;
use super::srq::Srq;
use super::whims::Whims;

/// Which driver of which kernel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// `rdma_rxe` of linux 6.1: tasklets.
    Rxe61,
    /// `rdma_rxe` of linux 6.12: work queues.
    Rxe612,
    /// `siw`, of either.
    Siw,
}

/// A work request, by the address of the buffer it names: the same on both sides, and nothing that
/// the provider makes anything of.
pub(super) type Uid = u64;

/// What has truly become of a work request.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Fate {
    /// The QP that took it from its queue.
    pub(super) holder: Option<u32>,
    pub(super) status: Option<ibv_wc_status>,
    /// A CQE was due, and found no room.
    pub(super) dropped: bool,
}

impl Fate {
    /// No CQE tells of it.
    pub(super) fn is_unsaid(self) -> bool {
        self.status.is_none() || self.dropped
    }
}

/// Something that a peer or the network brings about. Each driver makes of it what it can.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Act {
    /// iWARP's connection manager has connected the QP.
    Connect,
    /// The next send goes out.
    Work,
    /// The oldest request is answered: acknowledged, or the data of a READ.
    Answer,
    /// It is answered by an error, or never.
    Refuse,
    /// A message begins to arrive.
    Take,
    /// It ends.
    Receive,
    /// The QP dies, and no work request shows it.
    Die,
    /// The peer is silent from now on.
    Silence,
    /// A CQE comes once more.
    Repeat,
}

/// A QP of one driver.
pub(super) trait Machine: Debug + Send {
    fn act(&mut self, core: &mut Core, act: Act);

    /// One step of what the kernel will do in any case; false if nothing is left to do.
    fn step(&mut self, core: &mut Core) -> bool;

    /// `ibv_modify_qp`; 0 or a positive errno.
    fn modify(&mut self, core: &mut Core, to: ibv_qp_state) -> c_int;

    /// `ibv_query_qp`.
    fn state(&self) -> ibv_qp_state;

    /// `POST_SEND` without a work request.
    fn doorbell(&mut self, core: &mut Core) -> c_int;

    fn destroy(&mut self, core: &mut Core);

    /// Whether it takes sends that are posted now.
    fn is_connected(&self) -> bool;

    /// Whether its rings are empty.
    fn is_drained(&self, core: &Core) -> bool;

    /// Whether no work request will succeed here any more.
    fn is_dead(&self) -> bool;
}

/// All but the QPs, whose machines work on it.
pub(super) struct Core {
    pub(super) kind: Kind,
    pub(super) memory: Memory,
    pub(super) cqs: BTreeMap<u32, Cq>,
    pub(super) srqs: BTreeMap<u32, Srq>,
    pub(super) events: Events,
    pub(super) whims: Whims,
    /// The application has asked for a QP to be moved to an error state.
    pub(super) may_kill: bool,
    pub(super) fates: BTreeMap<Uid, Fate>,
    /// What the provider must not have done.
    pub(super) faults: Vec<String>,
    /// What has happened so far, for whoever has to understand a failure.
    pub(super) log: Vec<String>,
    last_handle: u32,
}

impl Core {
    pub(super) fn handle(&mut self) -> u32 {
        self.last_handle += 1;
        self.last_handle
    }

    fn was_crowded(&self, cq: u32) -> bool {
        self.cqs.get(&cq).is_some_and(|cq| cq.was_crowded)
    }

    pub(super) fn note(&mut self, line: String) {
        self.log.push(line);
    }

    /// A QP has taken a work request.
    pub(super) fn take(&mut self, uid: Option<Uid>, holder: u32) {
        if let Some(uid) = uid {
            self.fates.entry(uid).or_default().holder = Some(holder);
        }
    }

    /// A work request has succeeded without a CQE.
    pub(super) fn pass_silently(&mut self, uid: Option<Uid>) {
        self.settle(uid, IBV_WC_SUCCESS, false);
    }

    /// A work request, or a mark, has ended: posts its CQE; false if there is no room.
    pub(super) fn complete(&mut self, cq: u32, cqe: &Cqe, uid: Option<Uid>) -> bool {
        let posted = self.post(cq, cqe);
        self.settle(uid, cqe.status, !posted);
        posted
    }

    /// A work request is thrown away; its CQE is not even tried.
    pub(super) fn discard(&mut self, uid: Option<Uid>, status: ibv_wc_status) {
        self.settle(uid, status, true);
    }

    /// Posts a CQE; false, and CQ_ERR, if there is no room.
    pub(super) fn post(&mut self, cq: u32, cqe: &Cqe) -> bool {
        let Some(cq) = self.cqs.get_mut(&cq) else {
            self.faults.push("a QP outlives its CQ".into());
            return false;
        };
        let before = cq.events;
        let posted = cq.post(&self.memory, cqe);
        let fate = match cq.events - before {
            _ if !posted => ", dropped",
            0 => "",
            _ => ", which raises the event",
        };
        let Cqe {
            id, status, qp_num, ..
        } = cqe;
        let user = cq.user;
        self.note(format!("CQE {id:#x} of QP {qp_num}: {status}{fate}"));
        if !posted {
            self.raise(user, IBV_EVENT_CQ_ERR);
        }
        posted
    }

    pub(super) fn raise(&mut self, element: u64, event: ibv_event_type) {
        self.note(format!("event {event}"));
        self.events.raise(element, event);
    }

    fn settle(&mut self, uid: Option<Uid>, status: ibv_wc_status, dropped: bool) {
        let Some(uid) = uid else { return };
        let fate = self.fates.entry(uid).or_default();
        // siw flushes some READs twice.
        fate.status.get_or_insert(status);
        fate.dropped |= dropped;
    }
}

/// Who a QP is, and where its CQEs go.
#[derive(Debug, Clone, Copy)]
pub(super) struct Place {
    pub(super) handle: u32,
    pub(super) number: u32,
    /// The user's address of it.
    pub(super) user: u64,
    pub(super) send_cq: u32,
    pub(super) recv_cq: u32,
    pub(super) srq: Option<u32>,
}

/// A QP.
#[derive(Debug)]
pub(super) struct Qp {
    pub(super) place: Place,
    pub(super) machine: Box<dyn Machine>,
}

impl Qp {
    pub(super) fn uses_cq(&self, cq: u32) -> bool {
        self.place.send_cq == cq || self.place.recv_cq == cq
    }
}

/// One device.
pub(super) struct Kernel {
    pub(super) core: Core,
    pub(super) qps: BTreeMap<u32, Qp>,
    last_number: u32,
}

impl Kernel {
    pub(super) fn new(kind: Kind, whims: Whims) -> Self {
        Self {
            core: Core {
                kind,
                memory: Memory::new(),
                cqs: BTreeMap::new(),
                srqs: BTreeMap::new(),
                events: Events::new(),
                whims,
                may_kill: false,
                fates: BTreeMap::new(),
                faults: Vec::new(),
                log: Vec::new(),
                last_handle: 0,
            },
            qps: BTreeMap::new(),
            last_number: 16,
        }
    }

    /// The number of the next QP: siw gives out the lowest that is free (`siw_qp.c: siw_qp_add`), rxe
    /// none twice (`rxe_pool.c: rxe_alloc`).
    pub(super) fn number(&mut self) -> u32 {
        if self.core.kind == Kind::Siw {
            let taken = |number| self.qps.values().any(|qp| qp.place.number == number);
            return (1..).find(|number| !taken(*number)).unwrap();
        }
        self.last_number += 1;
        self.last_number
    }

    /// `ibv_modify_qp`; 0 or a positive errno.
    pub(super) fn modify(&mut self, qp: u32, to: ibv_qp_state) -> c_int {
        let Some(qp) = self.qps.get_mut(&qp) else {
            return libc::EINVAL;
        };
        let cqs = [qp.place.send_cq, qp.place.recv_cq];
        let lives = qp.machine.is_connected() && !qp.machine.is_dead();
        let core = &mut self.core;
        if to == IBV_QPS_ERR
            && lives
            && !core.may_kill
            && !cqs.iter().any(|cq| core.was_crowded(*cq))
        {
            let number = qp.place.number;
            core.faults
                .push(format!("QP {number} lives, and is killed"));
        }
        qp.machine.modify(core, to)
    }

    /// `ibv_query_qp`. linux 6.1's siw says RESET (`siw_verbs.c: siw_query_qp`).
    pub(super) fn query(&mut self, qp: u32) -> ibv_qp_state {
        if self.core.kind == Kind::Siw && self.core.whims.below(2) == 1 {
            return IBV_QPS_RESET;
        }
        self.qps
            .get(&qp)
            .map_or(IBV_QPS_RESET, |qp| qp.machine.state())
    }

    /// `POST_SEND` without a work request; 0 or a positive errno.
    pub(super) fn doorbell(&mut self, qp: u32) -> c_int {
        self.qps
            .get_mut(&qp)
            .map_or(libc::EINVAL, |qp| qp.machine.doorbell(&mut self.core))
    }

    pub(super) fn destroy(&mut self, qp: u32) {
        if let Some(mut qp) = self.qps.remove(&qp) {
            qp.machine.destroy(&mut self.core);
        }
    }

    /// libibverbs waits until all that were read are acknowledged (rdma-core v44.0
    /// `cmd_qp.c: ibv_cmd_destroy_qp`). The application acknowledges at once.
    pub(super) fn expect_acknowledged(&mut self, what: &str, reported: u32, acknowledged: u32) {
        if reported != acknowledged {
            self.core.faults.push(format!(
                "the destruction of a {what} hangs: {reported} events, {acknowledged} acknowledged"
            ));
        }
    }

    /// What has become of a work request.
    pub(super) fn fate(&self, uid: Uid) -> Fate {
        self.core.fates.get(&uid).copied().unwrap_or_default()
    }

    /// Whether the provider may take the CQ for overrun.
    pub(super) fn was_crowded(&self, cq: u32) -> bool {
        self.core.was_crowded(cq)
    }

    /// Whether the CQ has dropped a CQE.
    pub(super) fn has_overrun(&self, cq: u32) -> bool {
        self.core.cqs.get(&cq).is_some_and(|cq| cq.has_overrun)
    }

    /// Whether no work request will succeed on the QP any more.
    pub(super) fn is_dead(&self, qp: u32) -> bool {
        self.qps.get(&qp).is_some_and(|qp| qp.machine.is_dead())
    }

    pub(super) fn act(&mut self, qp: u32, act: Act) {
        if let Some(qp) = self.qps.get_mut(&qp) {
            qp.machine.act(&mut self.core, act);
        }
    }

    /// Some of what is left to do, and other things that just happen to be now.
    pub(super) fn breathe(&mut self) {
        for _ in 0..self.core.whims.below(4) {
            let at = self.core.whims.below(self.qps.len());
            if let Some(qp) = self.qps.values_mut().nth(at) {
                qp.machine.step(&mut self.core);
            }
        }
    }

    /// Flushes the QP's rings, as far as that is left to do; a last CQE may still be missing.
    pub(super) fn drain(&mut self, qp: u32) {
        if let Some(qp) = self.qps.get_mut(&qp) {
            while !qp.machine.is_drained(&self.core) && qp.machine.step(&mut self.core) {}
        }
    }

    /// All that is left to do; whether there was anything.
    pub(super) fn run(&mut self) -> bool {
        let mut busy = false;
        loop {
            let mut steps = 0;
            for qp in self.qps.values_mut() {
                steps += u32::from(qp.machine.step(&mut self.core));
            }
            if steps == 0 {
                return busy;
            }
            busy = true;
        }
    }
}
