// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause

//! The ledgers: one entry per accepted work request, from the post until its completion is handed
//! to the application.
//!
//! The mapped ring is the wire to the kernel; the ledger beside it is what the library knows: the
//! caller's `wr_id`, the opcode, whether success is to be reported. Plain data: no atomics, no
//! unsafe code, no system calls. Each ledger lives under the lock of its queue.
//!
//! * [`SendLedger`]: entries leave in posting order, whatever order the kernel's CQEs have.
//! * [`RecvLedger`]: the kernel completes the receives of one QP in order.
//! * [`SharedLedger`]: the entries of an SRQ leave in any order, as several QPs take them.

mod entry;
mod fill;
mod recv;
mod send;
mod shared;
#[cfg(test)]
mod tests;

pub(crate) use entry::{Entry, Outcome, Posted, Sent, small};
pub(crate) use recv::{Received, RecvLedger};
pub(crate) use send::{CqeOrder, Progress, SendLedger};
pub(crate) use shared::{SharedLedger, Taken, is_before};

use crate::cookie::CookieBase;
use crate::errno::{Errno, Result};

/// What posting to a receive queue asks of its ledger.
pub(crate) trait Receives {
    /// Enters receives as long as there is room: `accept` is told the cookie of each, and answers with its
    /// `wr_id`, or that there is none. How many.
    fn fill(&mut self, cookies: CookieBase, accept: impl FnMut(u64) -> Option<u64>) -> u32;

    /// The free entry that the next receive gets.
    type Free<'l>: FreeRecv
    where
        Self: 'l;

    /// The free entry that the next receive gets, if there is room and it is quickly found.
    fn free(&mut self, cookies: CookieBase) -> Option<Self::Free<'_>>;
}

/// A free entry of a receive queue's ledger.
pub(crate) trait FreeRecv {
    /// The cookie of the receive that it gets.
    fn cookie(&self) -> u64;

    /// Enters a receive.
    fn enter(self, wr_id: u64);
}

/// A zeroed slice whose length is `depth` rounded up to a power of two, and the index mask for it.
///
/// # Errors
///
/// `ENOMEM` if the memory cannot be had, `EINVAL` if no power of two is large enough.
fn entries<E: Clone + Default>(depth: u32) -> Result<(Box<[E]>, u32)> {
    let len = depth
        .max(1)
        .checked_next_power_of_two()
        .ok_or(Errno::EINVAL)?;
    let count = usize::try_from(len).map_err(|_| Errno::EINVAL)?;
    let mut entries = Vec::new();
    entries.try_reserve_exact(count)?;
    entries.resize(count, E::default());
    Ok((entries.into_boxed_slice(), len.wrapping_sub(1)))
}
