// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause

//! Whether a waiter may be asleep on a CQ whom the library has not woken.
//!
//! Whoever arms a CQ takes no lock. It asks the kernel for an event, sets this, and polls once more, as
//! `ibv_get_cq_event`(3) says. Whoever has something due notes that under the lock of the CQ, takes this, and rings the
//! bell. If the poll had the lock before, this was set by then, and the kernel asked; so the bell raises the event. If it
//! has the lock later, it finds what is due.
//!
//! The model tests (`tests/model`) run this very file; `atomic` is the standard library's here and loom's there.

use super::atomic::{AtomicBool, Ordering, fence};

#[derive(Debug)]
pub(crate) struct Armed(AtomicBool);

impl Armed {
    pub(crate) fn new() -> Self {
        Self(AtomicBool::new(false))
    }

    /// Somebody may fall asleep, since the kernel was asked for an event.
    ///
    /// Release: pairs with [`take`](Self::take), whose bell is rung behind the kernel's being asked. The fence is that
    /// of both: of the kernel's word (see `order::arm`), and of this and what is looked at behind it.
    #[inline(always)]
    pub(crate) fn set(&self) {
        self.0.store(true, Ordering::Release);
        fence(Ordering::SeqCst);
    }

    /// Whether somebody may be asleep. What was stored before is seen by whoever [sets](Self::set) this later.
    pub(crate) fn is_set(&self) -> bool {
        // SeqCst: the partner of the fence in `set`.
        fence(Ordering::SeqCst);
        self.0.load(Ordering::Relaxed)
    }

    /// Whether somebody may be asleep, who is going to be woken.
    ///
    /// Acquire: pairs with [`set`](Self::set). Release: whoever sets it anew afterwards is behind this.
    pub(crate) fn take(&self) -> bool {
        self.0.load(Ordering::Relaxed) && self.0.swap(false, Ordering::AcqRel)
    }
}
