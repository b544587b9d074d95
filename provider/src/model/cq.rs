// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause

//! The kernel's side of a CQ, in either layout.

use std::mem::offset_of;
use std::sync::atomic::{Ordering, fence};

use kernel_abi::siw::{self, notify};
use kernel_abi::{rxe, uverbs};
use rdma_core_sys::{
    IBV_WC_LOC_PROT_ERR, IBV_WC_LOC_QP_OP_ERR, IBV_WC_RDMA_READ, IBV_WC_RDMA_WRITE, IBV_WC_RECV,
    IBV_WC_SUCCESS, IBV_WC_WR_FLUSH_ERR, ibv_wc_opcode, ibv_wc_status,
};

use super::memory::Memory;
use super::queue::Queue;

/// A completion as the kernel makes it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Cqe {
    pub(super) id: u64,
    pub(super) status: ibv_wc_status,
    pub(super) opcode: ibv_wc_opcode,
    pub(super) qp_num: u32,
    /// What the work request of siw's CQE asked for: the *sender's* flag (`siw_sqe_complete`).
    pub(super) solicited: bool,
}

/// A CQ.
pub(super) struct Cq {
    /// The user's address of it.
    pub(super) user: u64,
    ring: Ring,
    /// Completion events raised.
    pub(super) events: u32,
    /// A CQE found no room.
    pub(super) has_overrun: bool,
    /// It was half full once: more than the application has asked for. The provider may take it for
    /// overrun.
    pub(super) was_crowded: bool,
}

enum Ring {
    /// `armed`: rxe's `notify`, which it keeps to itself.
    Rxe { queue: Queue, armed: bool },
    /// `put` entries of `count` were written so far.
    Siw { offset: usize, count: u32, put: u32 },
}

impl Cq {
    pub(super) fn rxe(memory: &mut Memory, user: u64, cqe: u32) -> (Self, rxe::CreateCqResp) {
        let queue = Queue::new(memory, cqe, size_of::<uverbs::Wc>());
        let answer = rxe::CreateCqResp { mi: queue.info() };
        let armed = false;
        (Self::over(user, Ring::Rxe { queue, armed }), answer)
    }

    pub(super) fn siw(memory: &mut Memory, user: u64, cqe: u32) -> (Self, siw::CreateCqResp) {
        let count = cqe.next_power_of_two();
        let entries = count as usize * size_of::<siw::Cqe>();
        let offset = memory.allocate(entries + size_of::<siw::CqCtrl>());
        let answer = siw::CreateCqResp {
            cq_id: 0,
            num_cqe: count,
            cq_key: offset as u64,
        };
        let put = 0;
        (Self::over(user, Ring::Siw { offset, count, put }), answer)
    }

    fn over(user: u64, ring: Ring) -> Self {
        Self {
            user,
            ring,
            events: 0,
            has_overrun: false,
            was_crowded: false,
        }
    }

    /// `ibv_cmd_req_notify_cq` of rxe.
    pub(super) fn arm(&mut self) {
        if let Ring::Rxe { armed, .. } = &mut self.ring {
            *armed = true;
        }
    }

    /// `ibv_cmd_resize_cq` of rxe: where the new ring is, if it can hold what is unread.
    pub(super) fn resize(&mut self, memory: &mut Memory, cqe: u32) -> Option<rxe::CreateCqResp> {
        let Ring::Rxe { queue, .. } = &mut self.ring else {
            return None;
        };
        let moved = queue.resize::<uverbs::Wc>(memory, cqe);
        moved.then(|| rxe::CreateCqResp { mi: queue.info() })
    }

    /// Posts a CQE, and raises the event if the CQ is armed; false if there is no room.
    pub(super) fn post(&mut self, memory: &Memory, cqe: &Cqe) -> bool {
        let posted = self.put(memory, cqe);
        self.has_overrun |= !posted;
        posted
    }

    fn put(&mut self, memory: &Memory, cqe: &Cqe) -> bool {
        let (posted, raised) = match &mut self.ring {
            Ring::Rxe { queue, armed } => {
                let posted = queue.produce(memory, rxe_cqe(cqe));
                self.was_crowded |= queue.is_crowded(memory);
                (posted, posted && std::mem::take(armed))
            }
            Ring::Siw { offset, count, put } => {
                let entry = *offset + (*put % *count) as usize * size_of::<siw::Cqe>();
                let flags = memory.byte(entry + siw::Cqe::FLAGS_OFFSET);
                if flags.load(Ordering::Acquire) != 0 {
                    return false;
                }
                // All but the flags, which are 0 and stay so until the end.
                memory.write(entry, siw_cqe(cqe));
                flags.store(1, Ordering::Release);
                *put = put.wrapping_add(1);
                let half = *offset
                    + (put.wrapping_sub(*count / 2) % *count) as usize * size_of::<siw::Cqe>();
                let flags = memory.byte(half + siw::Cqe::FLAGS_OFFSET);
                self.was_crowded |= flags.load(Ordering::Relaxed) != 0;
                // The smp_store_mb that recycles the work queue entry.
                fence(Ordering::SeqCst);
                let word = *offset + *count as usize * size_of::<siw::Cqe>();
                let word = memory.word(word + offset_of!(siw::CqCtrl, flags));
                let wanted = word.load(Ordering::Relaxed);
                let solicited = cqe.solicited && wanted & notify::SOLICITED != 0;
                let raised = solicited || wanted & notify::NEXT_COMPLETION != 0;
                if raised {
                    word.store(notify::NOT, Ordering::Relaxed);
                }
                (true, raised)
            }
        };
        self.events += u32::from(raised);
        posted
    }
}

/// linux 6.1 `rxe_comp.c: make_send_cqe`, `rxe_resp.c: do_complete`: the opcode of a success alone.
fn rxe_cqe(cqe: &Cqe) -> uverbs::Wc {
    uverbs::Wc {
        wr_id: cqe.id,
        status: cqe.status,
        opcode: if cqe.status == IBV_WC_SUCCESS {
            cqe.opcode
        } else {
            0
        },
        qp_num: cqe.qp_num,
        ..Default::default()
    }
}

fn siw_cqe(cqe: &Cqe) -> siw::Cqe {
    siw::Cqe {
        id: cqe.id,
        flags: 0,
        opcode: match cqe.opcode {
            IBV_WC_RECV => siw::opcode::RECEIVE,
            IBV_WC_RDMA_READ => siw::opcode::READ,
            IBV_WC_RDMA_WRITE => siw::opcode::WRITE,
            _ => siw::opcode::SEND,
        },
        status: match cqe.status {
            IBV_WC_SUCCESS => siw::status::SUCCESS,
            IBV_WC_WR_FLUSH_ERR => siw::status::WR_FLUSH_ERR,
            IBV_WC_LOC_QP_OP_ERR => siw::status::LOC_QP_OP_ERR,
            IBV_WC_LOC_PROT_ERR => siw::status::LOC_PROT_ERR,
            _ => siw::status::GENERAL_ERR,
        },
        bytes: 0,
        imm_data: 0,
        qp_id: cqe.qp_num.into(),
    }
}
