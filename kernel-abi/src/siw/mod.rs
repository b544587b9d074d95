// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause

//! Soft-iWARP, `siw`.
//!
//! C header: `include/uapi/rdma/siw-abi.h`, the same in linux 6.1 and 6.12.
//!
//! A queue is a mapped array of elements, a power of two of them, without a header and without
//! indices: each side counts for itself. Setting an element's [`VALID`](flags::VALID) flag hands it
//! to the other side, clearing it hands it back.
//!
//! | element | user | kernel |
//! |---|---|---|
//! | [`Sqe`], [`Rqe`] | fills it, stores `flags` with `VALID`, release | finds `VALID`, copies it, stores `flags` 0 (`smp_store_mb`) |
//! | [`Cqe`] | loads `flags` with `VALID`, acquire; copies it; stores `flags` 0, release | finds `flags` 0, fills it, stores `VALID` |
//!
//! So a cleared [`Sqe`] or [`Rqe`] was *taken*, which is not *completed*: the kernel works on a
//! copy.
//!
//! The kernel stores the `VALID` of a [`Cqe`] with `WRITE_ONCE`, without a barrier before it
//! (linux 6.1 `drivers/infiniband/sw/siw/siw_qp.c`: `siw_sqe_complete`, `siw_rqe_complete`). The
//! user's acquire pairs with that only on machines that keep stores in order, such as x86.

mod completion;
mod llp_event;
mod response;
mod work;

pub use completion::{CqCtrl, Cqe, notify, status};
pub use llp_event::LlpEvent;
pub use response::{AllocCtxResp, CreateCqResp, CreateQpResp, CreateSrqResp, RegMrCmd, RegMrResp};
pub use work::{MAX_INLINE, MAX_SGE, Rqe, Sge, Sqe, flags, opcode};

/// Version that the driver reports in `abi_version` (`SIW_ABI_VERSION`).
pub const ABI_VERSION: u32 = 1;
