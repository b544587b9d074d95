// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause

//! Theme `traffic`: what is sent arrives, whole and once.

mod atomics;
mod datagram;
mod gather;
mod immediate;
mod inline;
mod invalidate;
mod shared;
mod signals;
mod sizes;
mod waiting;
mod without_elements;
mod wrap;

use guest::suite::Suite;

/// Adds the cases of this theme.
pub(crate) fn add(suite: &mut Suite) {
    sizes::add(suite);
    immediate::add(suite);
    atomics::add(suite);
    invalidate::add(suite);
    datagram::add(suite);
    gather::add(suite);
    inline::add(suite);
    wrap::add(suite);
    signals::add(suite);
    shared::add(suite);
    waiting::add(suite);
    without_elements::add(suite);
}
