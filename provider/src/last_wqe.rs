// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause

//! `IBV_EVENT_QP_LAST_WQE_REACHED`: once for each death of a QP that uses an SRQ, when all that it
//! took from the SRQ has completed, unless a catastrophic error was reported for it.
//!
//! | kernel | what it raises | what is made of it |
//! |---|---|---|
//! | rxe, linux 6.1 | nothing | the announcer's event |
//! | rxe, linux 6.12 | the event, each time its receive task runs in ERR (`rxe_resp.c: flush_recv_queue`) | the first in its time, or the announcer's; the others are not told |
//! | siw | nothing; but SQ_DRAINED when the mark is flushed | SQ_DRAINED, or the announcer's event |
//! | siw with the companion | that, and the event at the end of the connection (`kernel_abi::siw::LlpEvent`) | whichever is read first; the other is not told |
//! | rxe with the companion | an error first, if its responder has refused a request and no receive tells | the error alone |

use rdma_core_sys::{
    IBV_EVENT_QP_ACCESS_ERR, IBV_EVENT_QP_FATAL, IBV_EVENT_QP_REQ_ERR, ibv_event_type,
};

use crate::announcer;
use crate::death::{Cause, Life};
use crate::driver::{Driver, SendRing};
use crate::lock::lock;
use crate::queue_pair::QueuePair;

/// Whether the event is to come.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum LastWqe {
    /// The QP lives, has no SRQ, or a catastrophic error was told.
    #[default]
    NotDue,
    Owed,
    Told,
}

/// An error of a QP after which nothing more is said of it.
pub(crate) fn is_catastrophic(event: ibv_event_type) -> bool {
    matches!(
        event,
        IBV_EVENT_QP_FATAL | IBV_EVENT_QP_REQ_ERR | IBV_EVENT_QP_ACCESS_ERR
    )
}

impl<D: Driver> QueuePair<D> {
    /// The QP is dead, of `cause`.
    pub(crate) fn owe_last_wqe(&self, life: &mut Life, cause: Cause) {
        let told = matches!(cause, Cause::Event(event) if is_catastrophic(event));
        if self.srq().is_some() && !told {
            life.last_wqe = LastWqe::Owed;
        }
    }

    /// Sees that an event will come, if one is owed. No lock is held.
    pub(crate) fn announce_last_wqe(&self) {
        let life = lock(&self.life);
        if life.last_wqe != LastWqe::Owed || life.gone {
            return;
        }
        let raised = if D::MARKS_AHEAD {
            // When the mark was flushed.
            !lock(&self.send).ring.is_marked()
        } else {
            self.kernel_raises_last_wqe()
        };
        drop(life);
        if !raised {
            announcer::announce(self);
        }
    }

    /// Whether the kernel raises the event by itself. The lock of `life` is held, which is not gone.
    pub(crate) fn kernel_raises_last_wqe(&self) -> bool {
        *self.context.raises_last_wqe.get_or_init(|| {
            // SAFETY: libibverbs' half is there until `life` is gone, and its context as long.
            unsafe { D::raises_last_wqe((*self.base.0).context) }
        })
    }

    /// The application is about to be told; whether it may be.
    ///
    /// `ours`: the event is the announcer's, which the kernel does not count as this QP's.
    pub(crate) fn tell_last_wqe(&self, ours: bool) -> bool {
        let mut life = lock(&self.life);
        if life.gone || !life.dead || life.last_wqe != LastWqe::Owed {
            return false;
        }
        life.last_wqe = LastWqe::Told;
        if ours {
            announcer::uncount(&life, self.base);
        }
        true
    }

    /// A catastrophic error is told: the event is not due any more.
    pub(crate) fn forgo_last_wqe(&self) {
        let mut life = lock(&self.life);
        if life.last_wqe == LastWqe::Owed {
            life.last_wqe = LastWqe::NotDue;
        }
    }
}
