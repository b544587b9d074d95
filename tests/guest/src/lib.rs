// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause

//! Tests of a libibverbs provider as an application meets it: public verbs only, on real
//! `rdma_rxe` and `siw` devices, inside a guest.
//!
//! This library is the machinery: [`runner`] runs each [`suite::Case`] in a process of its own,
//! [`links`] sets up the devices, [`verbs`] wraps libibverbs and librdmacm, and [`pair`] connects
//! two queue pairs. The cases themselves are the modules of the binary, one per theme.
//!
//! The provider under test is whichever libibverbs loads (`RDMAV_DRIVERS` chooses). The
//! environment variable `PROVIDER` (`stock` or `lastwqe`) says which one is meant, and the theme
//! `served_by` checks that it is the one that serves.

#![expect(
    clippy::arithmetic_side_effects,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "a panic in a test process is how a case fails: the runner reports its message"
)]
#![expect(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "verdicts go to standard output, remarks to standard error"
)]

pub mod cable;
pub mod clog;
pub mod companion;
pub mod death;
pub mod events;
pub mod links;
pub mod load;
pub mod pair;
pub mod payload;
pub mod peer;
pub mod process;
pub mod roll;
pub mod runner;
pub mod scene;
pub mod sleeper;
pub mod suite;
pub mod verbs;
