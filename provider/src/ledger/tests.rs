// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause

//! The ledgers against a kernel that reorders, drops and repeats what it may.

#![expect(clippy::arithmetic_side_effects, reason = "counts of a test")]

use std::collections::VecDeque;
use std::thread;

use proptest::prelude::*;
use rdma_core_sys::{IBV_WC_SUCCESS, IBV_WC_WR_FLUSH_ERR};

use super::*;
use crate::cookie::{Cookie, OwnerId, Queue};
use crate::errno::Errno;

const DEPTH: u32 = 8;

/// A send as the application posts it; its `wr_id` is its place in the sequence.
#[derive(Debug, Clone, Copy)]
struct Send {
    signaled: bool,
    read: bool,
}

fn send() -> impl Strategy<Value = Send> {
    (any::<bool>(), any::<bool>()).prop_map(|(signaled, read)| Send { signaled, read })
}

/// What happens next.
#[derive(Debug, Clone, Copy)]
enum Step {
    Post(Send),
    /// The kernel finishes the next send that is not a READ, or passes a READ on.
    Process,
    /// The response to the oldest READ arrives.
    Respond,
    /// The CQE that was read last comes once more.
    Repeat,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        3 => send().prop_map(Step::Post),
        3 => Just(Step::Process),
        2 => Just(Step::Respond),
        1 => Just(Step::Repeat),
    ]
}

const SUCCESS: Outcome = Outcome {
    status: small(IBV_WC_SUCCESS),
    byte_len: 0,
};
const FLUSHED: Outcome = Outcome {
    status: small(IBV_WC_WR_FLUSH_ERR),
    byte_len: 0,
};

/// A ledger, and what it handed to the application.
struct Application {
    ledger: SendLedger,
    posted: u64,
    delivered: Vec<(u64, u8)>,
    last: Option<u32>,
}

impl Application {
    fn new(order: CqeOrder) -> Self {
        Self {
            ledger: SendLedger::new(DEPTH, order).unwrap(),
            posted: 0,
            delivered: Vec::new(),
            last: None,
        }
    }

    fn post(&mut self, send: Send, reported: bool) -> Option<(u32, u64)> {
        let wr_id = self.posted;
        let posted = Posted {
            wr_id,
            standing: Standing::posted(0, send.signaled, reported),
        };
        let (mut one, mut entered) = (Some(posted), None);
        self.ledger.fill(cookies(), |cookie| {
            let posted = one.take()?;
            entered = Some((Cookie::entry(cookie), wr_id));
            Some(posted)
        });
        self.posted += u64::from(entered.is_some());
        entered
    }

    fn post_dead(&mut self) {
        let posted = Posted {
            wr_id: self.posted,
            standing: Standing::posted(0, false, false),
        };
        let mut one = Some(posted);
        self.ledger.fill_flushed(|| one.take());
        self.posted += u64::from(one.is_none());
    }

    fn cqe(&mut self, name: u32, outcome: Outcome) {
        self.last = Some(name);
        if let Progress::Due(sent) = self.ledger.complete(name, outcome) {
            self.delivered.push((sent.wr_id, sent.outcome.status));
        }
        self.take_held();
    }

    fn take_held(&mut self) {
        while let Some(sent) = self.ledger.next_held() {
            self.delivered.push((sent.wr_id, sent.outcome.status));
        }
        assert!(!self.ledger.has_held());
    }
}

proptest! {
    /// siw: READs complete late, each send once and in posting order all the same.
    #[test]
    fn sends_complete_once_in_order_though_reads_come_late(
        steps in prop::collection::vec(step(), 1..200),
    ) {
        let mut app = Application::new(CqeOrder::ReadsLate);
        let (mut queue, mut responses) = (VecDeque::new(), VecDeque::new());
        let mut expected = Vec::new();
        let process = |app: &mut Application, queue: &mut VecDeque<(u32, Send)>, responses: &mut VecDeque<u32>| {
            match queue.pop_front() {
                Some((name, Send { read: true, .. })) => responses.push_back(name),
                Some((name, Send { signaled: true, .. })) => app.cqe(name, SUCCESS),
                _ => {}
            }
        };
        for step in steps {
            match step {
                Step::Post(send) => {
                    if let Some((name, wr_id)) = app.post(send, send.signaled || send.read) {
                        queue.push_back((name, send));
                        if send.signaled {
                            expected.push((wr_id, SUCCESS.status));
                        }
                    }
                }
                Step::Process => process(&mut app, &mut queue, &mut responses),
                Step::Respond => {
                    if let Some(name) = responses.pop_front() {
                        app.cqe(name, SUCCESS);
                    }
                }
                Step::Repeat => {
                    if let Some(name) = app.last {
                        app.cqe(name, SUCCESS);
                    }
                }
            }
            prop_assert!(expected.starts_with(&app.delivered));
        }
        while !queue.is_empty() {
            process(&mut app, &mut queue, &mut responses);
        }
        while let Some(name) = responses.pop_front() {
            app.cqe(name, SUCCESS);
        }
        prop_assert_eq!(app.delivered, expected);
    }

    /// rxe: a CQE that was dropped at a full CQ is made good by the next one that comes.
    #[test]
    fn a_dropped_cqe_is_made_good_by_the_next(
        sends in prop::collection::vec((send(), any::<bool>()), 1..(DEPTH as usize)),
        dies_at in 0..(2 * DEPTH as usize),
    ) {
        let mut app = Application::new(CqeOrder::Posting);
        let mut names = Vec::new();
        for (send, _) in &sends {
            names.push(app.post(*send, send.signaled).unwrap());
        }
        // The CQE at the end comes, so that the drops before it can be told.
        names.push(app.post(Send { signaled: true, read: false }, true).unwrap());
        let sends: Vec<_> = sends.into_iter().chain([(Send { signaled: true, read: false }, false)]).collect();
        let mut expected = Vec::new();
        let mut dropped = Vec::new();
        for (at, ((send, drop), (name, wr_id))) in sends.into_iter().zip(names).enumerate() {
            let outcome = if at < dies_at { SUCCESS } else { FLUSHED };
            if !send.signaled && outcome == SUCCESS {
                continue;
            }
            if drop {
                // An unsignaled send whose flush CQE is dropped before any other came cannot be told
                // from one that succeeded: the ledger awaits no CQE for it.
                let flushing = expected.last().is_some_and(|(_, status)| *status == FLUSHED.status);
                if send.signaled || flushing {
                    dropped.push(wr_id);
                }
                continue;
            }
            expected.extend(dropped.drain(..).map(|wr_id| (wr_id, outcome.status)));
            expected.push((wr_id, outcome.status));
            app.cqe(name, outcome);
        }
        prop_assert_eq!(&app.delivered, &expected);
        prop_assert_eq!(app.ledger.outstanding(), 0);
    }

    /// A queue dies when some of its sends are done, and of the others the kernel tells of some. Each
    /// completes once all the same, before those that are posted later.
    #[test]
    fn the_sends_of_a_dead_queue_complete_once_in_order(
        sends in prop::collection::vec(send(), 0..(DEPTH as usize)),
        done in 0..(DEPTH as usize),
        told in 0..(DEPTH as usize),
        later in 0..(2 * DEPTH as usize),
        are_lost: bool,
    ) {
        let mut app = Application::new(CqeOrder::Posting);
        let names: Vec<_> = sends.iter().map(|send| app.post(*send, send.signaled).unwrap()).collect();
        let told = done.saturating_add(told);
        let mut expected = Vec::new();
        app.ledger.close();
        for (at, (send, (name, wr_id))) in sends.iter().zip(names).enumerate() {
            if at == done {
                (0..later).for_each(|_| app.post_dead());
            }
            let outcome = if at < done { SUCCESS } else { FLUSHED };
            if at < told && (send.signaled || outcome == FLUSHED) {
                app.cqe(name, outcome);
            }
            // Of a silent send that no CQE tells of, nobody knows whether it was flushed, unless one
            // before it was.
            if send.signaled || (at >= done && (told > done || are_lost)) {
                expected.push((wr_id, outcome.status));
            }
        }
        app.ledger.settle(|name| are_lost && name as usize >= done);
        app.take_held();
        (0..later).for_each(|_| app.post_dead());
        app.take_held();
        expected.extend((sends.len() as u64..app.posted).map(|wr_id| (wr_id, FLUSHED.status)));
        prop_assert_eq!(app.delivered, expected);
        prop_assert_eq!(app.ledger.outstanding(), 0);
    }

    /// An application that never asks for a completion can go on for ever.
    #[test]
    fn silent_sends_leave_when_the_kernel_is_past_them(rounds in 1..100_u32) {
        let mut app = Application::new(CqeOrder::Posting);
        for _ in 0..rounds {
            while app.post(Send { signaled: false, read: false }, false).is_some() {}
            app.ledger.retire_silent_before(app.ledger.next().wrapping_sub(1));
            prop_assert_eq!(app.ledger.outstanding(), 1);
        }
        prop_assert!(app.delivered.is_empty());
    }

    /// What was taken back was never there.
    #[test]
    fn a_send_that_is_taken_back_never_completes(kept in 0..DEPTH, back in 0..DEPTH) {
        let mut app = Application::new(CqeOrder::ReadsLate);
        let all = Send { signaled: true, read: false };
        for _ in 0..kept {
            app.post(all, true);
        }
        let first = app.ledger.next();
        for _ in 0..back {
            app.post(all, true);
        }
        app.ledger.take_back(first);
        for name in 0..DEPTH {
            app.cqe(name, SUCCESS);
        }
        let expected: Vec<_> = (0..u64::from(kept)).map(|wr_id| (wr_id, SUCCESS.status)).collect();
        prop_assert_eq!(app.delivered, expected);
    }

    /// Receives of an SRQ are taken in order and complete in any order, each once, under the `wr_id` it was posted
    /// with; it can be told which are taken.
    #[test]
    fn shared_receives_complete_once_in_any_order(
        next: u32,
        steps in prop::collection::vec(shared_step(), 1..300),
    ) {
        let mut ledger = SharedLedger::with_next(DEPTH, next).unwrap();
        let mut depth = DEPTH as usize;
        let (mut untaken, mut taken, mut gone) = (VecDeque::new(), Vec::new(), Vec::new());
        for (wr_id, step) in (0_u64..).zip(steps) {
            match step {
                SharedStep::Post => {
                    let is_full = untaken.len() + taken.len() >= depth;
                    let cookie = push(&mut ledger, wr_id);
                    prop_assert_eq!(cookie.is_none(), is_full);
                    untaken.extend(cookie.map(|cookie| (cookie, wr_id)));
                }
                SharedStep::Take => taken.extend(untaken.pop_front()),
                SharedStep::Complete(_) if taken.is_empty() => {}
                SharedStep::Complete(pick) => {
                    let (cookie, wr_id) = taken.remove(pick.index(taken.len()));
                    prop_assert!(ledger.has(cookie));
                    prop_assert_eq!(ledger.complete(cookie), Some(wr_id));
                    gone.push(cookie);
                }
                SharedStep::Resize(to) => {
                    depth = to as usize;
                    ledger.resize(to).unwrap();
                }
            }
            for cookie in &gone {
                prop_assert!(!ledger.has(*cookie));
                prop_assert_eq!(ledger.complete(*cookie), None);
            }
            let first_untaken = ledger.first_untaken(untaken.len().try_into().unwrap());
            if let Some((cookie, _)) = untaken.front() {
                prop_assert_eq!(Cookie::entry(*cookie), first_untaken);
            }
            let known: Vec<_> = ledger.taken_before(first_untaken);
            prop_assert!(known.iter().map(|it| it.cookie).eq(taken.iter().map(|(cookie, _)| *cookie)));
        }
    }
}

#[derive(Debug, Clone, Copy)]
enum SharedStep {
    Post,
    /// The kernel takes the oldest for a message.
    Take,
    /// One that was taken completes.
    Complete(prop::sample::Index),
    Resize(u32),
}

fn shared_step() -> impl Strategy<Value = SharedStep> {
    prop_oneof![
        6 => Just(SharedStep::Post),
        5 => Just(SharedStep::Take),
        4 => any::<prop::sample::Index>().prop_map(SharedStep::Complete),
        1 => (1..3 * DEPTH).prop_map(SharedStep::Resize),
    ]
}

/// The cookies of an SRQ.
fn cookies() -> CookieBase {
    CookieBase::new(Queue::Shared, OwnerId::new(7, 0).unwrap())
}

/// Enters one receive, if there is room; its cookie.
fn push(ledger: impl Receives, wr_id: u64) -> Option<u64> {
    let mut entered = None;
    let count = ledger.fill(cookies(), |cookie| {
        entered.is_none().then(|| {
            entered = Some(cookie);
            wr_id
        })
    });
    assert_eq!(count, u32::from(entered.is_some()));
    entered
}

#[test]
fn receives_complete_in_order_and_once() {
    let ledger = RecvLedger::new(4).unwrap();
    for wr_id in 0..4 {
        push(&ledger, wr_id).unwrap();
    }
    assert_eq!(push(&ledger, 4), None);
    assert_eq!(ledger.complete(0), Received::Due(0));
    assert_eq!(ledger.complete(0), Received::Stale);
    assert_eq!(ledger.complete(4), Received::Stale);
    assert!(!ledger.has_flushed());
    // The CQEs of 1 and 2 were dropped.
    assert_eq!(ledger.complete(3), Received::Early);
    assert_eq!(ledger.next_flushed(), Some(1));
    assert_eq!(ledger.next_flushed(), Some(2));
    assert_eq!(ledger.next_flushed(), None);
    assert_eq!(ledger.complete(3), Received::Due(3));
    assert!(ledger.is_empty());
}

/// One thread posts under the lock of the queue, another polls under that of the CQ.
#[test]
fn receives_are_polled_beside_posts() {
    const RECEIVES: u32 = 20_000;
    let ledger = RecvLedger::new(4).unwrap();
    thread::scope(|scope| {
        scope.spawn(|| {
            for wr_id in 0..u64::from(RECEIVES) {
                while push(&ledger, !wr_id).is_none() {
                    thread::yield_now();
                }
            }
        });
        let mut name = 0;
        while name < RECEIVES {
            match ledger.succeed_next(name) {
                Some(wr_id) => {
                    assert_eq!(wr_id, !u64::from(name));
                    name += 1;
                }
                None => thread::yield_now(),
            }
        }
    });
    assert!(ledger.is_empty());
}

#[test]
fn receives_of_a_dead_queue_follow_the_kernels() {
    let ledger = RecvLedger::new(4).unwrap();
    push(&ledger, 0);
    push(&ledger, 1);
    ledger.close();
    push(&ledger, 2);
    assert!(!ledger.has_flushed());
    assert_eq!(ledger.complete(2), Received::Stale);
    assert_eq!(ledger.complete(0), Received::Due(0));
    assert_eq!(ledger.next_flushed(), None);
    ledger.settle();
    assert_eq!(ledger.complete(1), Received::Stale);
    assert_eq!(ledger.next_flushed(), Some(1));
    assert_eq!(ledger.next_flushed(), Some(2));
    assert_eq!(ledger.next_flushed(), None);
    push(&ledger, 3);
    assert_eq!(ledger.next_flushed(), Some(3));
}

#[test]
fn a_shared_ledger_grows_and_shrinks_with_its_entries() {
    let mut ledger = SharedLedger::new(2).unwrap();
    let mut cookies = Vec::new();
    for wr_id in 0..2 {
        cookies.push(push(&mut ledger, wr_id).unwrap());
    }
    assert_eq!(push(&mut ledger, 2), None);
    ledger.resize(5).unwrap();
    for wr_id in 2..5 {
        cookies.push(push(&mut ledger, wr_id).unwrap());
    }
    assert_eq!(push(&mut ledger, 5), None);
    ledger.resize(1).unwrap();
    for (wr_id, cookie) in (0..).zip(cookies) {
        assert_eq!(push(&mut ledger, 5), None);
        assert_eq!(ledger.complete(cookie), Some(wr_id));
    }
    assert!(push(&mut ledger, 5).is_some());
    ledger.close();
    assert_eq!(push(&mut ledger, 6), None);
    assert_eq!(SharedLedger::new(u32::MAX).err(), Some(Errno::EINVAL));
}

/// The kernel may say anything.
#[test]
fn a_receive_that_was_never_posted_does_not_complete() {
    let mut ledger = SharedLedger::new(2).unwrap();
    let posted = push(&mut ledger, 7).unwrap();
    let corrupt = (0..u32::MAX).step_by(997).flat_map(|entry| {
        let entry = u64::from(entry);
        [entry, cookies().with(0) | entry, u64::MAX ^ entry]
    });
    for cookie in corrupt.filter(|it| *it != posted) {
        assert!(!ledger.has(cookie));
        assert_eq!(ledger.complete(cookie), None);
    }
    assert_eq!(ledger.complete(posted), Some(7));
    assert!((0..4).all(|entry| ledger.complete(cookies().with(entry)).is_none()));
}
