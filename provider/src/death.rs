// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause

//! Sign of death → flush: the one path that whatever shows a QP's death takes.
//!
//! 1. *Close* both queues: what is posted from now on is the library's.
//! 2. *Kick*: move the QP to ERR, also if it is there already, so that the kernel flushes what it
//!    has.
//! 3. *Settle* each queue when its kernel is done (`flush.rs`): what is left in the ledger then, the
//!    library flushes, behind the kernel's own CQEs.
//!
//! When the kernel is done differs. siw flushes before the move to ERR returns (linux 6.1, 6.12
//! `siw_qp.c: siw_qp_modify`, under the state lock), so a queue is settled once its CQ has been
//! read empty after that. rxe's tasks flush later, but leave nothing unless the CQ is full. If
//! something is left when the ring is drained and the CQ read empty, a *mark* behind all other
//! entries comes back as their last CQE, or is put again.

use kernel_abi::uverbs;
use rdma_core_sys::{
    IBV_QP_STATE, IBV_QPS_ERR, IBV_QPS_RESET, ibv_event_type, ibv_qp_attr, ibv_qp_attr_mask,
};

use crate::cookie::{Mark, Queue};
use crate::driver::{CompletionRing, Driver, RecvRing, SendRing};
use crate::errno::{Errno, Result};
use crate::last_wqe::LastWqe;
use crate::lock::{MutexGuard, lock};
use crate::queue_pair::QueuePair;

/// What showed that a QP is dead.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Cause {
    /// The application moved it to an error state.
    Modified,
    /// A CQE that is not a success.
    Completion,
    /// The kernel has flushed the mark.
    Flushed,
    /// An asynchronous event, of this `enum ibv_event_type`.
    Event(ibv_event_type),
    /// The kernel refuses the doorbell.
    Doorbell,
    /// The kernel has stopped at a work request.
    Stuck,
    /// `ibv_query_qp` said so.
    Queried,
    /// A CQ was found full: CQEs may have been dropped.
    Overrun,
}

/// What is known of a QP's life. Under a lock that is taken before all others, and is held while the
/// kernel moves the QP: its holder may make system calls.
#[derive(Debug, Default)]
pub(crate) struct Life {
    pub(crate) dead: bool,
    /// `ibv_destroy_qp` is at work, or done: libibverbs' half must not be used.
    pub(crate) gone: bool,
    /// A sign of death that came meanwhile.
    pub(crate) missed: Option<Cause>,
    pub(crate) last_wqe: LastWqe,
    /// Events of the life before a RESET may be unread.
    pub(crate) may_have_earlier_events: bool,
}

/// `IBV_QP_STATE` alone.
pub(crate) const STATE: ibv_qp_attr_mask = IBV_QP_STATE;

impl<D: Driver> QueuePair<D> {
    /// The QP is dead: flushes it, unless that was done, or it has not been brought up: what befalls its
    /// CQ or device does not concern one that has nothing to flush. No lock is held.
    pub(crate) fn die(&self, cause: Cause) {
        let mut life = lock(&self.life);
        if life.gone {
            life.missed.get_or_insert(cause);
            return;
        }
        let is_down = D::RESETS && self.remembered_state() == IBV_QPS_RESET;
        if !life.dead && !is_down {
            // Its failure is dealt with there.
            let _ = self.flush(&mut life, cause);
            self.see_to_rest(life);
        }
    }

    /// Closes the queues and kicks the kernel.
    ///
    /// # Errors
    ///
    /// What the kernel says to the move to ERR. The QP is dead all the same.
    pub(crate) fn flush(&self, life: &mut MutexGuard<'_, Life>, cause: Cause) -> Result<()> {
        life.dead = true;
        self.owe_last_wqe(life, cause);
        self.begin_claim(life);
        self.context
            .note(&format!("QP {} is dead: {cause:?}", self.number));
        {
            let mut send = lock(&self.send);
            send.ledger.close();
            if cause == Cause::Modified && self.srq().is_none() {
                // The application knows: no event has to tell it.
                send.ring.unmark();
            }
        }
        if let Some(recv) = self.own_recv() {
            recv.ledger.close();
        }
        self.send_cq.enlist(self, Queue::Send);
        self.recv_cq.enlist(self, Queue::Recv);
        // Also if the kernel is gone, or has moved the QP by itself.
        self.remember_error();
        let kicked = if self.flushes_unasked(cause) {
            Ok(())
        } else {
            self.kick()
        };
        if D::FLUSHES_AT_ONCE || kicked.is_err() {
            // A kernel that has no such QP any more flushes nothing.
            self.note_flushed();
        }
        kicked
    }

    /// Whether the kernel has seen the death itself, and has nothing left to flush that it could have
    /// missed. Asked of QPs with an SRQ alone, whose every kick raises LAST_WQE_REACHED again (linux
    /// 6.12 `rxe_resp.c: flush_recv_queue`).
    fn flushes_unasked(&self, cause: Cause) -> bool {
        matches!(cause, Cause::Completion | Cause::Queried)
            && !D::FLUSHES_AT_ONCE
            && self.srq().is_some()
            && lock(&self.send).ring.is_drained()
    }

    fn note_flushed(&self) {
        lock(&self.send).flushed = true;
        if let Some(mut recv) = self.own_recv() {
            recv.queue.flushed = true;
        }
    }

    /// Makes the kernel flush, again if need be. The lock of `life` is held.
    ///
    /// # Errors
    ///
    /// `EIO` of a device that is gone.
    pub(crate) fn kick(&self) -> Result<()> {
        let mut attr = ibv_qp_attr {
            qp_state: IBV_QPS_ERR,
            ..Default::default()
        };
        // SAFETY: the attributes have the state that the mask tells of.
        unsafe { self.modify_kernel(&raw mut attr, STATE) }
    }

    /// `ibv_modify_qp`(3) as the kernel does it. The lock of `life` is held, which is not gone.
    ///
    /// # Safety
    ///
    /// `attr` are attributes of which the mask tells the valid ones.
    pub(crate) unsafe fn modify_kernel(
        &self,
        attr: *mut ibv_qp_attr,
        mask: ibv_qp_attr_mask,
    ) -> Result<()> {
        let mut request = uverbs::Request::<uverbs::ModifyQp>::zeroed();
        let mask = mask.try_into().map_err(|_| Errno::EINVAL)?;
        // SAFETY: the caller's attributes; the request is as large as its size says. libibverbs'
        // half is there until `life` is gone.
        Errno::check(unsafe {
            (self.context.library.calls.ibv_cmd_modify_qp)(
                self.base.0,
                attr,
                mask,
                (&raw mut request).cast(),
                size_of_val(&request),
            )
        })
    }

    pub(crate) fn put_mark(&self, queue: Queue) {
        let owner = self.id;
        let id = |attempt| {
            Mark {
                queue,
                owner,
                attempt,
            }
            .encode()
        };
        if queue == Queue::Send {
            let send = &mut *lock(&self.send);
            let put = send.ring.mark(id(send.marks));
            send.marks = send.marks.wrapping_add(put.into());
        } else if let Some(mut recv) = self.own_recv() {
            let recv = &mut *recv.queue;
            let put = recv.ring.mark(id(recv.marks));
            recv.marks = recv.marks.wrapping_add(put.into());
        }
    }

    /// Puts a mark behind all that is in the ring of a dying queue, and kicks. No lock is held.
    ///
    /// Its CQE also wakes a waiter.
    pub(crate) fn mark_end(&self, queue: Queue) {
        let life = lock(&self.life);
        if life.gone || !life.dead {
            return;
        }
        self.put_mark(queue);
        if self.kick().is_err() {
            self.note_flushed();
        }
    }

    /// What a flush is followed by, when the lock is released.
    pub(crate) fn see_to_rest(&self, life: MutexGuard<'_, Life>) {
        drop(life);
        self.settle_if_quiet();
        self.announce_last_wqe();
    }

    /// Settles the queues of which the kernel has nothing more to say, as far as can be told without
    /// polling. No lock is held.
    pub(crate) fn settle_if_quiet(&self) {
        for cq in self.cqs() {
            loop {
                let mut state = cq.lock();
                if state.ring.peek(0).is_none() {
                    cq.settle_quiet(&mut state);
                }
                let (wake, chore) = (state.take_wake(self.id), state.chores.pop());
                drop(state);
                if wake {
                    self.ring_bell(cq);
                }
                match chore {
                    Some(chore) => chore.run(),
                    None => break,
                }
            }
        }
    }
}
