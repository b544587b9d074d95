// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause

//! What a living QP does: requester, completer, responder.

use kernel_abi::rxe::{RdmaWr, SendWqe, wqe_state};
use rdma_core_sys::{IBV_WC_LOC_PROT_ERR, IBV_WC_RECV, IBV_WC_SUCCESS, ibv_wc_status};

use super::{Late, Machine, Send, recv};
use crate::model::kernel::Core;

impl Machine {
    /// The requester sends the next WQE, or finds it faulty; whether there was one.
    pub(super) fn start(&mut self, core: &mut Core) -> bool {
        if self.has_stopped || !self.sends.is_waiting(&core.memory, self.started) {
            return false;
        }
        let slot = self.sends.slot(self.started);
        let send = self.send(&core.memory, slot);
        core.take(send.uid, self.place.handle);
        self.started = self.sends.next(self.started);
        let state = if send.is_faulty {
            wqe_state::ERROR
        } else {
            wqe_state::PENDING
        };
        core.memory
            .write(slot + SendWqe::<RdmaWr>::STATE_OFFSET, state);
        if send.is_faulty {
            self.has_stopped = true;
            if self.is_newer {
                self.die();
            }
        }
        true
    }

    /// The oldest send that has gone out.
    pub(super) fn oldest(&self, core: &Core) -> Option<Send> {
        let slot = self.sends.head(&core.memory)?;
        (self.started != self.sends.consumer()).then(|| self.send(&core.memory, slot))
    }

    pub(super) fn acknowledge(&mut self, core: &mut Core) {
        let Some(send) = self.oldest(core).filter(|_| self.late_send.is_none()) else {
            return;
        };
        if send.is_faulty {
            return self.fail(core, &send, IBV_WC_LOC_PROT_ERR);
        }
        self.sends.advance_consumer(&core.memory);
        if send.is_signaled {
            self.late_send = Some(self.late(IBV_WC_SUCCESS, &send));
        } else {
            core.pass_silently(send.uid);
        }
    }

    pub(super) fn fail(&mut self, core: &mut Core, send: &Send, status: ibv_wc_status) {
        self.post_late(core);
        self.sends.advance_consumer(&core.memory);
        self.late_send = Some(self.late(status, send));
        self.die();
    }

    pub(super) fn late(&self, status: ibv_wc_status, send: &Send) -> Late {
        Late {
            cq: self.place.send_cq,
            cqe: self.cqe(send.id, status, send.opcode),
            uid: send.uid,
        }
    }

    /// The completer has a faulty send before it, and no answer of the peer's to go on with.
    pub(super) fn is_stuck(&self) -> bool {
        self.has_stopped && self.peer_is_silent && !self.is_newer
    }

    pub(super) fn take(&mut self, core: &mut Core) {
        if self.held.is_some() || self.late_recv.is_some() {
            return;
        }
        if let Some(srq) = self.place.srq {
            self.held = core
                .srqs
                .get_mut(&srq)
                .and_then(|srq| srq.take(&core.memory));
            core.take(self.held.and_then(|(_, uid)| uid), self.place.handle);
        }
    }

    pub(super) fn receive(&mut self, core: &mut Core) {
        self.take(core);
        if self.late_recv.is_some() {
            return;
        }
        let taken = match &mut self.recvs {
            Some(recvs) => recvs.head(&core.memory).map(|slot| {
                recvs.advance_consumer(&core.memory);
                recv(&core.memory, slot)
            }),
            None => self.held.take(),
        };
        if let Some((id, uid)) = taken {
            self.late_recv = Some(Late {
                cq: self.place.recv_cq,
                cqe: self.cqe(id, IBV_WC_SUCCESS, IBV_WC_RECV),
                uid,
            });
        }
    }
}
