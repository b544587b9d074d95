// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause

//! A draft of `ibv_wr_post`(3): what was built since `ibv_wr_start`, in memory of its own.
//!
//! Nothing of it is in the ring or the ledger before `ibv_wr_complete` has posted it as one list. So
//! the send queue is locked no longer than for `ibv_post_send`: meanwhile others may post, poll, and
//! see the QP die. Only the drafts of a QP exclude each other.
//!
//! The memory is reserved with the QP, about as much again as its ring; pages of it are used as far as
//! the longest draft reached.

use std::cell::UnsafeCell;
use std::fmt;
use std::mem;
use std::ptr;
use std::sync::atomic::{AtomicU64, Ordering};

use rdma_core_sys::{
    IBV_SEND_INLINE, ibv_qp_cap, ibv_send_wr, ibv_send_wr__bindgen_ty_2__bindgen_ty_3, ibv_sge,
    ibv_wr_opcode,
};

use crate::errno::{Errno, Result};
use crate::lock::{Mutex, MutexGuard, lock};
use crate::thread::this_thread;
use crate::wr::{Beyond, SendRequest, WorkRequest};

/// A work request under construction, or done.
#[derive(Default)]
pub(crate) struct Staged {
    wr: ibv_send_wr,
    beyond: Option<Beyond>,
    /// A setter may give it data: none has.
    wants_data: bool,
}

impl Staged {
    /// What its operation has of its own, which is all to be set: an earlier draft may have left something.
    pub(crate) fn own(&mut self) -> &mut ibv_send_wr {
        &mut self.wr
    }

    /// Has it be an operation that `struct ibv_send_wr` does not have.
    pub(crate) fn go_beyond(&mut self, beyond: Beyond) {
        self.beyond = Some(beyond);
    }
}

impl WorkRequest for Staged {
    fn sg_list(&self) -> (*const ibv_sge, std::ffi::c_int) {
        self.wr.sg_list()
    }
}

impl SendRequest for Staged {
    fn wr(&self) -> &ibv_send_wr {
        &self.wr
    }

    fn beyond(&self) -> Option<Beyond> {
        self.beyond
    }
}

/// The work requests of a draft.
///
/// # Invariants
///
/// The memory of the three is there from the beginning, for as many work requests as the send queue
/// takes, each with as much data as a work request can have. They never grow past it, so it stays
/// where it is: each `sg_list` points into `sges`, and the entry of inline data into `bytes`.
pub(crate) struct Staging {
    /// The `count` of this draft, then what a longer one has left.
    wrs: Vec<Staged>,
    count: usize,
    sges: Vec<ibv_sge>,
    bytes: Vec<u8>,
    max_sge: usize,
    /// Bytes.
    max_inline: usize,
    /// The first mistake: the draft will be refused for it.
    mistake: Option<Errno>,
}

impl Staging {
    fn new(depth: u32, cap: &ibv_qp_cap) -> Result<Self> {
        let size = |each: u32| usize::try_from(each).map_err(|_| Errno::ENOMEM);
        let (depth, max_sge) = (size(depth)?, size(cap.max_send_sge)?);
        let max_inline = size(cap.max_inline_data)?;
        let all = |each: usize| depth.checked_mul(each).ok_or(Errno::ENOMEM);
        let mut staging = Self {
            wrs: Vec::new(),
            count: 0,
            sges: Vec::new(),
            bytes: Vec::new(),
            max_sge,
            max_inline,
            mistake: None,
        };
        staging.wrs.try_reserve_exact(depth)?;
        // Inline data takes one entry, also if the QP was created for no others.
        staging.sges.try_reserve_exact(all(max_sge.max(1))?)?;
        staging.bytes.try_reserve_exact(all(max_inline)?)?;
        Ok(staging)
    }

    fn clear(&mut self) {
        self.count = 0;
        self.sges.clear();
        self.bytes.clear();
        self.mistake = None;
    }

    /// Does the next step of the draft; its failure is the draft's.
    fn go_on(&mut self, step: impl FnOnce(&mut Self) -> Result<()>) {
        if self.mistake.is_none()
            && let Err(errno) = step(self)
        {
            self.mistake = Some(errno);
        }
    }

    /// Begins the next work request: all but its data, its receiver, and what its operation has of its own.
    ///
    /// # Errors
    ///
    /// `ENOMEM` if the draft is longer than the send queue.
    #[inline(always)]
    pub(crate) fn begin(
        &mut self,
        wr_id: u64,
        opcode: ibv_wr_opcode,
        send_flags: u32,
        takes_data: bool,
    ) -> Result<&mut Staged> {
        if self.count == self.wrs.len() {
            push(&mut self.wrs, Staged::default())?;
        }
        let staged = self.wrs.get_mut(self.count).ok_or(Errno::ENOMEM)?;
        self.count = self.count.wrapping_add(1);
        staged.wr.wr_id = wr_id;
        staged.wr.opcode = opcode;
        // Whether data is inline, the setter says that gives it.
        staged.wr.send_flags = send_flags & !IBV_SEND_INLINE;
        staged.wr.num_sge = 0;
        staged.wr.wr.ud.ah = ptr::null_mut();
        staged.beyond = None;
        staged.wants_data = takes_data;
        Ok(staged)
    }

    /// The work request that was begun last.
    ///
    /// # Errors
    ///
    /// `EINVAL` if there is none.
    #[inline(always)]
    fn last(&mut self) -> Result<&mut Staged> {
        let last = self.count.wrapping_sub(1);
        self.wrs.get_mut(last).ok_or(Errno::EINVAL)
    }

    /// Gives the work request its data: what is at `sge`.
    ///
    /// # Errors
    ///
    /// As [`set_sges`](Self::set_sges).
    #[inline(always)]
    pub(crate) fn set_sge(&mut self, sge: ibv_sge) -> Result<()> {
        self.set_sges(&[sge])
    }

    /// Gives the work request its data: what `sges` name.
    ///
    /// # Errors
    ///
    /// `EINVAL` if it may have none, or has some, or if there are too many entries.
    pub(crate) fn set_sges(&mut self, sges: &[ibv_sge]) -> Result<()> {
        if sges.len() > self.max_sge {
            return Err(Errno::EINVAL);
        }
        let first = self.sges.len();
        for sge in sges {
            push(&mut self.sges, *sge)?;
        }
        self.give_data(first, 0)
    }

    /// Gives the work request its data: a copy of `parts`.
    ///
    /// # Errors
    ///
    /// `EINVAL` if it may have none, or has some, or if there are too many bytes.
    pub(crate) fn set_inline<'p>(
        &mut self,
        parts: impl Iterator<Item = Result<&'p [u8]>>,
    ) -> Result<()> {
        let from = self.bytes.len();
        for part in parts {
            let part = part?;
            let behind = self.bytes.len().checked_add(part.len());
            if behind.is_none_or(|behind| behind.wrapping_sub(from) > self.max_inline) {
                return Err(Errno::EINVAL);
            }
            // Fits: see the invariant.
            self.bytes.extend_from_slice(part);
        }
        let length = self.bytes.len().wrapping_sub(from);
        let first = self.sges.len();
        let sge = ibv_sge {
            addr: self
                .bytes
                .as_mut_ptr()
                .wrapping_add(from)
                .expose_provenance() as u64,
            // CAST: at most `max_inline`, which is 32 bits.
            length: u32::try_from(length).map_err(|_| Errno::EINVAL)?,
            lkey: 0,
        };
        push(&mut self.sges, sge)?;
        self.give_data(first, IBV_SEND_INLINE)
    }

    /// Gives the work request the entries from `first` on.
    fn give_data(&mut self, first: usize, flags: u32) -> Result<()> {
        let count = self.sges.len().wrapping_sub(first);
        let list = self.sges.as_mut_ptr().wrapping_add(first);
        let staged = self.last()?;
        if !mem::take(&mut staged.wants_data) {
            return Err(Errno::EINVAL);
        }
        staged.wr.send_flags |= flags;
        staged.wr.num_sge = count.try_into().map_err(|_| Errno::EINVAL)?;
        staged.wr.sg_list = list;
        Ok(())
    }

    /// Gives the work request, a datagram, its receiver.
    ///
    /// # Errors
    ///
    /// `EINVAL` if there is no work request.
    pub(crate) fn set_receiver(
        &mut self,
        receiver: ibv_send_wr__bindgen_ty_2__bindgen_ty_3,
    ) -> Result<()> {
        self.last()?.wr.wr.ud = receiver;
        Ok(())
    }

    /// The whole draft.
    ///
    /// # Errors
    ///
    /// The first mistake that was made in it.
    fn all(&self) -> Result<&[Staged]> {
        match self.mistake {
            Some(errno) => Err(errno),
            None => Ok(self.wrs.get(..self.count).unwrap_or_default()),
        }
    }
}

/// Puts a value behind the others; `ENOMEM` instead of more memory.
fn push<T>(to: &mut Vec<T>, value: T) -> Result<()> {
    if to.len() == to.capacity() {
        return Err(Errno::ENOMEM);
    }
    to.push(value);
    Ok(())
}

/// Where a QP's drafts are built: one at a time.
///
/// # Invariants
///
/// `open` is used by the thread alone that `owner` names, or that holds the lock of `staging` and is
/// about to be it.
pub(crate) struct Draft {
    /// The lock of `staging`, from `ibv_wr_start` to `ibv_wr_complete` or `ibv_wr_abort`. Dropped
    /// before that.
    open: UnsafeCell<Option<MutexGuard<'static, Staging>>>,
    /// The [`this_thread`] that is building; 0 for nobody.
    owner: AtomicU64,
    staging: Mutex<Staging>,
    /// What the QP was created to post, `IBV_QP_EX_WITH_*`.
    ops: u64,
}

impl Draft {
    /// Room for a draft of `depth` work requests with as much data as `cap` allows.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(crate) fn new(ops: u64, depth: u32, cap: &ibv_qp_cap) -> Result<Self> {
        Ok(Self {
            open: UnsafeCell::new(None),
            owner: AtomicU64::new(0),
            staging: Mutex::new(Staging::new(depth, cap)?),
            ops,
        })
    }

    /// Whether the QP was created to post one of `ops`.
    pub(crate) fn has(&self, ops: u32) -> bool {
        self.ops & u64::from(ops) != 0
    }

    /// Whether this thread builds a draft here.
    fn is_ours(&self) -> bool {
        // Relaxed: only this thread stores its own name, so no other's store looks like it.
        self.owner.load(Ordering::Relaxed) == this_thread()
    }

    /// Begins a draft, when no other thread builds one. A thread that does so already is at a loss: its
    /// draft will be refused.
    pub(crate) fn start(&self) {
        if self.is_ours() {
            return self.go_on(|_| Err(Errno::EINVAL));
        }
        let mut staging = lock(&self.staging);
        staging.clear();
        // SAFETY: the guard is dropped before the lock, of which this is the neighbour, and which
        // stays in its place: a QP is never moved.
        let staging = unsafe {
            mem::transmute::<MutexGuard<'_, Staging>, MutexGuard<'static, Staging>>(staging)
        };
        // SAFETY: this thread holds the lock (invariant).
        unsafe { *self.open.get() = Some(staging) };
        // Relaxed: see `is_ours`; the lock orders the rest.
        self.owner.store(this_thread(), Ordering::Relaxed);
    }

    /// Does the next step of this thread's draft; without one, nothing.
    pub(crate) fn go_on(&self, step: impl FnOnce(&mut Staging) -> Result<()>) {
        if self.is_ours() {
            // SAFETY: this thread is the owner (invariant), and no step makes another.
            if let Some(staging) = unsafe { (*self.open.get()).as_mut() } {
                staging.go_on(step);
            }
        }
    }

    /// Ends this thread's draft; `use_it` may post it, before another one can begin.
    ///
    /// # Errors
    ///
    /// `EINVAL` if there is none; the first mistake made in it; what `use_it` says.
    pub(crate) fn end(&self, use_it: impl FnOnce(&[Staged]) -> Result<()>) -> Result<()> {
        if !self.is_ours() {
            return Err(Errno::EINVAL);
        }
        // SAFETY: this thread is the owner (invariant).
        let open = unsafe { (*self.open.get()).take() };
        self.owner.store(0, Ordering::Relaxed);
        let staging = open.ok_or(Errno::EINVAL)?;
        use_it(staging.all()?)
    }
}

impl fmt::Debug for Draft {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Draft")
            .field("ops", &self.ops)
            .finish_non_exhaustive()
    }
}
