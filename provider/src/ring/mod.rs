// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause

//! The rings that the kernel shares with this process: the only code that touches that memory.
//!
//! A slot is ours or the kernel's, never both: we write it before we publish it and read it after
//! the kernel did. Slots are therefore copied with plain accesses, indices and flags are atomics,
//! and no reference to a slot is ever made. What is read from a slot is input and is checked by
//! whoever interprets it.
//!
//! # Ordering
//!
//! Atomics order us against the kernel. Threads of this process are ordered by the lock of the
//! queue, which every caller holds but for the look at a WQE's state behind a doorbell.
//!
//! | word | writer | we | kernel (linux 6.1, 6.12) | carries |
//! |---|---|---|---|---|
//! | rxe SQ, RQ, SRQ `producer_index` | us | store Release | `queue_get_producer`: load acquire | the WQE |
//! | rxe SQ, RQ, SRQ `consumer_index` | kernel | load Acquire | `queue_advance_consumer`: store release | the slot is free |
//! | rxe CQ `producer_index` | kernel | load Acquire | `queue_advance_producer`: store release | the CQE |
//! | rxe CQ `consumer_index` | us | store Release | `queue_get_consumer`: load acquire | the slot is free |
//! | rxe WQE `state` | both | store 0, load, Relaxed | plain stores | how far the kernel is; nothing else |
//! | siw SQE, RQE `flags` | both | store Release of VALID, load Acquire of 0 | `READ_ONCE`; `smp_store_mb(flags, 0)` | the WQE; the slot is free |
//! | siw SQE, RQE `flags` of the mark | both | compare and swap for VALID, SeqCst | `READ_ONCE` when it flushes; `smp_store_mb(flags, 0)` | the WQE; that the kernel has not flushed |
//! | siw CQE `flags` | both | load Acquire of VALID, store Release of 0 | `WRITE_ONCE(flags, VALID)` | the CQE; the slot is free |
//! | siw `notify` | both | store, fence SeqCst, then look for CQEs | CQE, `smp_store_mb`, then `READ_ONCE` | no wake-up is lost |
//!
//! The accesses themselves are in [`order`]. The flags of siw's entries are read and written together with what stands
//! beside them in 32 bits (`valid/head.rs`), of which the kernel reads and clears the flags alone. siw has no write barrier between the fields of a CQE and
//! its VALID flag (`siw_qp.c: siw_sqe_complete`), so on that row our Acquire has a partner on x86
//! only.

pub(crate) mod index;
mod inline_data;
mod map;
mod order;
pub(crate) mod valid;
pub(crate) mod valid_cq;

/// The atomics that [`order`] uses.
mod atomic {
    pub(super) use std::sync::atomic::{AtomicU32, AtomicU64, Ordering, fence};
}
