// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause

//! The ledgers: one entry per accepted work request, from the post until its completion is handed
//! to the application.
//!
//! The mapped ring is the wire to the kernel; the ledger beside it is what the library knows: the
//! caller's `wr_id`, the opcode, whether success is to be reported. Plain data: no system calls, no unsafe code but that
//! of `entries.rs`. A ledger lives under the lock of its queue; that of a QP's own receives is filled under that and
//! emptied under the lock of the CQ.
//!
//! * [`SendLedger`]: entries leave in posting order, whatever order the kernel's CQEs have.
//! * [`RecvLedger`]: the kernel completes the receives of one QP in order.
//! * [`SharedLedger`]: the entries of an SRQ leave in any order, as several QPs take them.

mod ends;
mod entries;
mod entry;
mod fill;
mod recv;
mod send;
mod shared;
#[cfg(test)]
mod tests;

mod atomic {
    pub(super) use std::sync::atomic::{AtomicU32, Ordering};
}

pub(crate) use entry::{Entry, Outcome, Posted, Sent, Standing, small};
pub(crate) use recv::{Received, RecvLedger, wr_id_of};
pub(crate) use send::{CqeOrder, Progress, SendLedger};
pub(crate) use shared::{SharedLedger, Taken, is_before};

use crate::cookie::CookieBase;

/// What posting to a receive queue asks of its ledger.
pub(crate) trait Receives: Sized {
    /// Enters receives as long as there is room: `accept` is told the cookie of each, and answers with its
    /// `wr_id`, or that there is none. How many.
    fn fill(self, cookies: CookieBase, accept: impl FnMut(u64) -> Option<u64>) -> u32;

    /// The free entry that the next receive gets.
    type Free: FreeRecv;

    /// The free entry that the next receive gets, if there is room and it is quickly found.
    fn free(self, cookies: CookieBase) -> Option<Self::Free>;
}

/// A free entry of a receive queue's ledger.
pub(crate) trait FreeRecv {
    /// The cookie of the receive that it gets.
    fn cookie(&self) -> u64;

    /// Enters a receive.
    fn enter(self, wr_id: u64);
}
