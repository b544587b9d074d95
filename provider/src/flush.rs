// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause

//! Flush → completion: what a CQ does for the dead QPs whose queues complete to it.

use std::mem::MaybeUninit;
use std::sync::Arc;

use rdma_core_sys::{IBV_WC_RECV, IBV_WC_WR_FLUSH_ERR, ibv_wc};

use crate::cookie::{Cookie, Mark, OwnerId, Queue};
use crate::cq::{CompletionQueue, Completions};
use crate::death::Cause;
use crate::driver::{CompletionRing, Driver, SendRing};
use crate::ledger::Sent;
use crate::lock::lock;
use crate::queue_pair::QueuePair;

/// A queue that has completions due which are in no ring.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Due {
    pub(crate) owner: OwnerId,
    /// The QP's own queue, or an SRQ of which one receive is due.
    pub(crate) queue: Queue,
    /// That receive's.
    pub(crate) wr_id: u64,
}

impl Due {
    /// The QP's queue whose CQ it is.
    fn own_queue(self) -> Queue {
        match self.queue {
            Queue::Send => Queue::Send,
            Queue::Recv | Queue::Shared => Queue::Recv,
        }
    }

    /// The next completion; a receive of an SRQ is one.
    fn next<D: Driver>(self, pair: &QueuePair<D>) -> Option<ibv_wc> {
        match self.queue {
            Queue::Send => {
                let sent = lock(&pair.send).ledger.next_held()?;
                Some(sent.into_wc(pair.number))
            }
            Queue::Recv => {
                let wr_id = pair.own_recv()?.ledger.next_flushed()?;
                Some(flushed_recv(wr_id, pair.number))
            }
            Queue::Shared => Some(flushed_recv(self.wr_id, pair.number)),
        }
    }
}

/// A queue of a dead QP whose kernel may still have something to say.
#[derive(Debug)]
pub(crate) struct Dying<D: Driver> {
    pub(crate) pair: Arc<QueuePair<D>>,
    pub(crate) queue: Queue,
}

/// What the kernel may still have to say of a dead queue whose CQ was read empty.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Rest {
    Nothing,
    /// It is about to say more, or nobody waits for it.
    Flushing,
    /// All that is in the ring is consumed, and yet something has not completed.
    Stuck,
}

/// What a poller found that has to be done, with system calls, when it no longer holds the CQ's lock.
#[derive(Debug)]
pub(crate) enum Chore<D: Driver> {
    Die(Arc<QueuePair<D>>, Cause),
    MarkEnd(Arc<QueuePair<D>>, Queue),
    /// Ask the kernel whether the QP lives.
    AskAfter(Arc<QueuePair<D>>),
    /// This QP has completed a receive of its SRQ, of which a dead one may have held an earlier.
    LookAgain(Arc<QueuePair<D>>),
    /// This dead QP's CQEs for receives of its SRQ may have been dropped.
    ClaimDropped(Arc<QueuePair<D>>),
    /// Wake who sleeps on the CQ of this dead QP's queue, though nothing is due.
    Clap(Arc<QueuePair<D>>, Queue),
}

impl<D: Driver> Chore<D> {
    /// No lock is held.
    pub(crate) fn run(self) {
        match self {
            Self::Die(pair, cause) => pair.die(cause),
            Self::MarkEnd(pair, queue) => pair.mark_end(queue),
            Self::AskAfter(pair) => pair.ask_after(),
            Self::LookAgain(pair) => {
                if let Some(srq) = pair.srq() {
                    srq.look_again();
                }
            }
            Self::ClaimDropped(pair) => pair.claim_dropped(),
            Self::Clap(pair, queue) => pair.ring_by_clapper(queue),
        }
    }

    pub(crate) fn pair(&self) -> &QueuePair<D> {
        match self {
            Self::Die(pair, _)
            | Self::MarkEnd(pair, _)
            | Self::AskAfter(pair)
            | Self::LookAgain(pair)
            | Self::ClaimDropped(pair)
            | Self::Clap(pair, _) => pair,
        }
    }

    fn is_same(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Die(a, _), Self::Die(b, _))
            | (Self::AskAfter(a), Self::AskAfter(b))
            | (Self::LookAgain(a), Self::LookAgain(b))
            | (Self::ClaimDropped(a), Self::ClaimDropped(b)) => Arc::ptr_eq(a, b),
            (Self::MarkEnd(a, p), Self::MarkEnd(b, q)) | (Self::Clap(a, p), Self::Clap(b, q)) => {
                Arc::ptr_eq(a, b) && p == q
            }
            _ => false,
        }
    }

    /// How many there can be for one queue of a QP.
    pub(crate) const PER_QUEUE: usize = 6;
}

impl<D: Driver> Completions<D> {
    /// Notes a chore, once.
    pub(crate) fn add_chore(&mut self, chore: Chore<D>) {
        if !self.chores.iter().any(|other| other.is_same(&chore)) {
            self.chores.push(chore);
        }
    }

    /// Notes that a queue has completions due.
    pub(crate) fn add_due(&mut self, owner: OwnerId, queue: Queue) {
        let due = Due {
            owner,
            queue,
            wr_id: 0,
        };
        if !self.due.contains(&due) {
            self.due.push(due);
        }
    }

    /// Whether a waiter has to be woken for what is due; it is told once. The QP `by` will do it.
    ///
    /// In a full CQ there is no room for a bell, and who sleeps beside one has been woken.
    pub(crate) fn take_wake(&mut self, by: OwnerId) -> bool {
        let last = self.ring.capacity().wrapping_sub(1);
        let wake = !self.due.is_empty() && self.ring.peek(last).is_none() && self.armed.take();
        if wake {
            self.belled = Some(by);
        }
        wake
    }
}

impl<D: Driver> CompletionQueue<D> {
    /// Notes that a queue of a dead QP completes here.
    pub(crate) fn enlist(&self, pair: &QueuePair<D>, queue: Queue) {
        let Some(pair) = pair.arc() else { return };
        self.lock().dying.push(Dying { pair, queue });
    }

    /// A QP is gone, perhaps with its bell: wakes the waiter for what is due of others. No lock is held.
    pub(crate) fn wake_for_rest(&self) {
        let mut state = self.lock();
        let other = state.due.last().and_then(|due| {
            let (queue, owner) = (due.own_queue(), due.owner);
            let cookie = Cookie {
                queue,
                owner,
                entry: 0,
            };
            Some((self.qp(cookie)?.arc()?, queue))
        });
        if let Some((pair, queue)) = other
            && state.take_wake(pair.id)
        {
            drop(state);
            D::ring_bell(&pair, queue);
        }
    }

    /// The kernel has flushed a mark.
    #[cold]
    pub(crate) fn mark_is_back(&self, state: &mut Completions<D>, mark: Mark) {
        let Mark {
            queue,
            owner,
            attempt,
        } = mark;
        let Some(pair) = self.qp(Cookie {
            queue,
            owner,
            entry: 0,
        }) else {
            return;
        };
        if D::MARKS_AHEAD {
            if queue == Queue::Send {
                lock(&pair.send).flushed_at = Some(attempt);
            }
            self.doom_for(state, pair, Cause::Flushed);
        } else if self.settle(state, pair, queue, attempt > 0) {
            state
                .dying
                .retain(|d| d.pair.id != owner || d.queue != queue);
        }
    }

    /// A CQE that is not a success: has its QP flushed as soon as the CQ's lock is released.
    #[cold]
    pub(crate) fn doom(&self, state: &mut Completions<D>, pair: &QueuePair<D>) {
        self.doom_for(state, pair, Cause::Completion);
    }

    fn doom_for(&self, state: &mut Completions<D>, pair: &QueuePair<D>, cause: Cause) {
        if let Some(pair) = pair.arc() {
            state.add_chore(Chore::Die(pair, cause));
        }
    }

    /// The ring was just seen empty: settles the dying queues that need nothing else, and has the others
    /// marked.
    #[cold]
    #[inline(never)]
    pub(crate) fn settle_quiet(&self, state: &mut Completions<D>) {
        let mut dying = std::mem::take(&mut state.dying);
        dying.retain(|Dying { pair, queue }| {
            let rest = match queue {
                Queue::Send => lock(&pair.send).rest(state.overran),
                _ => pair.own_recv().map_or(Rest::Nothing, |recv| recv.rest()),
            };
            match rest {
                Rest::Nothing => {
                    self.settle(state, pair, *queue, false);
                    return false;
                }
                // A CQE that came since is no reason for a mark.
                Rest::Stuck if state.ring.peek(0).is_none() => {
                    state.add_chore(Chore::MarkEnd(Arc::clone(pair), *queue));
                }
                // Where a CQE was dropped, the kernel may consume the rest without one (linux 6.12
                // `rxe_comp.c: flush_send_queue`, `rxe_resp.c: flush_recv_queue`). A mark might go the
                // same way: another QP's CQE makes the waiter look again.
                Rest::Flushing if state.overran && state.armed.take() => {
                    state.belled = None;
                    state.add_chore(Chore::Clap(Arc::clone(pair), *queue));
                }
                Rest::Stuck | Rest::Flushing => {}
            }
            true
        });
        // Nobody could add to it: the CQ is locked.
        state.dying = dying;
    }

    /// The kernel has posted its last CQE for this queue, and it has been read: the rest is the
    /// library's. False if the queue is not dead.
    ///
    /// `dropped`: not every CQE found room in the CQ. It is then in doubt whether a silent send was
    /// flushed, and it is said to be.
    fn settle(
        &self,
        state: &mut Completions<D>,
        pair: &QueuePair<D>,
        queue: Queue,
        dropped: bool,
    ) -> bool {
        let due = match queue {
            Queue::Send => {
                let mut send = lock(&pair.send);
                if !send.ledger.is_closed() {
                    return false;
                }
                if !send.ledger.is_settled() {
                    let send = &mut *send;
                    // rxe leaves nothing but what it could not post.
                    let dropped = dropped
                        || state.overran
                        || (!D::FLUSHES_AT_ONCE && send.ledger.awaits_cqe());
                    let (ring, at) = (&send.ring, send.flushed_at);
                    send.ledger.settle(|name| {
                        dropped
                            || ring.is_untouched(name)
                            || at.is_some_and(|at| Mark::is_behind(name, at))
                    });
                }
                send.ledger.has_held()
            }
            _ => {
                let Some(recv) = pair.own_recv() else {
                    return true;
                };
                if !recv.ledger.is_closed() {
                    return false;
                }
                if !recv.ledger.is_settled() {
                    recv.ledger.settle();
                }
                recv.ledger.has_flushed()
            }
        };
        if due {
            state.add_due(pair.id, queue);
        }
        if queue == Queue::Send
            && pair.srq().is_some()
            && let Some(pair) = pair.arc()
        {
            state.add_chore(Chore::ClaimDropped(pair));
        }
        true
    }

    /// Hands over what is due though no CQE is left for it.
    #[cold]
    #[inline(never)]
    pub(crate) fn deliver_due(
        &self,
        state: &mut Completions<D>,
        wc: &mut [MaybeUninit<ibv_wc>],
        mut filled: usize,
    ) -> usize {
        while let Some(due) = state.due.last().copied() {
            let pair = self.qp(Cookie {
                queue: due.own_queue(),
                owner: due.owner,
                entry: 0,
            });
            loop {
                let Some(slot) = wc.get_mut(filled) else {
                    return filled;
                };
                let Some(next) = pair.and_then(|pair| due.next(pair)) else {
                    break;
                };
                slot.write(next);
                filled = filled.wrapping_add(1);
                if due.queue == Queue::Shared {
                    break;
                }
            }
            state.due.pop();
        }
        filled
    }
}

impl Sent {
    /// The completion of a send from what the ledger has of it.
    fn into_wc(self, qp_num: u32) -> ibv_wc {
        ibv_wc {
            wr_id: self.wr_id,
            status: self.outcome.status.into(),
            opcode: self.opcode.into(),
            byte_len: self.outcome.byte_len,
            qp_num,
            ..Default::default()
        }
    }
}

/// The completion of a receive that the library flushes.
fn flushed_recv(wr_id: u64, qp_num: u32) -> ibv_wc {
    ibv_wc {
        wr_id,
        status: IBV_WC_WR_FLUSH_ERR,
        opcode: IBV_WC_RECV,
        qp_num,
        ..Default::default()
    }
}
