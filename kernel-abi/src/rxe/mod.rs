// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause

//! Soft-RoCE, `rdma_rxe`.
//!
//! C headers: `include/uapi/rdma/rdma_user_rxe.h`, and `ib_user_verbs.h` for [the
//! completions](crate::uverbs::Wc). Layouts are those of linux 6.1 to 6.12; what a later kernel
//! added stands where it was added.
//!
//! A queue is one mapping: a [header](queue), then slots. Each side owns one index, publishes it
//! with release after it is done with the element, and reads the other's with acquire.
//! `CMD_POST_SEND` makes the kernel look at a send queue; a receive queue has no doorbell.

pub mod limits;
pub mod queue;

mod address;
mod recv;
mod response;
mod send;

pub use address::{Av, GlobalRoute, NetworkType, SocketAddress};
pub use recv::RecvWqe;
pub use response::{
    CreateAhResp, CreateCqResp, CreateQpResp, CreateSrqResp, MmapInfo, ModifySrqCmd, ResizeCqResp,
};
pub use send::{
    AtomicWr, DmaInfo, FlushWr, MwWr, RdmaWr, SEND_WR_UNION_SIZE, SendHead, SendWqe, SendWr, Sge,
    UdWr, wqe_state,
};

/// Version that the driver reports in `abi_version` (`RXE_UVERBS_ABI_VERSION`,
/// linux 6.1 `drivers/infiniband/sw/rxe/rxe.h`).
///
/// Version 1 differs in the layout of 32-bit programs alone: a 64-bit provider may treat both
/// alike.
pub const ABI_VERSION: u32 = 2;
