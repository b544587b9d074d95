// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause

//! Theme `faults`: the kernel fails or lies, once, and libibverbs is not what the provider knows.
//!
//! A case runs in a process of its own below `libfault.so` (crate `fault`), which must have been
//! built into the directory of this program.

mod creations;
mod holdings;
mod libfault;
mod resize_cq;
mod resize_srq;
mod unserved;

use guest::pair::Bench;
use guest::suite::{Outcome, Suite};
use guest::verbs::{QpInit, RecvWr, SendWr};

/// How the stock providers fare with an impossible answer or header.
const BELIEVES: &str = "whatever the kernel says of a ring is believed";

/// Adds the cases of this theme.
pub(crate) fn add(suite: &mut Suite) {
    creations::add(suite);
    resize_cq::add(suite);
    resize_srq::add(suite);
    unserved::add(suite);
}

/// Connects two QPs as `init` says, and sends messages from the one to the other.
///
/// Their SRQ, if they have one, holds receives with the `wr_id`s 0 to `posted` already; one more
/// is posted.
fn messages_arrive(bench: &Bench, init: &QpInit, posted: u64) -> Outcome {
    let memory = bench.memory(16)?;
    let (sender, receiver) = bench.connect(init, init)?;
    let recv = RecvWr::new(posted, &[memory.sge(8, 8)]);
    match &init.srq {
        Some(srq) => srq.post_recv(&[recv])?,
        None => receiver.post_recv(&[recv])?,
    }
    let send = SendWr::send(&[memory.sge(0, 8)]).signaled();
    for wr_id in 0..=posted {
        sender.post_send(std::slice::from_ref(&send))?;
        init.send_cq.take_one()?.ok();
        assert_eq!(init.recv_cq.take_one()?.ok().wr_id, wr_id);
    }
    Ok(())
}
