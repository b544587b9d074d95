// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
//! What libibverbs declares: to the programs that use it, and to the providers that serve it.
//!
//! # Public half
//!
//! [`public`], re-exported at the root, is bindgen's reading of the installed
//! `infiniband/verbs.h`. Its layouts are the same in every rdma-core release this crate serves.
//! [`inline`] holds Rust twins of the few functions that `verbs.h` defines in the header and that
//! no symbol therefore stands for.
//!
//! # Private half
//!
//! What libibverbs shares with its providers alone has no installed header, carries a number
//! (the *private ABI*, "PABI") that does not identify a layout, and changes between releases.
//! So this half is found when the provider is loaded:
//!
//! * [`provider`] has the structs whose layout never changed, with their offsets asserted;
//! * [`ops`] names every operation a provider may implement, [`generation`] the layouts that are
//!   known, by their sizes and the position of each operation;
//! * [`library`] looks up the loaded libibverbs, measures its layout, and either yields a
//!   [`Library`], whose layout equals a known generation in every measured place, or a
//!   [`Decline`]. A provider that declines registers nothing, and the stock provider serves the
//!   device;
//! * [`calls`] has the private functions, typed.
//!
//! Nothing here links to libibverbs: there is no `-libverbs` and no `DT_NEEDED` entry. A program
//! that calls the `extern` functions of [`public`] adds the link flag itself.
//!
//! Everything is written for LP64 Linux with glibc.

pub mod calls;
pub mod decline;
mod discovery;
pub mod extended;
pub mod generation;
pub mod inline;
pub mod library;
pub mod log;
pub mod ops;
mod places;
mod private_abi;
mod probe;
pub mod provider;
pub mod public;
mod symbols;
mod variants;

pub use decline::Decline;
pub use library::Library;
pub use ops::ContextOps;
pub use public::*;
