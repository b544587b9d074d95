// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause

//! A QP of `rdma_rxe`.
//!
//! | here | linux 6.1 | linux 6.12 |
//! |---|---|---|
//! | [`start`](Machine::start) | `rxe_req.c: rxe_requester`, in the doorbell | the same, in its own time |
//! | [`acknowledge`](Machine::acknowledge) | `rxe_comp.c: complete_ack`, `do_complete`: the index moves, then the CQE is posted | the same |
//! | [`fail`](Machine::fail) | `rxe_comp.c: rxe_completer`, `COMPST_ERROR` | the same |
//! | [`is_stuck`](Machine::is_stuck) | `rxe_completer` with `need_retry` | cannot be: `rxe_requester` calls `rxe_qp_error` |
//! | [`flush_send`](Machine::flush_send) | `rxe_drain_resp_pkts`: each CQE is tried | `flush_send_queue`: after a drop none is tried |
//! | [`flush_recv`](Machine::flush_recv) | `rxe_resp.c: check_resource` | `flush_recv_queue`: of an SRQ nothing, but the event |
//! | [`reset`](Machine::reset) | `rxe_qp.c: rxe_qp_reset` | the same; must not find anything queued |

mod flush;
mod traffic;

use std::ffi::c_int;

use kernel_abi::rxe::{CreateQpResp, RdmaWr, RecvWqe, SendWqe, Sge};
use rdma_core_sys::{
    IBV_QPS_ERR, IBV_QPS_INIT, IBV_QPS_RESET, IBV_QPS_RTR, IBV_QPS_RTS, IBV_SEND_SIGNALED,
    IBV_WC_RDMA_READ, IBV_WC_RDMA_WRITE, IBV_WC_RETRY_EXC_ERR, IBV_WC_SEND, IBV_WR_RDMA_READ,
    IBV_WR_RDMA_WRITE, ibv_qp_state, ibv_wc_opcode, ibv_wc_status,
};

use super::FAULTY;
use super::cq::Cqe;
use super::kernel::{self, Act, Core, Kind, Place, Uid};
use super::memory::Memory;
use super::queue::Queue;
use super::srq::Taken;

/// Bytes of a send or receive with one entry.
const SEND_ELEMENT: usize = size_of::<SendWqe<RdmaWr>>() + size_of::<Sge>();
pub(super) const RECV_ELEMENT: usize = size_of::<RecvWqe>() + size_of::<Sge>();

/// A CQE that is about to be posted: the index of its ring has moved.
#[derive(Debug, Clone, Copy)]
struct Late {
    cq: u32,
    cqe: Cqe,
    uid: Option<Uid>,
}

/// A flush of one queue, which its task is to do or is at.
#[derive(Debug, Clone, Copy)]
struct Flush {
    /// No CQE was dropped so far.
    tells: bool,
    has_begun: bool,
}

impl Flush {
    const SCHEDULED: Self = Self {
        tells: true,
        has_begun: false,
    };
}

#[derive(Debug)]
pub(super) struct Machine {
    place: Place,
    /// linux 6.12.
    is_newer: bool,
    signal_all: bool,
    state: ibv_qp_state,
    sends: Queue,
    recvs: Option<Queue>,
    /// `req.wqe_index`.
    started: u32,
    /// The requester has met a faulty send and goes no further (`req.state` ERROR).
    has_stopped: bool,
    peer_is_silent: bool,
    /// `resp.wqe` of an SRQ, a copy.
    held: Option<Taken>,
    late_send: Option<Late>,
    late_recv: Option<Late>,
    flush_send: Option<Flush>,
    flush_recv: Option<Flush>,
    last: Option<Late>,
}

/// The send at `slot`.
struct Send {
    id: u64,
    uid: Option<Uid>,
    is_faulty: bool,
    is_signaled: bool,
    opcode: ibv_wc_opcode,
}

/// Cookie and buffer of the receive at `slot`.
pub(super) fn recv(memory: &Memory, slot: usize) -> Taken {
    let wqe: RecvWqe = Queue::read(memory, slot);
    let sge: Sge = memory.read(slot + RecvWqe::SGE_OFFSET);
    (wqe.wr_id, (wqe.dma.num_sge > 0).then_some(sge.addr))
}

impl Machine {
    pub(super) fn new(
        core: &mut Core,
        place: Place,
        sends: u32,
        recvs: u32,
        signal_all: bool,
    ) -> (Self, CreateQpResp) {
        let sends = Queue::new(&mut core.memory, sends, SEND_ELEMENT);
        let recvs = place
            .srq
            .is_none()
            .then(|| Queue::new(&mut core.memory, recvs, RECV_ELEMENT));
        let answer = CreateQpResp {
            rq_mi: recvs.map(|recvs| recvs.info()).unwrap_or_default(),
            sq_mi: sends.info(),
        };
        let machine = Self {
            place,
            is_newer: core.kind == Kind::Rxe612,
            signal_all,
            state: IBV_QPS_RESET,
            sends,
            recvs,
            started: 0,
            has_stopped: false,
            peer_is_silent: false,
            held: None,
            late_send: None,
            late_recv: None,
            flush_send: None,
            flush_recv: None,
            last: None,
        };
        (machine, answer)
    }

    fn send(&self, memory: &Memory, slot: usize) -> Send {
        let wqe: SendWqe<RdmaWr> = Queue::read(memory, slot);
        let sge: Sge = memory.read(slot + SendWqe::<RdmaWr>::SGE_OFFSET);
        let has_sge = wqe.dma.num_sge > 0;
        Send {
            id: wqe.wr.wr_id,
            uid: has_sge.then_some(sge.addr),
            is_faulty: has_sge && sge.lkey == FAULTY,
            is_signaled: self.signal_all || wqe.wr.send_flags & IBV_SEND_SIGNALED != 0,
            opcode: match wqe.wr.opcode {
                IBV_WR_RDMA_READ => IBV_WC_RDMA_READ,
                IBV_WR_RDMA_WRITE => IBV_WC_RDMA_WRITE,
                _ => IBV_WC_SEND,
            },
        }
    }

    fn cqe(&self, id: u64, status: ibv_wc_status, opcode: ibv_wc_opcode) -> Cqe {
        Cqe {
            id,
            status,
            opcode,
            qp_num: self.place.number,
            solicited: false,
        }
    }

    /// `rxe_qp_error`: both tasks are scheduled.
    fn die(&mut self) {
        self.state = IBV_QPS_ERR;
        self.flush_send.get_or_insert(Flush::SCHEDULED);
        self.flush_recv.get_or_insert(Flush::SCHEDULED);
    }

    /// Posts the CQEs that are late; whether there were any.
    fn post_late(&mut self, core: &mut Core) -> bool {
        let late = [
            (self.late_send.take(), false),
            (self.late_recv.take(), true),
        ];
        for (late, is_recv) in late {
            let Some(late) = late else { continue };
            if core.complete(late.cq, &late.cqe, late.uid) {
                self.last = Some(late);
            } else if is_recv {
                // RESPST_ERR_CQ_OVERFLOW
                self.die();
            }
        }
        late.iter().any(|(late, _)| late.is_some())
    }

    fn reset(&mut self, core: &mut Core) {
        // The tasks are stopped where they are, which is behind the CQE.
        while self.post_late(core) {}
        if self.sends.head(&core.memory).is_some() {
            let fault =
                "a QP is reset with sends in its queue: linux 6.12's requester trips over them";
            core.faults.push(fault.into());
        }
        while self.sends.head(&core.memory).is_some() {
            self.sends.advance_consumer(&core.memory);
        }
        while let Some(recvs) = &mut self.recvs
            && recvs.head(&core.memory).is_some()
        {
            recvs.advance_consumer(&core.memory);
        }
        self.started = self.sends.consumer();
        self.has_stopped = false;
        self.peer_is_silent = false;
        self.flush_send = None;
        self.flush_recv = None;
        self.last = None;
        self.state = IBV_QPS_RESET;
    }
}

impl kernel::Machine for Machine {
    fn act(&mut self, core: &mut Core, act: Act) {
        let lives = self.state == IBV_QPS_RTS;
        let hears = lives || self.state == IBV_QPS_RTR;
        match act {
            Act::Work if lives => {
                self.start(core);
            }
            Act::Answer if lives && !self.peer_is_silent => self.acknowledge(core),
            Act::Refuse if lives => {
                if let Some(send) = self.oldest(core).filter(|send| !send.is_faulty) {
                    self.fail(core, &send, IBV_WC_RETRY_EXC_ERR);
                }
            }
            Act::Take if hears => self.take(core),
            Act::Receive if hears => self.receive(core),
            Act::Die if hears => self.die(),
            Act::Silence => self.peer_is_silent = true,
            Act::Repeat => {
                if let Some(late) = self.last {
                    core.post(late.cq, &late.cqe);
                }
            }
            _ => {}
        }
    }

    fn step(&mut self, core: &mut Core) -> bool {
        if self.post_late(core) {
            return true;
        }
        if self.state == IBV_QPS_ERR {
            let busy = self.flush_send.is_some() || self.flush_recv.is_some();
            let is_at_work = |flush: Option<Flush>| flush.is_some_and(|flush| flush.has_begun);
            // The tasks run side by side, but for the lock of linux 6.12.
            let (sends, recvs) = (is_at_work(self.flush_send), is_at_work(self.flush_recv));
            let is_recvs_turn = if self.is_newer && (sends || recvs) {
                recvs
            } else {
                core.whims.below(2) == 1
            };
            if self.flush_recv.is_some() && (self.flush_send.is_none() || is_recvs_turn) {
                self.flush_recv(core);
            } else {
                self.flush_send(core);
            }
            return busy;
        }
        if self.state == IBV_QPS_RTS && self.has_stopped && !self.is_stuck() {
            self.acknowledge(core);
            return true;
        }
        false
    }

    fn modify(&mut self, core: &mut Core, to: ibv_qp_state) -> c_int {
        self.wait(core);
        let allowed = match to {
            IBV_QPS_RESET => true,
            IBV_QPS_ERR => self.state != IBV_QPS_RESET,
            IBV_QPS_INIT => self.state == IBV_QPS_RESET,
            IBV_QPS_RTR => self.state == IBV_QPS_INIT,
            IBV_QPS_RTS => self.state == IBV_QPS_RTR,
            _ => false,
        };
        match to {
            _ if !allowed => return libc::EINVAL,
            IBV_QPS_RESET => self.reset(core),
            IBV_QPS_ERR => self.die(),
            _ => self.state = to,
        }
        0
    }

    fn state(&self) -> ibv_qp_state {
        self.state
    }

    fn doorbell(&mut self, core: &mut Core) -> c_int {
        self.wait(core);
        if self.state < IBV_QPS_RTS {
            return libc::EINVAL;
        }
        if self.state == IBV_QPS_ERR {
            // The requester looks at the index it has come to, which a flush leaves behind.
            let finds_one = self.started != self.sends.producer(&core.memory);
            if finds_one {
                self.started = self.sends.next(self.started);
            }
            if self.is_newer && finds_one {
                self.die();
            } else if self.is_newer || finds_one {
                self.flush_send.get_or_insert(Flush::SCHEDULED);
            }
            return 0;
        }
        if !self.is_newer {
            while self.start(core) {}
        }
        0
    }

    fn destroy(&mut self, core: &mut Core) {
        while self.post_late(core) {}
    }

    fn is_connected(&self) -> bool {
        self.state == IBV_QPS_RTS
    }

    fn is_drained(&self, core: &Core) -> bool {
        let is_empty = |queue: &Queue| queue.head(&core.memory).is_none();
        is_empty(&self.sends) && self.recvs.as_ref().is_none_or(is_empty)
    }

    fn is_dead(&self) -> bool {
        self.state == IBV_QPS_ERR || (self.state == IBV_QPS_RTS && self.has_stopped)
    }
}
