// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause

//! What can happen, one thing after the other.

use proptest::prelude::*;

use super::kernel::{Act, Kind};
use super::whims::Tape;

/// A send that the application posts.
#[derive(Debug, Clone, Copy)]
pub(super) struct Send {
    pub(super) operation: Operation,
    pub(super) is_signaled: bool,
    pub(super) flaw: Flaw,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Operation {
    Send,
    Write,
    Read,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Flaw {
    None,
    /// The kernel finds it faulty.
    Faulty,
    /// The provider refuses it.
    Malformed,
}

/// One step. QPs and CQs are picked by a number, taken modulo how many there are.
#[derive(Debug, Clone)]
pub(super) enum Step {
    PostSend {
        qp: usize,
        sends: Vec<Send>,
    },
    PostRecv {
        qp: usize,
        count: usize,
    },
    Kernel {
        qp: usize,
        act: Act,
    },
    /// The kernel goes on with what it has to do, some way.
    Breathe,
    /// The kernel does all that it has to do.
    Run,
    Poll {
        cq: usize,
        room: usize,
    },
    /// Arms, polls until nothing comes, and waits for the event.
    Sleep {
        cq: usize,
    },
    /// Gives the CQ another size.
    Resize {
        cq: usize,
        size: u32,
    },
    /// The waiter, if there is an event for it, does so again.
    Wake {
        cq: usize,
    },
    /// Moves the QP to ERR, or on iWARP to SQD.
    Kill {
        qp: usize,
        closes: bool,
    },
    /// Moves the QP to RESET, and has it live again where the driver can.
    Reset {
        qp: usize,
    },
    Query {
        qp: usize,
    },
    /// Reaps an asynchronous event.
    Reap,
    /// Destroys the QP and creates another in its place.
    Replace {
        qp: usize,
    },
}

/// What there is at the beginning.
#[derive(Debug, Clone)]
pub(super) struct Setup {
    pub(super) kind: Kind,
    pub(super) qps: usize,
    pub(super) cqs: usize,
    pub(super) has_srq: bool,
    /// CQEs that a CQ has room for; the application asks for one.
    pub(super) room: u32,
    /// Work requests that a queue has room for.
    pub(super) depth: u32,
    pub(super) signal_all: bool,
    /// The application reaps asynchronous events.
    pub(super) reaps: bool,
    /// What the kernel makes of its freedom.
    pub(super) whims: Tape,
}

fn send() -> impl Strategy<Value = Send> {
    let operation = prop_oneof![
        Just(Operation::Send),
        Just(Operation::Write),
        Just(Operation::Read)
    ];
    let flaw = prop_oneof![
        20 => Just(Flaw::None),
        1 => Just(Flaw::Faulty),
        1 => Just(Flaw::Malformed),
    ];
    (operation, any::<bool>(), flaw).prop_map(|(operation, is_signaled, flaw)| Send {
        operation,
        is_signaled,
        flaw,
    })
}

fn act() -> impl Strategy<Value = Act> {
    prop_oneof![
        2 => Just(Act::Connect),
        8 => Just(Act::Work),
        8 => Just(Act::Answer),
        1 => Just(Act::Refuse),
        4 => Just(Act::Take),
        4 => Just(Act::Receive),
        1 => Just(Act::Die),
        1 => Just(Act::Silence),
        1 => Just(Act::Repeat),
    ]
}

pub(super) fn step() -> impl Strategy<Value = Step> {
    let qp = 0..6_usize;
    let cq = 0..2_usize;
    prop_oneof![
        12 => (qp.clone(), prop::collection::vec(send(), 1..4))
            .prop_map(|(qp, sends)| Step::PostSend { qp, sends }),
        8 => (qp.clone(), 1..4_usize).prop_map(|(qp, count)| Step::PostRecv { qp, count }),
        24 => (qp.clone(), act()).prop_map(|(qp, act)| Step::Kernel { qp, act }),
        6 => Just(Step::Breathe),
        1 => Just(Step::Run),
        8 => (cq.clone(), 0..4_usize).prop_map(|(cq, room)| Step::Poll { cq, room }),
        4 => cq.clone().prop_map(|cq| Step::Sleep { cq }),
        4 => cq.clone().prop_map(|cq| Step::Wake { cq }),
        1 => (cq, 1..200_u32).prop_map(|(cq, size)| Step::Resize { cq, size }),
        1 => (qp.clone(), any::<bool>()).prop_map(|(qp, closes)| Step::Kill { qp, closes }),
        1 => qp.clone().prop_map(|qp| Step::Reset { qp }),
        1 => qp.clone().prop_map(|qp| Step::Query { qp }),
        4 => Just(Step::Reap),
        1 => qp.prop_map(|qp| Step::Replace { qp }),
    ]
}

pub(super) fn setup(kind: Kind, has_srq: bool) -> impl Strategy<Value = Setup> {
    let room = prop_oneof![1 => 3..16_u32, 2 => Just(255_u32)];
    (
        if has_srq { 2..4_usize } else { 1..3_usize },
        1..3_usize,
        room,
        2..7_u32,
        prop::bool::weighted(0.2),
        prop::bool::weighted(0.7),
        prop::collection::vec(any::<u8>(), 0..200).prop_map(Tape),
    )
        .prop_map(
            move |(qps, cqs, room, depth, signal_all, reaps, whims)| Setup {
                kind,
                qps,
                cqs,
                has_srq,
                room,
                depth,
                signal_all,
                reaps,
                whims,
            },
        )
}
