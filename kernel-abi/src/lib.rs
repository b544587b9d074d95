// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause

//! What the Linux kernel declares to a user-space provider of `rdma_rxe` and `siw`.
//!
//! | module | header, linux 6.1 | contents |
//! |---|---|---|
//! | [`uverbs`] | `include/uapi/rdma/ib_user_verbs.h` | the commands of `/dev/infiniband/uverbsN` that a driver extends |
//! | [`rxe`] | `include/uapi/rdma/rdma_user_rxe.h` | Soft-RoCE: rings, work queue elements, responses |
//! | [`siw`] | `include/uapi/rdma/siw-abi.h` | Soft-iWARP: rings, work queue elements, responses |
//!
//! The types are plain old data. Each is `#[repr(C)]` without implicit padding, and size, alignment
//! and every offset are asserted where the type is defined; `header-check` compares them with the
//! installed headers. Lengths and offsets are in bytes. Integers are in the machine's byte order
//! unless their documentation says *network order*.
//!
//! A C union becomes one Rust type per member, each padded to the size of the union, so that
//! reading a member needs no unsafe code.
//!
//! The memory of a ring is shared with the kernel. These types describe its bytes; they do not make
//! it sound to hold a reference to it. A provider moves elements in and out by copy and orders the
//! copies by the words that each ring's module documents.

#![no_std]
#![forbid(unsafe_code)]

mod layout;
pub mod rxe;
pub mod siw;
pub mod uverbs;
