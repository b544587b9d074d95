// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause

//! What the tasks of a dead QP do.

use rdma_core_sys::{IBV_EVENT_QP_LAST_WQE_REACHED, IBV_WC_RECV, IBV_WC_WR_FLUSH_ERR};

use super::{Flush, Late, Machine, recv};
use crate::model::kernel::Core;

impl Machine {
    pub(super) fn flush_send(&mut self, core: &mut Core) {
        let Some(mut flush) = self.flush_send.take() else {
            return;
        };
        flush.has_begun = true;
        let Some(slot) = self.sends.head(&core.memory) else {
            return;
        };
        let send = self.send(&core.memory, slot);
        let late = self.late(IBV_WC_WR_FLUSH_ERR, &send);
        core.take(send.uid, self.place.handle);
        if self.is_newer {
            flush.tells = self.flush_one(core, flush, late);
            self.sends.advance_consumer(&core.memory);
        } else {
            self.sends.advance_consumer(&core.memory);
            self.late_send = Some(late);
        }
        self.flush_send = Some(flush);
    }

    pub(super) fn flush_recv(&mut self, core: &mut Core) {
        let Some(mut flush) = self.flush_recv.take() else {
            return;
        };
        flush.has_begun = true;
        let cq = self.place.recv_cq;
        let Some(recvs) = &mut self.recvs else {
            if self.is_newer {
                core.raise(self.place.user, IBV_EVENT_QP_LAST_WQE_REACHED);
            } else if let Some((id, uid)) = self.held.take() {
                let cqe = self.cqe(id, IBV_WC_WR_FLUSH_ERR, IBV_WC_RECV);
                self.late_recv = Some(Late { cq, cqe, uid });
            }
            return;
        };
        let Some(slot) = recvs.head(&core.memory) else {
            return;
        };
        let (id, uid) = recv(&core.memory, slot);
        core.take(uid, self.place.handle);
        let cqe = self.cqe(id, IBV_WC_WR_FLUSH_ERR, IBV_WC_RECV);
        let late = Late { cq, cqe, uid };
        if self.is_newer {
            flush.tells = self.flush_one(core, flush, late);
        } else {
            self.late_recv = Some(late);
        }
        if let Some(recvs) = &mut self.recvs {
            recvs.advance_consumer(&core.memory);
        }
        self.flush_recv = Some(flush);
    }

    /// A command on the QP waits for the flush that is at work: on linux 6.12 both do all under
    /// `state_lock` (`rxe_comp.c: rxe_completer`, `rxe_resp.c: rxe_receiver`).
    pub(super) fn wait(&mut self, core: &mut Core) {
        if !self.is_newer {
            return;
        }
        while self.flush_send.is_some_and(|flush| flush.has_begun) {
            self.flush_send(core);
        }
        while self.flush_recv.is_some_and(|flush| flush.has_begun) {
            self.flush_recv(core);
        }
    }

    /// Whether the next one is told too.
    pub(super) fn flush_one(&mut self, core: &mut Core, flush: Flush, late: Late) -> bool {
        if !flush.tells {
            core.discard(late.uid, late.cqe.status);
            return false;
        }
        core.complete(late.cq, &late.cqe, late.uid)
    }
}
