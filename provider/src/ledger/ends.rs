// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause

//! The ends of a ledger that is filled under one lock and emptied under another.
//!
//! The model tests (`tests/model`) run this very file; `atomic` is the standard library's here and loom's there.

use super::atomic::{AtomicU32, Ordering};

/// The name of the first entry that is outstanding, or of the first one that is free: a number that counts up. Whoever
/// changes it has the lock of that end.
#[derive(Debug, Default)]
pub(crate) struct End(AtomicU32);

impl End {
    /// Acquire: pairs with [`set`](Self::set).
    #[inline(always)]
    pub(crate) fn get(&self) -> u32 {
        self.0.load(Ordering::Acquire)
    }

    /// Release: pairs with [`get`](Self::get) at the other end. What was entered before the first free entry is read
    /// there; what is before the first outstanding one was read, and may be overwritten.
    #[inline(always)]
    pub(crate) fn set(&self, name: u32) {
        self.0.store(name, Ordering::Release);
    }
}
