// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause

//! The receive that a dead QP had taken from its SRQ.
//!
//! Linux 6.12's rxe forgets it: `rxe_resp.c: flush_recv_queue` raises the event and returns, without a
//! look at the message that was half received. (6.1 flushes it, siw too.) The SRQ's ring shows how
//! many were taken, the ledger which of them have not completed, but nothing shows by whom. Yet a QP
//! takes them in order and holds one at most: one that is older than a receive which a QP has
//! completed is not held by that QP. What no living QP can hold is a dead one's.

use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak};

use crate::cookie::{Cookie, Queue};
use crate::driver::{CompletionRing, Driver, RecvRing};
use crate::flush::Due;
use crate::last_wqe::LastWqe;
use crate::ledger::{Taken, is_before};
use crate::lock::lock;
use crate::queue_pair::QueuePair;
use crate::srq::SharedQueue;

impl<D: Driver> QueuePair<D> {
    /// This QP is dead, and its kernel has finished with its receives: if it held one, that is flushed,
    /// now or when it is clear. No lock is held.
    pub(crate) fn claim(&self) {
        let (Some(srq), Some(me)) = (self.srq(), self.arc()) else {
            return;
        };
        if lock(&self.life).last_wqe != LastWqe::Owed {
            return;
        }
        if !self.take_what_is_certain(srq) {
            lock(&srq.claimants).push(Arc::downgrade(&me));
            // Relaxed: looked at when completions are polled; the next one will do.
            srq.claimed.store(true, Ordering::Relaxed);
        }
    }

    /// Flushes the receive that this dead QP held; false if it may hold one and that is not certain.
    fn take_what_is_certain(&self, srq: &SharedQueue<D>) -> bool {
        // Relaxed: written under the locks of CQs; an older one leaves more open, not less.
        let living: Vec<u32> = srq
            .users()
            .iter()
            .filter(|user| !lock(&user.send).ledger.is_closed())
            .map(|user| user.shared_from.load(Ordering::Relaxed))
            .collect();
        let may_hold = |from: u32, taken: &Taken| !is_before(taken.sequence, from);
        // Relaxed: as above.
        let from = self.shared_from.load(Ordering::Relaxed);
        let mut state = self.recv_cq.lock();
        let mut recv = srq.lock();
        let end = recv.ledger.first_untaken(recv.ring.untaken());
        let mut open = recv.ledger.taken_before(end);
        open.retain(|taken| may_hold(from, taken));
        // Those that were completed before the death, and are not polled yet.
        for ahead in 0..state.ring.capacity() {
            let Some(cqe) = state.ring.peek(ahead) else {
                break;
            };
            if let Some(cookie) = Cookie::decode(cqe.cookie)
                && cookie.queue == Queue::Shared
                && cookie.owner == srq.id
            {
                open.retain(|taken| taken.name != cookie.entry);
            }
        }
        let certain = open
            .iter()
            .find(|taken| !living.iter().any(|from| may_hold(*from, taken)));
        if let Some(wr_id) = certain.and_then(|taken| recv.ledger.complete(taken.name)) {
            state.due.push(Due {
                owner: self.id,
                queue: Queue::Shared,
                wr_id,
            });
            drop(recv);
            let wake = state.take_wake();
            drop(state);
            if wake {
                self.ring_bell(&self.recv_cq);
            }
            return true;
        }
        open.is_empty()
    }
}

impl<D: Driver> SharedQueue<D> {
    /// A receive has completed: what was open may be certain now. No lock is held.
    pub(crate) fn look_again(&self) {
        let claimants = std::mem::take(&mut *lock(&self.claimants));
        let mut open = Vec::new();
        for claimant in claimants {
            if let Some(pair) = claimant.upgrade()
                && !lock(&pair.life).gone
                && !pair.take_what_is_certain(self)
            {
                open.push(Weak::clone(&claimant));
            }
        }
        let mut claimants = lock(&self.claimants);
        claimants.append(&mut open);
        // Relaxed: as in `claim`.
        self.claimed.store(!claimants.is_empty(), Ordering::Relaxed);
    }
}
