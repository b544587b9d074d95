// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause

//! The guest tests: one module per theme, each of which adds its cases to the suite.

#![expect(
    clippy::arithmetic_side_effects,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "a panic in a test process is how a case fails: the runner reports its message"
)]

mod advise_mr;
mod async_events;
mod bad_input;
mod contract;
mod cq_ex;
mod domains;
mod event_semantics;
mod fake_events;
mod faults;
mod flush_basic;
mod flush_late;
mod fork;
mod leaks;
mod llp_close;
mod mcast;
mod races;
mod recycle;
mod refused;
mod resize_cq;
mod responder;
mod served_by;
mod shared;
mod signs;
mod small_cq;
mod srq_ex;
mod storm;
mod syscalls;
mod threads;
mod traffic;
mod truth;
mod waiters;
mod wc_fields;
mod wr_ex;

use std::process::ExitCode;

use guest::runner;
use guest::suite::Suite;

fn main() -> ExitCode {
    let mut suite = Suite::default();
    served_by::add(&mut suite);
    traffic::add(&mut suite);
    wc_fields::add(&mut suite);
    bad_input::add(&mut suite);
    contract::add(&mut suite);
    faults::add(&mut suite);
    flush_basic::add(&mut suite);
    flush_late::add(&mut suite);
    refused::add(&mut suite);
    waiters::add(&mut suite);
    signs::add(&mut suite);
    shared::add(&mut suite);
    recycle::add(&mut suite);
    small_cq::add(&mut suite);
    resize_cq::add(&mut suite);
    cq_ex::add(&mut suite);
    truth::add(&mut suite);
    event_semantics::add(&mut suite);
    races::add(&mut suite);
    storm::add(&mut suite);
    threads::add(&mut suite);
    fork::add(&mut suite);
    syscalls::add(&mut suite);
    async_events::add(&mut suite);
    fake_events::add(&mut suite);
    leaks::add(&mut suite);
    wr_ex::add(&mut suite);
    mcast::add(&mut suite);
    srq_ex::add(&mut suite);
    advise_mr::add(&mut suite);
    domains::add(&mut suite);
    llp_close::add(&mut suite);
    responder::add(&mut suite);
    runner::main(&suite)
}
