// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause

//! Header of a mapped queue (`struct rxe_queue_buf`), as byte offsets.
//!
//! | word, `u32` | written by | meaning |
//! |---|---|---|
//! | [`LOG2_ELEM_SIZE`] | kernel, at creation | log₂ of the size of a slot |
//! | [`INDEX_MASK`] | kernel, at creation | number of slots − 1 |
//! | [`PRODUCER_INDEX`] | user for SQ, RQ and SRQ; kernel for CQ | slot that is filled next |
//! | [`CONSUMER_INDEX`] | kernel for SQ, RQ and SRQ; user for CQ | slot that is emptied next |
//!
//! Indices are kept masked. The queue is empty when they are equal and full when the producer's
//! successor is the consumer, so one slot stays free: the kernel makes
//! `(wanted + 1).next_power_of_two()` slots of at least 64 bytes each, also a power of two
//! (linux 6.1 `drivers/infiniband/sw/rxe/rxe_queue.c`: `rxe_queue_init`).
//!
//! An index is the only synchronisation between the two sides
//! (linux 6.1 `drivers/infiniband/sw/rxe/rxe_queue.h`):
//!
//! - The owner finishes with the element, then stores its index with release; the kernel by
//!   `smp_store_release` in `queue_advance_producer` and `queue_advance_consumer`.
//! - The other side loads the index with acquire, then looks at the element; the kernel by
//!   `smp_load_acquire` in `queue_get_producer` and `queue_get_consumer`.
//!
//! The kernel keeps a private copy of the index that it owns and never reads it back from here.
//!
//! The consumer index of an RQ moves when the receive completes. That of an SRQ moves when the
//! kernel takes the element, which it copies (linux 6.1 `rxe_resp.c`: `get_srq_wqe`,
//! `do_complete`).

/// Offset of log₂ of the size of a slot.
pub const LOG2_ELEM_SIZE: usize = 0;

/// Offset of the number of slots less one.
pub const INDEX_MASK: usize = 4;

/// Offset of the producer's index, on a cache line of its own.
pub const PRODUCER_INDEX: usize = 128;

/// Offset of the consumer's index, on a cache line of its own.
pub const CONSUMER_INDEX: usize = 256;

/// Offset of the first slot.
pub const DATA: usize = 384;
