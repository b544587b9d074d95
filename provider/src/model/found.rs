// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause

//! What the model has found once.

use super::kernel::{Act, Kind};
use super::run;
use super::steps::{Flaw, Operation, Send, Setup, Step};
use super::whims::Tape;
use crate::driver::Driver;
use crate::rxe::Rxe;
use crate::siw::Siw;

/// One QP on one CQ with room for all, an application that reaps events, and a kernel without whims.
fn setup(kind: Kind) -> Setup {
    Setup {
        kind,
        qps: 1,
        cqs: 1,
        has_srq: false,
        room: 255,
        depth: 4,
        signal_all: false,
        reaps: true,
        whims: Tape(Vec::new()),
    }
}

fn shared(kind: Kind, qps: usize) -> Setup {
    Setup {
        qps,
        has_srq: true,
        ..setup(kind)
    }
}

#[track_caller]
fn play<D: Driver>(setup: Setup, steps: &[Step]) {
    if let Err(fault) = run::<D>(setup, steps) {
        panic!("{fault}");
    }
}

fn send(qp: usize) -> Step {
    let send = Send {
        operation: Operation::Send,
        is_signaled: false,
        flaw: Flaw::None,
    };
    Step::PostSend {
        qp,
        sends: vec![send],
    }
}

fn recv(qp: usize) -> Step {
    Step::PostRecv { qp, count: 1 }
}

fn kernel(qp: usize, act: Act) -> Step {
    Step::Kernel { qp, act }
}

fn kill(qp: usize) -> Step {
    Step::Kill { qp, closes: false }
}

const RXE: [Kind; 2] = [Kind::Rxe61, Kind::Rxe612];

/// Nothing told the sleeper: the QP had nothing to flush when it died.
#[test]
fn a_receive_that_is_posted_to_a_qp_which_died_unseen_wakes_the_sleeper() {
    for kind in RXE {
        let steps = [
            Step::Sleep { cq: 0 },
            kernel(0, Act::Die),
            Step::Run,
            recv(0),
        ];
        play::<Rxe>(setup(kind), &steps);
    }
}

/// The send had succeeded before the QP died, and nobody had polled it: what the library waited for told nothing.
#[test]
fn a_success_that_is_unread_does_not_vouch_for_its_qp() {
    for kind in RXE {
        let setup = Setup {
            cqs: 2,
            signal_all: true,
            ..setup(kind)
        };
        let steps = [
            send(0),
            kernel(0, Act::Work),
            kernel(0, Act::Answer),
            Step::Sleep { cq: 1 },
            kernel(0, Act::Die),
            Step::Run,
            recv(0),
        ];
        play::<Rxe>(setup, &steps);
    }
}

/// What was sent before stood in its way.
#[test]
fn a_send_that_is_posted_after_reset_on_siw_is_flushed() {
    let steps = [send(0), Step::Reset { qp: 0 }, send(0)];
    play::<Siw>(setup(Kind::Siw), &steps);
}

/// The bell was the mark of a QP that was destroyed before the kernel had flushed it.
#[test]
fn a_bell_that_goes_with_its_qp_is_rung_again() {
    for kind in RXE {
        let steps = [
            Step::Sleep { cq: 0 },
            kill(0),
            send(0),
            Step::Replace { qp: 0 },
            kill(0),
            send(0),
        ];
        play::<Rxe>(setup(kind), &steps);
    }
}

/// A QP with an SRQ has no receive queue to put a mark into.
#[test]
fn a_claimed_receive_wakes_the_sleeper_of_the_receive_cq() {
    let setup = Setup {
        cqs: 2,
        ..shared(Kind::Rxe612, 2)
    };
    let steps = [recv(0), kernel(0, Act::Take), Step::Sleep { cq: 1 }];
    play::<Rxe>(setup, &steps);
}

/// The announcer was made under the lock that the end of its first QP takes.
#[test]
fn a_siw_qp_that_was_never_connected_reaches_its_last_wqe() {
    let whims = Tape(vec![3; 1000]);
    let setup = Setup {
        whims,
        ..shared(Kind::Siw, 2)
    };
    play::<Siw>(setup, &[]);
}

/// The kernel raises the event more than once, and the second was reaped in the next life.
#[test]
fn an_event_of_an_earlier_life_does_not_kill() {
    let steps = [kill(0), Step::Run, Step::Reset { qp: 0 }, Step::Reap];
    play::<Rxe>(shared(Kind::Rxe612, 2), &steps);
}

/// What it had taken said flushed, and the kernel completed it.
#[test]
fn an_event_of_an_earlier_life_ends_no_claim() {
    let whims = Tape(vec![
        22, 0, 0, 44, 112, 4, 0, 0, 0, 0, 0, 0, 1, 0, 0, 10, 0, 0, 1, 0, 0, 17, 0, 0, 0, 1, 0, 57,
        125, 0, 89, 157, 0, 103, 0, 0, 0, 0, 0, 0, 0, 0, 0,
    ]);
    let setup = Setup {
        room: 4,
        depth: 2,
        whims,
        ..shared(Kind::Rxe612, 2)
    };
    let steps = [
        kernel(1, Act::Die),
        send(0),
        Step::Reset { qp: 0 },
        recv(0),
        kernel(0, Act::Receive),
        Step::Reap,
        kernel(0, Act::Die),
        Step::Reap,
    ];
    play::<Rxe>(setup, &steps);
}

/// A claim took the receive of a QP that was destroyed for its own.
#[test]
fn a_receive_of_a_destroyed_qp_is_in_nobodys_way() {
    let steps = [
        Step::PostRecv { qp: 0, count: 3 },
        kernel(0, Act::Take),
        Step::Replace { qp: 0 },
        kernel(0, Act::Take),
        kernel(1, Act::Take),
    ];
    play::<Rxe>(shared(Kind::Rxe612, 2), &steps);
}

/// A QP that was dying had received it, and its CQE was on the way.
#[test]
fn a_receive_of_a_dying_qp_is_not_claimed_by_another() {
    let steps = [
        recv(0),
        kill(0),
        Step::Run,
        kernel(1, Act::Receive),
        kill(1),
        Step::Reap,
    ];
    play::<Rxe>(shared(Kind::Rxe612, 2), &steps);
}

/// The receive before it had come, and was unread: the ledger was not empty, but the ring was.
#[test]
fn a_receive_behind_one_that_is_unread_wakes_the_sleeper() {
    for kind in RXE {
        let steps = [
            Step::Sleep { cq: 0 },
            recv(0),
            kernel(0, Act::Receive),
            kernel(0, Act::Die),
            Step::Run,
            recv(0),
        ];
        play::<Rxe>(setup(kind), &steps);
    }
}

/// Both drivers, on each kernel.
#[track_caller]
fn play_all(case: impl Fn(Kind) -> (Setup, Vec<Step>)) {
    for kind in RXE {
        let (setup, steps) = case(kind);
        play::<Rxe>(setup, &steps);
    }
    let (setup, steps) = case(Kind::Siw);
    play::<Siw>(setup, &steps);
}

/// Another QP's completions have filled the CQ, every CQE of the flush was dropped, and nobody reads CQ_ERR.
#[test]
fn a_death_that_a_full_cq_hides_is_found_by_polling() {
    play_all(|kind| {
        let setup = Setup {
            qps: 2,
            room: 4,
            depth: 8,
            reaps: false,
            ..setup(kind)
        };
        let steps = vec![
            Step::PostRecv { qp: 0, count: 8 },
            kill(0),
            Step::Run,
            recv(1),
            kernel(1, Act::Die),
            Step::Run,
        ];
        (setup, steps)
    });
}

/// Their CQEs were dropped, and the ledger of an SRQ knows no order.
#[test]
fn receives_of_an_srq_that_a_full_cq_drops_complete() {
    play_all(|kind| {
        let setup = Setup {
            room: 4,
            depth: 8,
            ..shared(kind, 2)
        };
        let mut steps = vec![Step::PostRecv { qp: 0, count: 8 }];
        steps.extend((0..8).map(|_| kernel(0, Act::Receive)));
        (setup, steps)
    });
}

/// CQEs of an earlier life fill the CQ; a batch passes them over, finds that it was full, and nothing else. As long as it
/// kept their places, what it had the kernel do to wake the sleeper found no room.
#[test]
fn a_batch_that_finds_a_full_cq_leaves_room_for_what_wakes() {
    let signaled = Send {
        operation: Operation::Send,
        is_signaled: true,
        flaw: Flaw::None,
    };
    let poll = || Step::Poll { cq: 0, room: 0 };
    let setup = Setup {
        room: 3,
        reaps: false,
        whims: Tape(vec![
            30, 0, 0, 32, 188, 0, 17, 0, 75, 0, 0, 0, 149, 0, 116, 88, 0, 1, 0, 2, 0, 0, 0, 72, 0,
            0, 0, 125, 0, 0, 0, 154, 0, 0, 5, 0, 1, 0, 54, 0, 0, 0, 0, 9, 0, 42, 0, 0, 9, 0, 1, 0,
            29, 0, 54, 0, 0, 0, 9, 0, 107, 0, 0, 0, 16, 58, 0, 0, 21, 0, 1, 0, 49, 0, 0, 59, 0, 0,
            0, 21, 0, 0, 1, 0, 0, 29, 0, 1, 0, 1, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0, 156, 0, 0, 174,
            223,
        ]),
        ..setup(Kind::Rxe612)
    };
    let steps = [
        send(0),
        Step::PostRecv { qp: 0, count: 2 },
        kernel(0, Act::Receive),
        Step::PostSend {
            qp: 0,
            sends: vec![signaled],
        },
        Step::Sleep { cq: 0 },
        Step::Query { qp: 0 },
        poll(),
        poll(),
        poll(),
        send(0),
        Step::Breathe,
        Step::Reset { qp: 0 },
        send(0),
        Step::Breathe,
        Step::Breathe,
        send(0),
        send(0),
        send(0),
    ];
    play::<Rxe>(setup, &steps);
}
