// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause

//! A QP of `siw`.
//!
//! | here | linux 6.1, 6.12 |
//! |---|---|
//! | [`activate`](Machine::activate) | `siw_qp.c: siw_activate_tx_from_sq` |
//! | [`process`](Machine::process) | `siw_qp_tx.c: siw_qp_sq_process`; of a faulty send only that one is told |
//! | [`respond`](Machine::respond) | `siw_qp_rx.c: siw_rdmap_complete`: a READ completes behind later sends |
//! | [`respond_badly`](Machine::respond_badly) | `siw_rdmap_complete`: the READs behind it are forgotten |
//! | [`close`](Machine::close) | `siw_qp.c: siw_qp_llp_close` |
//! | [`flush_sends`](Machine::flush_sends) | `siw_qp.c: siw_sq_flush`; a READ twice if it is queued too |
//! | [`flush_recvs`](Machine::flush_recvs) | `siw_qp.c: siw_rq_flush` |

use std::collections::VecDeque;
use std::ffi::c_int;

use kernel_abi::siw::{CreateQpResp, Rqe, Sqe, flags, opcode};
use rdma_core_sys::{
    IBV_EVENT_QP_FATAL, IBV_EVENT_SQ_DRAINED, IBV_QPS_ERR, IBV_QPS_INIT, IBV_QPS_RTS,
    IBV_WC_LOC_PROT_ERR, IBV_WC_LOC_QP_OP_ERR, IBV_WC_RDMA_READ, IBV_WC_RDMA_WRITE, IBV_WC_RECV,
    IBV_WC_SEND, IBV_WC_SUCCESS, IBV_WC_WR_FLUSH_ERR, ibv_qp_state, ibv_wc_status,
};

use super::FAULTY;
use super::cq::Cqe;
use super::entries::Entries;
use super::kernel::{self, Act, Core, Place, Uid};

/// READs that may be outstanding.
const ORD: usize = 2;

/// What the transmit side has in hand.
#[derive(Debug, Clone, Copy)]
struct Active {
    sqe: Sqe,
    /// SIW_WR_QUEUED: not begun.
    is_queued: bool,
    /// A READ that is in the ORQ too.
    is_requested: bool,
}

#[derive(Debug)]
pub(super) struct Machine {
    place: Place,
    state: ibv_qp_state,
    sends: Entries<Sqe>,
    recvs: Option<Entries<Rqe>>,
    active: Option<Active>,
    /// READs that wait for their data.
    orq: VecDeque<Sqe>,
    /// The head of the ORQ is disabled: a flush does not look behind it.
    orq_is_blocked: bool,
    receiving: Option<Rqe>,
    /// The connection is gone, and the state does not say so.
    is_cut: bool,
    /// The connection is about to be closed.
    is_closing: bool,
    in_destroy: bool,
    last: Option<(u32, Cqe)>,
}

fn is_read(sqe: &Sqe) -> bool {
    sqe.opcode == opcode::READ
}

fn uid(sqe: &Sqe) -> Option<Uid> {
    (sqe.flags & flags::VALID != 0).then_some(sqe.sge[0].laddr)
}

/// What a receive is to the model; nothing if it is a mark.
pub(super) fn recv(rqe: &Rqe) -> Option<Uid> {
    (rqe.flags & flags::VALID != 0).then_some(rqe.sge[0].laddr)
}

impl Machine {
    pub(super) fn new(
        core: &mut Core,
        place: Place,
        sends: u32,
        recvs: u32,
    ) -> (Self, CreateQpResp) {
        let sends = Entries::new(&mut core.memory, sends);
        let recvs = place
            .srq
            .is_none()
            .then(|| Entries::new(&mut core.memory, recvs));
        let answer = CreateQpResp {
            qp_id: place.number,
            num_sqe: sends.count(),
            num_rqe: recvs.as_ref().map_or(0, Entries::count),
            pad: 0,
            sq_key: sends.key(),
            rq_key: recvs.as_ref().map_or(0, Entries::key),
        };
        let machine = Self {
            place,
            state: IBV_QPS_INIT,
            sends,
            recvs,
            active: None,
            orq: VecDeque::new(),
            orq_is_blocked: false,
            receiving: None,
            is_cut: false,
            is_closing: false,
            in_destroy: false,
            last: None,
        };
        (machine, answer)
    }

    /// Takes the next SQE in hand, if the hand is empty.
    fn activate(&mut self, core: &mut Core) {
        if self.active.is_some() {
            return;
        }
        if let Some(sqe) = self.sends.take(&core.memory) {
            core.take(uid(&sqe), self.place.handle);
            self.active = Some(Active {
                sqe,
                is_queued: true,
                is_requested: false,
            });
            self.request();
        }
    }

    /// Enters a READ in hand into the ORQ, if there is room.
    fn request(&mut self) {
        if let Some(active) = &mut self.active
            && is_read(&active.sqe)
            && !active.is_requested
            && self.orq.len() < ORD
        {
            self.orq.push_back(active.sqe);
            active.is_requested = true;
        }
    }

    /// Sends what is in hand, and takes up the next.
    fn process(&mut self, core: &mut Core) {
        self.activate(core);
        let Some(Active {
            sqe, is_requested, ..
        }) = self.active
        else {
            return;
        };
        if self.is_cut || (is_read(&sqe) && !is_requested) {
            return;
        }
        if sqe.sge[0].lkey == FAULTY {
            if is_read(&sqe) {
                self.orq.pop_back();
            }
            self.active = None;
            self.is_cut = true;
            self.complete(core, &sqe, IBV_WC_LOC_QP_OP_ERR);
            core.raise(self.place.user, IBV_EVENT_QP_FATAL);
            return;
        }
        self.active = None;
        if !is_read(&sqe) {
            self.succeed(core, &sqe);
        }
        self.activate(core);
        if let Some(active) = &mut self.active {
            active.is_queued = core.whims.below(2) == 0;
        }
    }

    /// The data of the oldest READ arrives.
    fn respond(&mut self, core: &mut Core) {
        if let Some(sqe) = self.orq.pop_front() {
            if self.active.is_some_and(|active| active.sqe.id == sqe.id) {
                self.active = None;
            }
            self.succeed(core, &sqe);
            self.request();
        }
    }

    /// It cannot be placed: the connection is going to be terminated.
    fn respond_badly(&mut self, core: &mut Core) {
        if let Some(sqe) = self.orq.front().copied() {
            self.complete(core, &sqe, IBV_WC_LOC_PROT_ERR);
            self.orq_is_blocked = true;
            self.is_cut = true;
            self.is_closing = true;
        }
    }

    fn succeed(&mut self, core: &mut Core, sqe: &Sqe) {
        if sqe.flags & flags::SIGNALLED == 0 {
            core.pass_silently(uid(sqe));
        } else {
            self.complete(core, sqe, IBV_WC_SUCCESS);
        }
    }

    fn complete(&mut self, core: &mut Core, sqe: &Sqe, status: ibv_wc_status) -> bool {
        let cqe = Cqe {
            id: sqe.id,
            status,
            opcode: match sqe.opcode {
                opcode::READ => IBV_WC_RDMA_READ,
                opcode::WRITE => IBV_WC_RDMA_WRITE,
                _ => IBV_WC_SEND,
            },
            qp_num: self.place.number,
            solicited: sqe.flags & flags::SOLICITED != 0,
        };
        let posted = core.complete(self.place.send_cq, &cqe, uid(sqe));
        if posted && uid(sqe).is_some() {
            self.last = Some((self.place.send_cq, cqe));
        }
        posted
    }

    fn complete_recv(&mut self, core: &mut Core, rqe: &Rqe, status: ibv_wc_status) -> bool {
        let cqe = Cqe {
            id: rqe.id,
            status,
            opcode: IBV_WC_RECV,
            qp_num: self.place.number,
            solicited: false,
        };
        let posted = core.complete(self.place.recv_cq, &cqe, recv(rqe));
        if posted && recv(rqe).is_some() {
            self.last = Some((self.place.recv_cq, cqe));
        }
        posted
    }

    fn take(&mut self, core: &mut Core) {
        if self.receiving.is_some() {
            return;
        }
        self.receiving = match (&mut self.recvs, self.place.srq) {
            (Some(recvs), _) => recvs.take(&core.memory),
            (None, Some(srq)) => core.srqs.get_mut(&srq).and_then(|srq| {
                let (id, uid) = srq.take(&core.memory)?;
                let mut rqe = Rqe {
                    id,
                    flags: flags::VALID,
                    ..Rqe::default()
                };
                rqe.sge[0].laddr = uid.unwrap_or_default();
                Some(rqe)
            }),
            (None, None) => None,
        };
        core.take(self.receiving.as_ref().and_then(recv), self.place.handle);
    }

    fn close(&mut self, core: &mut Core) {
        self.state = IBV_QPS_ERR;
        self.is_closing = false;
        self.flush_sends(core);
        self.flush_recvs(core);
    }

    fn flush_sends(&mut self, core: &mut Core) {
        while let Some(sqe) = self.orq.front().copied()
            && !self.orq_is_blocked
        {
            if !self.complete(core, &sqe, IBV_WC_WR_FLUSH_ERR) {
                break;
            }
            self.orq.pop_front();
        }
        if let Some(active) = self.active.take()
            && (!is_read(&active.sqe) || active.is_queued)
        {
            self.complete(core, &active.sqe, IBV_WC_WR_FLUSH_ERR);
        }
        let mut found = false;
        while let Some(sqe) = self.sends.flushable(&core.memory) {
            found = true;
            core.take(uid(&sqe), self.place.handle);
            if !self.complete(core, &sqe, IBV_WC_WR_FLUSH_ERR) {
                break;
            }
            self.sends.take_any(&core.memory);
        }
        if found && !self.in_destroy {
            core.raise(self.place.user, IBV_EVENT_SQ_DRAINED);
        }
    }

    fn flush_recvs(&mut self, core: &mut Core) {
        if let Some(rqe) = self.receiving.take() {
            self.complete_recv(core, &rqe, IBV_WC_WR_FLUSH_ERR);
        }
        while let Some(recvs) = &self.recvs
            && let Some(rqe) = recvs.flushable(&core.memory)
        {
            core.take(recv(&rqe), self.place.handle);
            if !self.complete_recv(core, &rqe, IBV_WC_WR_FLUSH_ERR) {
                break;
            }
            if let Some(recvs) = &mut self.recvs {
                recvs.take_any(&core.memory);
            }
        }
    }
}

impl kernel::Machine for Machine {
    fn act(&mut self, core: &mut Core, act: Act) {
        let lives = self.state == IBV_QPS_RTS && !self.is_cut;
        match act {
            Act::Connect if self.state == IBV_QPS_INIT => self.state = IBV_QPS_RTS,
            Act::Work if lives => self.process(core),
            Act::Answer if lives => self.respond(core),
            Act::Refuse if lives => self.respond_badly(core),
            Act::Take if lives => self.take(core),
            Act::Receive if lives => {
                self.take(core);
                if let Some(rqe) = self.receiving.take() {
                    self.complete_recv(core, &rqe, IBV_WC_SUCCESS);
                }
            }
            Act::Die if self.state != IBV_QPS_ERR => self.close(core),
            Act::Repeat => {
                if let Some((cq, cqe)) = self.last {
                    core.post(cq, &cqe);
                }
            }
            _ => {}
        }
    }

    fn step(&mut self, core: &mut Core) -> bool {
        if self.is_closing {
            self.close(core);
            return true;
        }
        false
    }

    fn modify(&mut self, core: &mut Core, to: ibv_qp_state) -> c_int {
        if to == IBV_QPS_ERR {
            match self.state {
                IBV_QPS_RTS => {
                    self.flush_sends(core);
                    self.flush_recvs(core);
                }
                IBV_QPS_INIT => self.flush_recvs(core),
                _ => {}
            }
            self.state = IBV_QPS_ERR;
            self.is_closing = false;
        }
        0
    }

    /// linux 6.12's answer; 6.1 has none.
    fn state(&self) -> ibv_qp_state {
        self.state
    }

    fn doorbell(&mut self, core: &mut Core) -> c_int {
        match self.state {
            IBV_QPS_RTS => {
                if self.active.is_none() {
                    self.activate(core);
                    for _ in 0..core.whims.below(3) {
                        self.process(core);
                    }
                }
                0
            }
            IBV_QPS_ERR => 0,
            _ => libc::ENOTCONN,
        }
    }

    fn destroy(&mut self, core: &mut Core) {
        self.in_destroy = true;
        self.modify(core, IBV_QPS_ERR);
    }

    fn is_connected(&self) -> bool {
        self.state == IBV_QPS_RTS
    }

    fn is_drained(&self, _core: &Core) -> bool {
        true
    }

    fn is_dead(&self) -> bool {
        self.state == IBV_QPS_ERR || self.is_cut
    }
}
