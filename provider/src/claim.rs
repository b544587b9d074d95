// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause

//! The receive that a dead QP had taken from its SRQ.
//!
//! Linux 6.12's rxe forgets it: `rxe_resp.c: flush_recv_queue` raises the event and returns, without a
//! look at the message that was half received. (6.1 flushes it, siw too.) The SRQ's ring shows how
//! many were taken, the ledger which of them have not completed, but nothing shows by whom. Yet a QP
//! takes them in order and holds one at most: one that is older than a receive which a QP has
//! completed is not held by that QP. What only one can hold, it holds; and what no living QP can hold
//! is a dead one's.
//!
//! Where CQEs were dropped, it is not one receive that may be missing but any number, of any kernel and
//! also before one that has completed. They too are a dead QP's as soon as no living one can hold them.
//!
//! A QP that is destroyed with a receive in hand has nobody to flush it for. It leaves an *orphan*,
//! which is retired when it is clear. Where as many are missing as there are who can hold one, each
//! does.

use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak};

use crate::cookie::Queue;
use crate::death::Life;
use crate::driver::{CompletionRing, Driver, RecvRing};
use crate::flush::Due;
use crate::ledger::{Taken, is_before};
use crate::lock::lock;
use crate::queue_pair::QueuePair;
use crate::srq::SharedQueue;

/// The dead QPs of an SRQ that may hold a receive, and the destroyed ones that did.
#[derive(Debug)]
pub(crate) struct Claims<D: Driver> {
    claims: Vec<Claim<D>>,
    orphans: Vec<Span>,
}

impl<D: Driver> Default for Claims<D> {
    fn default() -> Self {
        Self {
            claims: Vec::new(),
            orphans: Vec::new(),
        }
    }
}

impl<D: Driver> Claims<D> {
    fn of(&mut self, pair: &QueuePair<D>) -> Option<&mut Claim<D>> {
        self.claims.iter_mut().find(|claim| claim.is_of(pair))
    }
}

/// A dead QP that may hold a receive of its SRQ.
#[derive(Debug)]
struct Claim<D: Driver> {
    pair: Weak<QueuePair<D>>,
    /// Its kernel has finished with its receives.
    finished: bool,
    /// CQEs of it may have been dropped.
    dropped: bool,
}

impl<D: Driver> Claim<D> {
    fn is_of(&self, pair: &QueuePair<D>) -> bool {
        std::ptr::eq(self.pair.as_ptr(), pair)
    }

    /// What the QP can have held.
    fn span(&self, pair: &QueuePair<D>) -> Span {
        if self.dropped {
            Span::default()
        } else {
            pair.span()
        }
    }
}

/// The sequence numbers of the receives that a QP can have held.
#[derive(Debug, Clone, Copy, Default)]
struct Span {
    /// None, if it may be any of those that are missing.
    from: Option<u32>,
    /// None, while it takes more.
    until: Option<u32>,
}

impl Span {
    fn has(self, taken: &Taken) -> bool {
        self.from
            .is_none_or(|from| !is_before(taken.sequence(), from))
            && self
                .until
                .is_none_or(|until| is_before(taken.sequence(), until))
    }
}

impl<D: Driver> QueuePair<D> {
    /// This QP has died: from now on it is noted which receives the others complete. The lock of `life`
    /// is held, which is not gone.
    pub(crate) fn begin_claim(&self, life: &Life) {
        let (Some(srq), Some(me)) = (self.srq(), self.arc()) else {
            return;
        };
        let dropped = self.recv_cq.lock().overran;
        if !life.dead || life.gone || !(dropped || self.kernel_raises_last_wqe()) {
            return;
        }
        let claims = &mut *lock(&srq.claims);
        if let Some(claim) = claims.of(self) {
            claim.dropped |= dropped;
        } else {
            claims.claims.push(Claim {
                pair: Arc::downgrade(&me),
                finished: false,
                dropped,
            });
        }
        srq.note_claimed(claims);
    }

    /// The kernel has finished with this dead QP's receives: if it held one, that is flushed, now or
    /// when it is clear. No lock is held.
    pub(crate) fn claim(&self) {
        let Some(srq) = self.srq() else { return };
        if let Some(claim) = lock(&srq.claims).of(self) {
            claim.finished = true;
        }
        srq.look_again();
    }

    /// The kernel may have dropped CQEs for receives that this QP took: if it is dead, and has settled
    /// its sends, what is missing is flushed. No lock is held.
    ///
    /// A CQE that comes yet is passed over: what it would say is in as much doubt as what was dropped.
    pub(crate) fn claim_dropped(&self) {
        let over = D::FLUSHES_AT_ONCE || lock(&self.send).ledger.is_settled();
        if over && self.recv_cq.lock().overran {
            self.claim();
        }
    }

    /// The QP is no longer dead, or no longer there; whether it had a claim.
    pub(crate) fn withdraw_claim(&self) -> bool {
        let Some(srq) = self.srq() else { return false };
        let mut claims = lock(&srq.claims);
        let before = claims.claims.len();
        claims.claims.retain(|claim| !claim.is_of(self));
        srq.note_claimed(&claims);
        before != claims.claims.len()
    }

    /// The QP is destroyed, and may have held a receive. No lock is held.
    pub(crate) fn leave_orphan(&self) {
        let Some(srq) = self.srq() else { return };
        let until = Some(srq.first_untaken());
        let mut claims = lock(&srq.claims);
        claims.orphans.push(Span {
            until,
            ..self.span()
        });
        srq.note_claimed(&claims);
        drop(claims);
        srq.look_again();
    }

    /// Whether the kernel flushes what this dead QP had taken, but not at once.
    fn completes_its_own(&self) -> bool {
        !D::FLUSHES_AT_ONCE && self.context.raises_last_wqe.get() == Some(&false)
    }

    /// The receives that this QP can hold.
    fn span(&self) -> Span {
        Span {
            // Relaxed: written under the locks of CQs; an older one leaves more open, not less.
            from: Some(self.shared_from.load(Ordering::Relaxed)),
            until: None,
        }
    }

    /// Flushes a receive that this dead QP held.
    fn take(&self, srq: &SharedQueue<D>, taken: Taken) {
        let mut state = self.recv_cq.lock();
        let Some(wr_id) = srq.lock().ledger.complete(taken.cookie) else {
            return;
        };
        state.due.push(Due {
            owner: self.id,
            queue: Queue::Shared,
            wr_id,
        });
        let wake = state.take_wake(self.id);
        drop(state);
        if wake {
            self.ring_bell(&self.recv_cq);
        }
    }
}

impl<D: Driver> SharedQueue<D> {
    fn note_claimed(&self, claims: &Claims<D>) {
        let any = !claims.claims.is_empty() || !claims.orphans.is_empty();
        // Relaxed: looked at when completions are polled; the next one will do.
        self.claimed.store(any, Ordering::Relaxed);
    }

    /// A receive has completed, or a QP has ended: what was open may be clear now. No lock is held.
    pub(crate) fn look_again(&self) {
        while self.clear_one() {}
    }

    /// The receives that the kernel has taken and no CQE tells of, read or not; oldest first.
    fn missing(&self, users: &[Arc<QueuePair<D>>]) -> Vec<Taken> {
        let mut told = Vec::new();
        for user in users {
            let state = user.recv_cq.lock();
            let unread = (0..state.ring.capacity()).map_while(|ahead| state.ring.peek(ahead));
            told.extend(unread.map(|cqe| cqe.cookie));
        }
        let recv = self.lock();
        let end = recv.ledger.first_untaken(recv.queue.ring.untaken());
        let mut missing = recv.ledger.taken_before(end);
        missing.retain(|taken| !told.contains(&taken.cookie));
        missing
    }

    /// Settles one receive, if it is clear whose it is; whether one was.
    fn clear_one(&self) -> bool {
        let users = self.users();
        let missing = self.missing(&users);
        // A claim is entered when the send queue is closed, so no dying QP is missed. Where none is, the
        // kernel will complete what the dead QP holds, or has done so.
        let has_more = |user: &QueuePair<D>| {
            !lock(&user.send).ledger.is_closed()
                || (user.completes_its_own() && !user.recv_cq.lock().overran)
        };
        let holding: Vec<_> = users
            .iter()
            .filter(|user| has_more(user))
            .map(|user| user.span())
            .collect();
        let mut claims = lock(&self.claims);
        let (finished, unfinished): (Vec<_>, Vec<_>) = claims
            .claims
            .iter()
            .filter_map(|claim| Some((claim.pair.upgrade()?, claim)))
            .partition(|(_, claim)| claim.finished);
        let claimants: Vec<_> = finished
            .into_iter()
            .map(|(pair, claim)| (claim.span(&pair), claim.dropped, pair))
            .collect();
        let open: Vec<_> = holding
            .into_iter()
            .chain(unfinished.iter().map(|(pair, _)| pair.span()))
            .collect();
        let mut clear = missing.clone();
        clear.retain(|taken| !open.iter().any(|span| span.has(taken)));
        let holders = claimants.len().saturating_add(claims.orphans.len());
        if clear.len() >= holders
            && let Some((at, taken)) = only_candidate(&claims.orphans, &clear)
        {
            claims.orphans.swap_remove(at);
            self.note_claimed(&claims);
            drop(claims);
            self.lock().ledger.complete(taken.cookie);
            return true;
        }
        for taken in clear.iter().copied() {
            let orphan = claims.orphans.iter().position(|span| span.has(&taken));
            // Of several the one that can hold the fewest others, so that the rest find theirs.
            let claimant = claimants
                .iter()
                .filter(|(span, ..)| span.has(&taken))
                .min_by_key(|(span, ..)| clear.iter().filter(|other| span.has(other)).count());
            if claimant.is_some() && orphan.is_some() && !open.is_empty() {
                // What others complete may yet tell. If nobody is left to, the application has it
                // back from the one that is there.
                continue;
            }
            if let Some((_, has_more, pair)) = claimant {
                drop(claims);
                if !has_more {
                    pair.withdraw_claim();
                }
                pair.take(self, taken);
                return true;
            } else if let Some(at) = orphan {
                claims.orphans.swap_remove(at);
                self.note_claimed(&claims);
                drop(claims);
                self.lock().ledger.complete(taken.cookie);
                return true;
            }
        }
        // Who can hold none of them, holds none.
        claims
            .orphans
            .retain(|span| missing.iter().any(|taken| span.has(taken)));
        claims.claims.retain(|claim| {
            !claim.finished
                || claim.pair.upgrade().is_some_and(|pair| {
                    let span = claim.span(&pair);
                    missing.iter().any(|taken| span.has(taken))
                })
        });
        self.note_claimed(&claims);
        false
    }
}

/// An orphan that can have held one of the receives and no other.
fn only_candidate(orphans: &[Span], receives: &[Taken]) -> Option<(usize, Taken)> {
    orphans.iter().enumerate().find_map(|(at, span)| {
        let mut candidates = receives.iter().filter(|taken| span.has(taken));
        match (candidates.next(), candidates.next()) {
            (Some(only), None) => Some((at, *only)),
            _ => None,
        }
    })
}
