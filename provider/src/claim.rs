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
use crate::ledger::{Taken, is_before};
use crate::lock::lock;
use crate::queue_pair::QueuePair;
use crate::srq::SharedQueue;

/// A dead QP that may hold a receive of its SRQ.
#[derive(Debug)]
pub(crate) struct Claim<D: Driver> {
    pair: Weak<QueuePair<D>>,
    /// Its kernel has finished with its receives.
    finished: bool,
}

impl<D: Driver> QueuePair<D> {
    /// This QP has died: from now on it is noted which receives the others complete. The lock of `life`
    /// is held, which is not gone.
    pub(crate) fn begin_claim(&self) {
        let (Some(srq), Some(me)) = (self.srq(), self.arc()) else {
            return;
        };
        if self.kernel_raises_last_wqe() {
            let pair = Arc::downgrade(&me);
            let mut claims = lock(&srq.claims);
            claims.push(Claim {
                pair,
                finished: false,
            });
            // Relaxed: looked at when completions are polled; the next one will do.
            srq.claimed.store(true, Ordering::Relaxed);
        }
    }

    /// The kernel has finished with this dead QP's receives: if it held one, that is flushed, now or
    /// when it is clear. No lock is held.
    pub(crate) fn claim(&self) {
        let Some(srq) = self.srq() else { return };
        for claim in lock(&srq.claims).iter_mut() {
            claim.finished |= std::ptr::eq(claim.pair.as_ptr(), self);
        }
        srq.look_again();
    }

    /// The QP is no longer dead, or no longer there.
    pub(crate) fn withdraw_claim(&self) {
        let Some(srq) = self.srq() else { return };
        let mut claims = lock(&srq.claims);
        claims.retain(|claim| !std::ptr::eq(claim.pair.as_ptr(), self));
        // Relaxed: as in `begin_claim`.
        srq.claimed.store(!claims.is_empty(), Ordering::Relaxed);
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
        let finished: Vec<_> = lock(&self.claims)
            .iter()
            .filter(|claim| claim.finished)
            .filter_map(|claim| claim.pair.upgrade())
            .collect();
        for pair in finished {
            if pair.take_what_is_certain(self) {
                pair.withdraw_claim();
            }
        }
    }
}
