// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
//! Discovery leaves nothing behind. Alone in its process, so that what grows is its own doing.

#![expect(clippy::expect_used, reason = "a test fails where it stands")]

use std::fs;

use rdma_core_sys::{Decline, Library};

mod loaded;

const ROUNDS: usize = 2000;

/// Less than what `ROUNDS` of the smallest block take that a round allocates in libibverbs: some
/// 650 bytes, for the context's private part.
const ALLOWED_GROWTH_PAGES: usize = 200;

#[test]
fn discovery_leaves_no_descriptor_and_no_memory() {
    assert_eq!(Library::discover().err(), Some(Decline::NotLoaded));
    loaded::libibverbs();
    let discover = || drop(Library::discover().expect("the installed libibverbs is served"));
    discover();

    let before = (descriptors(), resident_pages());
    (0..ROUNDS).for_each(|_| discover());
    let after = (descriptors(), resident_pages());

    assert_eq!(after.0, before.0, "open descriptors");
    let growth = after.1.saturating_sub(before.1);
    assert!(
        growth < ALLOWED_GROWTH_PAGES,
        "grew by {growth} pages in {ROUNDS} rounds"
    );
}

fn descriptors() -> usize {
    fs::read_dir("/proc/self/fd")
        .expect("procfs is mounted")
        .count()
}

fn resident_pages() -> usize {
    let pages = fs::read_to_string("/proc/self/statm").expect("procfs is mounted");
    pages
        .split(' ')
        .nth(1)
        .and_then(|resident| resident.parse().ok())
        .expect("statm has it second")
}
