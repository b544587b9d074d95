// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause

//! Waking whoever sleeps in `ibv_get_cq_event` for a completion that the library made.
//!
//! The sleeper waits for the kernel, which raises the event for a CQE of its own on that CQ and for
//! nothing else. So one is caused there, which polls pass over: the *bell*.

use std::sync::Arc;

use rdma_core_sys::{IBV_QPT_RC, ibv_qp_cap, ibv_qp_init_attr};

use crate::cookie::Queue;
use crate::cq::CompletionQueue;
use crate::driver::Driver;
use crate::lock::lock;
use crate::qp;
use crate::queue_pair::QueuePair;

impl<D: Driver> QueuePair<D> {
    /// Causes a CQE on one of this dead QP's CQs. No lock is held.
    #[cold]
    pub(crate) fn ring_bell(&self, cq: &Arc<CompletionQueue<D>>) {
        if Arc::ptr_eq(cq, &self.send_cq) {
            D::ring_bell(self, Queue::Send);
        } else {
            D::ring_bell(self, Queue::Recv);
        }
    }

    /// Creates a QP on the CQ of `queue`, and destroys it.
    pub(crate) fn ring_by_another(&self, queue: Queue) {
        let life = lock(&self.life);
        if life.gone {
            return;
        }
        // SAFETY: libibverbs' half is there until `life` is gone, and what it names as long.
        let (pd, cq) = unsafe {
            let base = &*self.base.0;
            let cq = if queue == Queue::Send {
                base.send_cq
            } else {
                base.recv_cq
            };
            (base.pd, cq)
        };
        let mut attr = ibv_qp_init_attr {
            send_cq: cq,
            recv_cq: cq,
            qp_type: IBV_QPT_RC,
            cap: ibv_qp_cap {
                max_send_wr: 1,
                max_recv_wr: 1,
                max_send_sge: 1,
                max_recv_sge: 1,
                max_inline_data: 0,
            },
            ..Default::default()
        };
        // SAFETY: objects of ours, which stay while `life` is held.
        let clapper = unsafe { qp::create::<D>(pd, &raw mut attr) };
        drop(life);
        if clapper.is_null() {
            self.context.note("a waiter could not be woken: no QP");
            return;
        }
        // SAFETY: just created, known to nobody else.
        unsafe { qp::destroy::<D>(clapper) };
    }
}
