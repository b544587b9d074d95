// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause

//! Theme `wr_ex`: extended QPs, and all that is promised of `ibv_post_send`, for sends that
//! `ibv_wr_post`(3) builds.

mod create;
mod flush;
mod misuse;
mod not_iwarp;
mod operations;
mod sums;
mod whole;

use guest::links::Device;
use guest::pair::{Bench, Pair};
use guest::payload::message;
use guest::suite::{Case, Outcome, Stop, Suite};
use guest::verbs::{Caps, QpInit, RecvWr, SendWr, Transport, send_ops};

/// The fault of stock siw.
const NONE: &str = "libsiw has no extended QP";

/// A fault of stock rxe.
const ENOSPC: &str = "the errno is ENOSPC, whatever is wrong";

/// Another.
const FLAGLESS: &str = "the setters of inline data do nothing unless wr_flags has IBV_SEND_INLINE";

/// Adds the cases of this theme.
pub(crate) fn add(suite: &mut Suite) {
    create::add(suite);
    operations::add(suite);
    sums::add(suite);
    whole::add(suite);
    misuse::add(suite);
    not_iwarp::add(suite);
    flush::add(suite);
}

/// Adds the case `name` of this theme.
fn case<'s>(
    suite: &'s mut Suite,
    device: Device,
    name: &str,
    run: impl Fn(Device) -> Outcome + 'static,
) -> &'s mut Case {
    suite
        .on("wr_ex", device, name, run)
        .beyond_stock(device.pick(None, Some(NONE)))
}

/// What a QP is created from that can post by draft all that there is.
fn init(bench: &Bench, transport: Transport, caps: Caps) -> Result<QpInit, Stop> {
    Ok(QpInit {
        send_ops: Some(send_ops(bench.device, transport)),
        ..bench.init(transport, caps)?
    })
}

/// Two such QPs, connected.
fn pair(device: Device, transport: Transport, caps: Caps) -> Result<Pair, Stop> {
    let bench = Bench::open(device)?;
    let (a, b) = (
        init(&bench, transport, caps)?,
        init(&bench, transport, caps)?,
    );
    Pair::of(bench, a, b)
}

/// Each request that is posted now completes, in order, and nothing else does.
fn assert_works(pair: &Pair) -> Outcome {
    let (from, to) = (pair.bench.memory(16)?, pair.bench.memory(16)?);
    for number in 0..100 {
        from.write(0, &message(number, 16));
        pair.b
            .qp
            .post_recv(&[RecvWr::new(number, &[to.sge(0, 16)])])?;
        let send = SendWr::send(&[from.sge(0, 16)]).id(number).signaled();
        pair.a.qp.post_draft(&[send])?;
        let received = pair.b.recv_cq.take_one()?.ok();
        let sent = pair.a.send_cq.take_one()?.ok();
        assert_eq!((received.wr_id, sent.wr_id), (number, number));
        assert!(to.read(0..16) == message(number, 16), "{number} changed");
    }
    assert!(pair.a.send_cq.poll_one()?.is_none(), "one too many");
    Ok(())
}
