// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause

//! Limits of the driver, which are not part of its ABI.
//!
//! From `drivers/infiniband/sw/rxe/rxe_param.h`, the same in linux 6.1 and 6.12. Another kernel may
//! have others: what `ibv_query_device` answers counts.

/// Gather entries of a send, and scatter entries of a receive outside an SRQ.
pub const MAX_SGE: u32 = 32;

/// Scatter entries of an SRQ's receive.
pub const MAX_SRQ_SGE: u32 = 27;

/// Bytes of inline data: the room of [`MAX_SGE`] entries.
pub const MAX_INLINE_DATA: u32 = 512;

/// Work requests of one send or receive queue.
pub const MAX_QP_WR: u32 = 1 << 20;

/// Work requests of one SRQ.
pub const MAX_SRQ_WR: u32 = 1 << 20;

/// Entries of one completion queue.
pub const MAX_CQE: u32 = (1 << 15) - 1;

/// RDMA reads and atomics of one queue pair at a time, in either direction.
pub const MAX_QP_RD_ATOM: u32 = 128;
