// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause

//! Theme `bad_input`: a request that cannot be accepted is refused with a positive errno, `bad_wr`
//! points to it, it never completes, and nothing of it reaches the ring.

mod full;
mod lists;
mod requests;
mod states;

use guest::pair::Pair;
use guest::payload::message;
use guest::suite::{Outcome, Suite};
use guest::verbs::{BadWr, RecvWr, Refused, SendWr};

/// Adds the cases of this theme.
pub(crate) fn add(suite: &mut Suite) {
    requests::add(suite);
    lists::add(suite);
    states::add(suite);
    full::add(suite);
}

/// Why stock siw fails every case of a refused request, whatever else it does.
const NEGATIVE: &str = "the errno is negative";

/// What a verb must say that refuses the request at place `at` with `errno`.
fn refusal(errno: i32, at: usize) -> Result<(), Refused> {
    Err(Refused {
        returned: errno,
        bad: BadWr::At(at),
    })
}

/// Good traffic in both directions, more than any ring of the pair has entries: each request
/// completes, in order, and nothing else does.
fn assert_works(pair: &Pair) -> Outcome {
    let (from, to) = (pair.bench.memory(16)?, pair.bench.memory(16)?);
    for (sender, receiver) in pair.directions() {
        for number in 1000..1150 {
            from.write(0, &message(number, 16));
            receiver
                .qp
                .post_recv(&[RecvWr::new(number, &[to.sge(0, 16)])])?;
            sender
                .qp
                .post_send(&[SendWr::send(&[from.sge(0, 16)]).id(!number).signaled()])?;
            let received = receiver.recv_cq.take_one()?.ok();
            assert_eq!(received.wr_id, number, "received {received:?}");
            let sent = sender.send_cq.take_one()?.ok();
            assert_eq!(sent.wr_id, !number, "sent {sent:?}");
            assert!(
                to.read(0..16) == message(number, 16),
                "message {number} changed"
            );
        }
        for cq in [&sender.send_cq, &receiver.recv_cq] {
            if let Some(wc) = cq.poll_one()? {
                panic!("a completion that nobody is waiting for: {wc:?}");
            }
        }
    }
    Ok(())
}
