// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause

//! What the verbs of a QP, the pollers of its CQs and its death share.
//!
//! A poller finds it by a cookie and uses it under the lock of the CQ. Whoever has to do with it
//! outside of that lock, because of a system call, holds the `Arc`, so that it outlives a
//! concurrent `ibv_destroy_qp`.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Weak};

use rdma_core_sys::{IBV_QPS_ERR, ibv_qp, ibv_qp_state};

use crate::context::Context;
use crate::cookie::OwnerId;
use crate::cq::CompletionQueue;
use crate::death::Life;
use crate::doorbell::Doorbell;
use crate::driver::{Driver, SendRing};
use crate::lock::{Mutex, lock};
use crate::own_queue::{OwnGuard, OwnQueue};
use crate::post_send::SendQueue;
use crate::srq::SharedQueue;

/// A QP's queues, and the CQs that they complete to.
#[derive(Debug)]
pub(crate) struct QueuePair<D: Driver> {
    pub(crate) context: Arc<Context>,
    pub(crate) id: OwnerId,
    pub(crate) number: u32,
    /// libibverbs' half; to be used under the lock of [`life`](Self::life), if that is not gone.
    pub(crate) base: Base,
    pub(crate) doorbell: Doorbell,
    pub(crate) send: Mutex<SendQueue<D::Sends>>,
    pub(crate) recv: Receiver<D>,
    pub(crate) send_cq: Arc<CompletionQueue<D>>,
    pub(crate) recv_cq: Arc<CompletionQueue<D>>,
    pub(crate) life: Mutex<Life>,
    /// The sequence number behind the last receive from the SRQ that was seen to complete here: what
    /// was taken from the SRQ before that, this QP does not hold. Written under the receive CQ's lock.
    pub(crate) shared_from: AtomicU32,
    /// That a receive may have been posted to a dead QP; see [`suspect`](Self::suspect).
    suspicion: AtomicU64,
    me: Weak<Self>,
}

/// Where libibverbs' half of a QP is.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Base(pub(crate) *mut ibv_qp);

// SAFETY: an address, which is used under a lock (`QueuePair::base`).
unsafe impl Send for Base {}
// SAFETY: as above.
unsafe impl Sync for Base {}

/// The state that libibverbs remembers of a QP that is there: the last one that `ibv_modify_qp` set,
/// `ibv_query_qp` saw, or we did.
pub(crate) fn remembered(qp: *mut ibv_qp) -> ibv_qp_state {
    // Relaxed: nothing else is read on the strength of it.
    state_word(qp).load(Ordering::Relaxed)
}

/// Has libibverbs remember another state of a QP that is there.
pub(crate) fn remember(qp: *mut ibv_qp, state: ibv_qp_state) {
    // Relaxed: as above.
    state_word(qp).store(state, Ordering::Relaxed);
}

/// The word of a QP that is there as long as the reference is used.
fn state_word<'a>(qp: *mut ibv_qp) -> &'a AtomicU32 {
    // SAFETY: libibverbs' half; the word is aligned. libibverbs reads and writes it with plain
    // accesses (rdma-core v44.0 `verbs.c: ibv_modify_qp`), maybe meanwhile: it is old or new then.
    unsafe { AtomicU32::from_ptr(&raw mut (*qp).state) }
}

/// Where a QP's receives are posted.
#[derive(Debug)]
pub(crate) enum Receiver<D: Driver> {
    Own(OwnQueue<D::Recvs>),
    Shared(Arc<SharedQueue<D>>),
    /// Created with `max_recv_wr` 0 by a driver that maps nothing then.
    Nothing,
}

/// What [`QueuePair::new`] is made from.
pub(crate) struct Parts<D: Driver> {
    pub(crate) context: Arc<Context>,
    pub(crate) id: OwnerId,
    pub(crate) number: u32,
    pub(crate) base: Base,
    pub(crate) doorbell: Doorbell,
    pub(crate) send: SendQueue<D::Sends>,
    pub(crate) recv: Receiver<D>,
    pub(crate) send_cq: Arc<CompletionQueue<D>>,
    pub(crate) recv_cq: Arc<CompletionQueue<D>>,
    pub(crate) shared_from: u32,
}

impl<D: Driver> QueuePair<D> {
    pub(crate) fn new(parts: Parts<D>) -> Arc<Self> {
        Arc::new_cyclic(|me| Self {
            context: parts.context,
            id: parts.id,
            number: parts.number,
            base: parts.base,
            doorbell: parts.doorbell,
            send: Mutex::new(parts.send),
            recv: parts.recv,
            send_cq: parts.send_cq,
            recv_cq: parts.recv_cq,
            life: Mutex::new(Life::default()),
            shared_from: AtomicU32::new(parts.shared_from),
            suspicion: AtomicU64::new(0),
            me: Weak::clone(me),
        })
    }

    /// The owner of this reference; `None` while it is being dropped.
    pub(crate) fn arc(&self) -> Option<Arc<Self>> {
        self.me.upgrade()
    }

    /// The receive queue of a QP that does not use an SRQ, which is locked.
    pub(crate) fn own_recv(&self) -> Option<OwnGuard<'_, D::Recvs>> {
        match &self.recv {
            Receiver::Own(recv) => Some(recv.lock()),
            Receiver::Shared(_) | Receiver::Nothing => None,
        }
    }

    /// The SRQ that the QP takes its receives from.
    pub(crate) fn srq(&self) -> Option<&Arc<SharedQueue<D>>> {
        match &self.recv {
            Receiver::Shared(srq) => Some(srq),
            Receiver::Own(_) | Receiver::Nothing => None,
        }
    }

    /// The state that libibverbs remembers. The lock of `life` is held, which is not gone.
    pub(crate) fn remembered_state(&self) -> ibv_qp_state {
        remembered(self.base.0)
    }

    /// Has libibverbs remember that the QP is in ERR. The lock of `life` is held, which is not gone.
    pub(crate) fn remember_error(&self) {
        remember(self.base.0, IBV_QPS_ERR);
    }

    /// The CQs that the queues complete to, each once.
    pub(crate) fn cqs(&self) -> impl Iterator<Item = &Arc<CompletionQueue<D>>> {
        let both = !Arc::ptr_eq(&self.send_cq, &self.recv_cq);
        [&self.send_cq, &self.recv_cq]
            .into_iter()
            .take(if both { 2 } else { 1 })
    }

    /// Notes that a receive was posted where none was outstanding: if the QP died unseen before,
    /// nothing will ever tell of it.
    ///
    /// What clears the suspicion is a send that was posted later and succeeds. If somebody sleeps, the
    /// kernel is asked at once: nobody will arm or poll.
    pub(crate) fn suspect(&self) {
        let since = lock(&self.send).ledger.next();
        // Relaxed: looked at by a thread that arms or polls later than it posted, or in vain.
        self.suspicion
            .store(SUSPECTED | u64::from(since), Ordering::Relaxed);
        self.recv_cq.suspect();
        if self.recv_cq.armed.is_set() && self.suspicion() == Suspicion::Pressing {
            self.ask_after();
        }
    }

    /// How suspect the QP is.
    pub(crate) fn suspicion(&self) -> Suspicion {
        // Relaxed: as above.
        let suspicion = self.suspicion.load(Ordering::Relaxed);
        if suspicion & SUSPECTED == 0 {
            return Suspicion::None;
        }
        let [a, b, c, d, ..] = suspicion.to_le_bytes();
        let send = lock(&self.send);
        if send.ledger.is_closed()
            || send
                .ledger
                .is_proven_since(u32::from_le_bytes([a, b, c, d]))
        {
            self.absolve();
            Suspicion::None
        } else if send.ledger.awaits_cqe() && !send.ring.is_drained() {
            Suspicion::Waits
        } else {
            Suspicion::Pressing
        }
    }

    /// The QP was seen alive: receives that were posted before are flushed if it dies.
    pub(crate) fn absolve(&self) {
        // Relaxed: as above.
        self.suspicion.store(0, Ordering::Relaxed);
    }
}

/// Whether a QP may have died without a sign.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Suspicion {
    None,
    /// It may, but the kernel still has a send, whose CQE will tell. (One that has its CQE may have succeeded
    /// before the QP died.)
    Waits,
    /// It may, and nothing else will tell.
    Pressing,
}

const SUSPECTED: u64 = 1 << 32;
