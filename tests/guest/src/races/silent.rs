// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause

//! An application that never asks for a completion, and gets its queue entries back all the same.

use std::thread;
use std::time::Instant;

use guest::links::Device;
use guest::pair::Pair;
use guest::roll::patience;
use guest::suite::{Outcome, Suite, remark};
use guest::verbs::{Caps, RecvWr, SendWr, Transport, sys};

use super::{deadline, rounds};

/// Sends of each round: a hundred rounds are a million.
const SENDS: u64 = 10_000;

pub(super) fn add(suite: &mut Suite) {
    for device in Device::ALL {
        suite
            .case(format!("races/{device}/never_signaled"), move || {
                run(device)
            })
            .within(deadline(15));
    }
}

/// They stay silent to the last, and the QP dies with nothing to say.
fn run(device: Device) -> Outcome {
    let caps = Caps {
        send_wr: 128,
        ..Caps::default()
    };
    let pair = Pair::with(device, Transport::Rc, caps)?;
    let memory = pair.bench.memory(64)?;
    let write = SendWr::write(&[memory.sge(0, 8)], memory.remote(8)).inline();
    let count = SENDS * rounds() as u64;
    let start = Instant::now();
    for number in 0..count {
        post(&pair, write.clone().id(number))?;
    }
    pair.b
        .qp
        .post_recv(&[RecvWr::new(1, &[memory.sge(16, 8)])])?;
    post(&pair, SendWr::send(&[memory.sge(0, 8)]).id(count))?;
    pair.b.recv_cq.take_one()?.ok();
    let seconds = start.elapsed().as_secs_f32();
    remark(format_args!("{count} sends on {device} in {seconds:.1} s"));
    assert!(pair.a.send_cq.poll_one()?.is_none(), "one has spoken up");
    pair.a.qp.move_to(sys::IBV_QPS_ERR)?;
    Ok(())
}

fn post(pair: &Pair, wr: SendWr<'_>) -> Outcome {
    let start = Instant::now();
    let list = [wr];
    while let Err(refused) = pair.a.qp.post_send(&list) {
        refused.accepted_for_want_of_room()?;
        assert!(
            start.elapsed() < 4 * patience(),
            "the send queue stays full"
        );
        thread::yield_now();
    }
    Ok(())
}
