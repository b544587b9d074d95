// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause

//! A draft of `ibv_wr_post`(3): what was built since `ibv_wr_start`, in memory of its own.
//!
//! Nothing of it is in the ring or the ledger before `ibv_wr_complete` has posted it as one list. So
//! the send queue is locked no longer than for `ibv_post_send`: meanwhile others may post, poll, and
//! see the QP die. Only the drafts of a QP exclude each other.
//!
//! The memory is reserved with the QP, about as much again as its ring; pages of it are used as far as
//! the longest draft reached.

mod open;
mod staged;

use std::cell::UnsafeCell;
use std::fmt;
use std::slice;
use std::sync::atomic::{AtomicU64, Ordering};

use rdma_core_sys::ibv_qp_cap;

pub(crate) use self::open::Open;
pub(crate) use self::staged::{Staged, Whole};
use crate::errno::{Errno, Result};
use crate::object::zeroed;
use crate::thread::this_thread;
use crate::turn::Turn;

/// Where a QP's drafts are built: one at a time.
///
/// # Invariants
///
/// `open` and `all` are used by the thread alone that has the turn. `open` refers to what is in `all` from
/// `ibv_wr_start` to `ibv_wr_complete` or `ibv_wr_abort`, and `all` is used by nothing else meanwhile.
#[derive(Default)]
pub(crate) struct Draft {
    open: UnsafeCell<Open>,
    /// The [`this_thread`] that is building, and has the turn; 0 for nobody.
    owner: AtomicU64,
    turn: Turn,
    /// As many work requests as the send queue takes.
    all: UnsafeCell<Box<[Staged]>>,
}

impl Draft {
    /// Room for a draft of `depth` work requests with as much data as `cap` allows.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(crate) fn new(depth: u32, cap: &ibv_qp_cap) -> Result<Self> {
        let depth = usize::try_from(depth).map_err(|_| Errno::ENOMEM)?;
        // SAFETY: zeroes are a `Staged`.
        let all = unsafe { zeroed(depth) }?;
        Ok(Self {
            open: UnsafeCell::new(Open::new(depth, cap)?),
            all: UnsafeCell::new(all),
            ..Self::default()
        })
    }

    /// Whether this thread builds a draft here.
    #[inline(always)]
    fn is_ours(&self) -> bool {
        // Relaxed: only this thread stores its own name, so no other's store looks like it.
        self.owner.load(Ordering::Relaxed) == this_thread()
    }

    /// Begins a draft, when no other thread builds one. A thread that does so already is at a loss: its
    /// draft will be refused.
    #[inline(always)]
    pub(crate) fn start(&self) {
        if self.is_ours() {
            return self.fail(Errno::EINVAL);
        }
        self.turn.take();
        // SAFETY: this thread has the turn, and `open` does not refer to them (invariant). A box stays in its place;
        // it is freed with the QP, when nobody builds.
        let (open, all) = unsafe {
            let all = &mut **self.all.get();
            let all = slice::from_raw_parts_mut(all.as_mut_ptr(), all.len());
            (&mut *self.open.get(), all)
        };
        open.begin_draft(all);
        // Relaxed: see `is_ours`; the turn orders the rest.
        self.owner.store(this_thread(), Ordering::Relaxed);
    }

    /// What the builders and setters find.
    ///
    /// # Safety
    ///
    /// The caller builds, or nobody does; the reference is not used beyond the call of a builder or setter. That is
    /// `ibv_wr_post`(3)'s: from `ibv_wr_start` on no other thread can be where it builds (CONCURRENCY). It could not
    /// be without harm either: `wr_id` and `wr_flags` are given in members of the QP.
    #[inline(always)]
    #[expect(clippy::mut_from_ref, reason = "the turn stands for it")]
    pub(crate) unsafe fn open(&self) -> &mut Open {
        // SAFETY: the caller's promise.
        unsafe { &mut *self.open.get() }
    }

    /// Has the draft that this thread builds be refused; without one, nothing.
    #[cold]
    #[inline(never)]
    pub(crate) fn fail(&self, errno: Errno) {
        if self.is_ours() {
            // SAFETY: this thread has the turn (invariant).
            unsafe { &mut *self.open.get() }.fail(errno);
        }
    }

    /// Ends this thread's draft; `use_it` may post it, before another one can begin.
    ///
    /// # Errors
    ///
    /// `EINVAL` if there is none; the first mistake made in it; what `use_it` says.
    #[inline(always)]
    pub(crate) fn end(&self, use_it: impl FnOnce(Built<'_>) -> Result<()>) -> Result<()> {
        if !self.is_ours() {
            return Err(Errno::EINVAL);
        }
        self.owner.store(0, Ordering::Relaxed);
        let _turn = HasTurn(&self.turn);
        // SAFETY: this thread has the turn (invariant).
        let extent = unsafe { &mut *self.open.get() }.end_draft()?;
        // SAFETY: as above; `open` does not refer to them any more.
        let all = unsafe { &**self.all.get() };
        let all = all.get(..extent.count).unwrap_or_default();
        use_it(if extent.goes_beyond {
            Built::Beyond(all)
        } else {
            Built::Plain(Whole {
                all,
                are_simple: extent.are_simple,
            })
        })
    }
}

/// What was built.
pub(crate) enum Built<'d> {
    Plain(Whole<'d>),
    /// There are operations that `struct ibv_send_wr` does not have.
    Beyond(&'d [Staged]),
}

/// The turn is given up when it is dropped.
struct HasTurn<'d>(&'d Turn);

impl Drop for HasTurn<'_> {
    #[inline(always)]
    fn drop(&mut self) {
        self.0.give_up();
    }
}

impl fmt::Debug for Draft {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Draft")
            .field("owner", &self.owner)
            .field("turn", &self.turn)
            .finish_non_exhaustive()
    }
}
