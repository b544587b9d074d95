// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause

//! Model checks of the words that the provider and the kernel share, of its lock, of the ends of its ledgers, and of what it
//! has read ahead.
//!
//! `order`, `word`, `left`, `ends` and `armed` are the provider's own files, compiled here against loom's atomics. Each test runs them in
//! all interleavings with the kernel's side of the protocol, written from the kernel's source with
//! the same barriers (`smp_load_acquire` is an Acquire load, `smp_store_release` a Release store,
//! `smp_store_mb` a store and a SeqCst fence). A test named `…_without_…` shows that the property
//! does not hold without the ordering it names.
//!
//! Loom explores the C11 model without load buffering; x86 is stronger, arm64 is not covered where
//! the kernel's own side has no barrier.

#![cfg(test)]

mod atomic {
    pub(crate) use loom::hint::spin_loop;
    pub(crate) use loom::sync::atomic::{
        AtomicBool, AtomicIsize, AtomicU32, AtomicU64, Ordering, fence,
    };
}

#[path = "../../../provider/src/ring/order.rs"]
mod order;

#[path = "../../../provider/src/lock/word.rs"]
mod word;

#[path = "../../../provider/src/read_ahead/left.rs"]
mod left;

#[path = "../../../provider/src/ledger/ends.rs"]
mod ends;

#[path = "../../../provider/src/cq/armed.rs"]
mod armed;

mod futex;
mod index_ring;
mod lock;
mod mark;
mod own_ledger;
mod read_ahead;
mod valid_ring;
mod wake;
