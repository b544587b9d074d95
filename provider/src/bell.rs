// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause

//! Waking whoever sleeps in `ibv_get_cq_event` for a completion that the library made.
//!
//! The sleeper waits for the kernel, which raises the event for a CQE of its own on that CQ and for
//! nothing else. So one is caused there, which polls pass over: the *bell*.

use std::sync::Arc;

use rdma_core_sys::ibv_cq;

use crate::clapper::{self, Clapper};
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
        let another = unsafe { clapper::create_qp::<D>((*self.base.0).pd, self.cq_of(queue), 1) };
        drop(life);
        if another.is_null() {
            self.context.note("a waiter could not be woken: no QP");
            return;
        }
        // SAFETY: just created, known to nobody else.
        unsafe { qp::destroy::<D>(another) };
    }

    /// Has the clapper of the CQ of `queue` strike, which is made now if there is none.
    pub(crate) fn ring_by_clapper(&self, queue: Queue) {
        let life = lock(&self.life);
        if life.gone {
            return;
        }
        let mut clapper = lock(match queue {
            Queue::Send => &self.send_cq.clapper,
            Queue::Recv | Queue::Shared => &self.recv_cq.clapper,
        });
        if clapper.is_none() {
            // SAFETY: the CQ of a QP that is there; the clapper goes before it does (`cq::destroy`).
            match unsafe { Clapper::new(self.cq_of(queue)) } {
                Ok(made) => *clapper = Some(made),
                Err(errno) => {
                    let line = format!("a waiter could not be woken: {errno:?}");
                    return self.context.note(&line);
                }
            }
        }
        if let Some(clapper) = &*clapper {
            clapper.strike();
        }
    }

    /// libibverbs' half of a CQ. `life` is locked and not gone.
    fn cq_of(&self, queue: Queue) -> *mut ibv_cq {
        // SAFETY: libibverbs' half is there until `life` is gone.
        unsafe {
            if queue == Queue::Send {
                (*self.base.0).send_cq
            } else {
                (*self.base.0).recv_cq
            }
        }
    }
}
