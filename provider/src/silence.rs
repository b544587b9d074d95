// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause

//! Looking for death where nothing tells of it: at arm, and in polls that find nothing.
//!
//! rxe alone: a receive that is posted to a dead QP stays in its ring, without a CQE or an event. A
//! receive that was posted to a living QP is flushed when it dies, and so is a send. So only a QP
//! whose receive queue was empty when it was posted to is suspect, until a later send has succeeded
//! or the kernel, asked, says that the QP lives: no healthy QP is asked twice for one receive.

use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use rdma_core_sys::{IBV_QPS_ERR, ibv_qp_attr, ibv_qp_init_attr};

use crate::cq::{CompletionQueue, Completions};
use crate::death::{Cause, STATE};
use crate::driver::Driver;
use crate::flush::Chore;
use crate::lock::lock;
use crate::queue_pair::{QueuePair, Suspicion};

/// Polls that find nothing between two looks at the clock.
const IDLE_POLLS: u32 = 64;
/// Time between two looks at the suspects of a CQ that is polled and not waited for.
const PAUSE: Duration = Duration::from_millis(10);

impl<D: Driver> CompletionQueue<D> {
    /// Whether a QP is suspect.
    #[inline(always)]
    pub(crate) fn has_suspects(&self) -> bool {
        // Relaxed: see `suspect`; a poll that does not see it yet is followed by one that does.
        D::DIES_UNSEEN && self.suspects.load(Ordering::Relaxed)
    }

    /// Asks after the suspects, since their application is about to sleep. No lock is held.
    #[cold]
    pub(crate) fn ask_after_suspects(&self) {
        self.suspects.store(false, Ordering::Relaxed);
        self.each_member(|pair| {
            if self.is_to_be_asked_after(pair) {
                pair.ask_after();
            }
        });
    }

    fn is_to_be_asked_after(&self, pair: &QueuePair<D>) -> bool {
        match pair.suspicion() {
            Suspicion::None => false,
            Suspicion::Waits => {
                self.suspect();
                false
            }
            Suspicion::Pressing => true,
        }
    }

    /// A poll has found nothing: at a bounded rate, makes asking after a suspect a chore.
    pub(crate) fn found_nothing(&self, state: &mut Completions<D>) {
        if !self.has_suspects() {
            return;
        }
        state.idle = state.idle.wrapping_add(1);
        if state.idle.is_multiple_of(IDLE_POLLS) {
            self.look_for_suspects(state);
        }
    }

    #[cold]
    #[inline(never)]
    fn look_for_suspects(&self, state: &mut Completions<D>) {
        let now = Instant::now();
        if state
            .last_asked
            .is_some_and(|last| now.duration_since(last) < PAUSE)
        {
            return;
        }
        state.last_asked = Some(now);
        self.suspects.store(false, Ordering::Relaxed);
        let mut at = 0_usize;
        while let Some(member) = state.member_at(at) {
            if let Some(pair) = member.upgrade()
                && self.is_to_be_asked_after(&pair)
            {
                state.add_chore(Chore::AskAfter(pair));
            }
            at = at.wrapping_add(1);
        }
    }
}

impl<D: Driver> QueuePair<D> {
    /// Asks the kernel whether the QP lives, and flushes it if not. No lock is held.
    pub(crate) fn ask_after(&self) {
        let life = lock(&self.life);
        if life.gone || life.dead {
            return;
        }
        let (mut attr, mut init) = (ibv_qp_attr::default(), ibv_qp_init_attr::default());
        // SAFETY: both are there to be filled in.
        let answer = unsafe { self.query_kernel(&raw mut attr, STATE, &raw mut init) };
        drop(life);
        match answer {
            Ok(()) if attr.qp_state != IBV_QPS_ERR => self.absolve(),
            _ => self.die(Cause::Queried),
        }
    }
}
