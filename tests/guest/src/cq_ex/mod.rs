// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause

//! Theme `cq_ex`: the extended CQ. What `ibv_start_poll` and `ibv_next_poll` come to is what `ibv_poll_cq`
//! would have returned, also of a dead QP.

mod attributes;
mod batches;
mod fields;
mod times;

use std::env;

use guest::links::Device;
use guest::pair::{Bench, Pair};
use guest::scene::Plan;
use guest::suite::{Case, Outcome, Stop, Suite};
use guest::verbs::{Caps, Cq, QpInit, Transport, attributes_ex};

use super::signs;

/// What libsiw lacks.
const NONE: &str = "libsiw has no extended CQ";

/// Seconds that a stock provider gets for a case: librxe, which misreads the ring, goes round in it for
/// ever.
const STOCK_DEADLINE: u64 = 2;

/// Adds the cases of this theme.
pub(crate) fn add(suite: &mut Suite) {
    let others = suite.cases.len();
    fields::add(suite);
    batches::add(suite);
    times::add(suite);
    attributes::add(suite);
    signs::each_death(suite, "cq_ex", Plan::EXTENDED, |device| {
        device.pick(Some(batches::ENDS_TWICE), Some(NONE))
    });
    if env::var("PROVIDER").is_ok_and(|provider| provider == "stock") {
        for case in &mut suite.cases[others..] {
            case.within(STOCK_DEADLINE);
        }
    }
}

/// Adds a case that fails on libsiw, and on librxe for the given reason.
fn case<'s>(
    suite: &'s mut Suite,
    device: Device,
    name: &str,
    run: impl Fn(Device) -> Outcome + 'static,
    fault_of_rxe: Option<&'static str>,
) -> &'s mut Case {
    suite
        .on("cq_ex", device, name, run)
        .beyond_stock(device.pick(fault_of_rxe, Some(NONE)))
}

/// Two connected QPs with extended CQs, of which `wc_flags` can be read.
fn pair(device: Device, transport: Transport, wc_flags: u32) -> Result<Pair, Stop> {
    let bench = Bench::open(device)?;
    let init = || -> Result<QpInit, Stop> {
        let cq = || Cq::create_ex(&bench.context, None, attributes_ex(64, wc_flags));
        Ok(QpInit {
            transport,
            send_cq: cq()?,
            recv_cq: cq()?,
            srq: None,
            caps: Caps::default(),
            signal_all: false,
            send_ops: None,
        })
    };
    let (a, b) = (init()?, init()?);
    Pair::of(bench, a, b)
}
