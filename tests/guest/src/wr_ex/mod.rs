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
use guest::suite::{Case, Outcome, Stop, Suite};
use guest::verbs::{Caps, QpInit, Transport, send_ops};

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
    let case = suite.case(format!("wr_ex/{device}/{name}"), move || run(device));
    case.beyond_stock(device.pick(None, Some(NONE)))
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
