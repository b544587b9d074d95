// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause

//! The caller's work requests, read with care.

use std::ffi::c_int;
use std::slice;

use rdma_core_sys::{IBV_SEND_INLINE, ibv_recv_wr, ibv_send_wr, ibv_sge};

use crate::errno::{Errno, Result};

/// A work request.
pub(crate) trait WorkRequest {
    /// Where the scatter/gather list is, and how many entries the caller says it has.
    fn sg_list(&self) -> (*const ibv_sge, c_int);
}

/// A work request as the caller links them.
pub(crate) trait Linked: WorkRequest {
    fn next(&self) -> *mut Self;
}

impl WorkRequest for ibv_send_wr {
    fn sg_list(&self) -> (*const ibv_sge, c_int) {
        (self.sg_list, self.num_sge)
    }
}

impl Linked for ibv_send_wr {
    fn next(&self) -> *mut Self {
        self.next
    }
}

impl Linked for ibv_recv_wr {
    fn next(&self) -> *mut Self {
        self.next
    }
}

impl WorkRequest for ibv_recv_wr {
    fn sg_list(&self) -> (*const ibv_sge, c_int) {
        (self.sg_list, self.num_sge)
    }
}

/// A send, whichever API describes it: `ibv_post_send`(3) or `ibv_wr_post`(3).
pub(crate) trait SendRequest: WorkRequest {
    /// What `struct ibv_send_wr` can say of it.
    fn wr(&self) -> &ibv_send_wr;

    /// The rest, for an operation that `ibv_post_send` does not have. Its target is `wr.rdma`.
    fn beyond(&self) -> Option<Beyond>;
}

impl SendRequest for ibv_send_wr {
    fn wr(&self) -> &ibv_send_wr {
        self
    }

    fn beyond(&self) -> Option<Beyond> {
        None
    }
}

/// An operation that `struct ibv_send_wr` has no member for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Beyond {
    /// `ibv_wr_atomic_write`, of these bytes.
    AtomicWrite([u8; 8]),
    /// `ibv_wr_flush`(3).
    Flush {
        /// Bytes.
        length: u32,
        /// `enum ibv_placement_type`.
        placement: u8,
        /// `enum ibv_selectivity_level`.
        selectivity: u8,
    },
}

/// A caller's linked list of work requests.
///
/// # Invariants
///
/// `head` is NULL or points to a work request that is not changed while the list is in use, and so
/// does the `next` of each. Each names its scatter/gather list, or says it has none.
#[derive(Debug)]
pub(crate) struct List<W> {
    head: *mut W,
}

impl<W> Clone for List<W> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<W> Copy for List<W> {}

impl<W> List<W> {
    /// # Safety
    ///
    /// `head` is NULL or heads a list of work requests that is valid, and not changed, as long as
    /// the value and the references from it are used: what every post verb asks of its caller.
    pub(crate) unsafe fn new(head: *mut W) -> Self {
        Self { head }
    }

    /// The work request that comes next; NULL at the end.
    #[inline(always)]
    pub(crate) fn head(&self) -> *mut W {
        self.head
    }
}

/// Work requests in the order in which they are to be posted.
pub(crate) trait Requests: Copy {
    type One: WorkRequest;

    /// The work request that comes next, and does so until [`pass`](Self::pass).
    fn peek(&self) -> Option<&Self::One>;

    /// Goes on to the one after.
    fn pass(&mut self);

    /// Whether all are SENDs and WRITEs of at most one entry, not inline, that are known to be well formed. Of a QP
    /// that has receivers, they may lack theirs nevertheless.
    fn are_simple(&self) -> bool {
        false
    }

    /// Whether there is none left.
    fn is_empty(&self) -> bool {
        self.peek().is_none()
    }
}

impl<W: Linked> List<W> {
    /// The work request that comes next, if others follow.
    #[inline(always)]
    pub(crate) fn several(self) -> Option<*mut W> {
        self.peek()
            .is_some_and(|wr| !wr.next().is_null())
            .then_some(self.head)
    }

    /// The work request that comes next, if no other follows.
    #[inline(always)]
    pub(crate) fn only<'a>(self) -> Option<&'a W> {
        // SAFETY: NULL or valid (invariant).
        unsafe { self.head.as_ref() }.filter(|wr| wr.next().is_null())
    }
}

impl<W: Linked> Requests for List<W> {
    type One = W;

    #[inline(always)]
    fn peek(&self) -> Option<&W> {
        // SAFETY: NULL or valid (invariant).
        unsafe { self.head.as_ref() }
    }

    #[inline(always)]
    fn pass(&mut self) {
        if let Some(wr) = self.peek() {
            self.head = wr.next();
        }
    }
}

impl<W: WorkRequest> Requests for &[W] {
    type One = W;

    #[inline(always)]
    fn peek(&self) -> Option<&W> {
        self.first()
    }

    #[inline(always)]
    fn pass(&mut self) {
        if let [_, rest @ ..] = self {
            *self = rest;
        }
    }
}

/// The scatter/gather list of a work request from a [`List`].
///
/// # Errors
///
/// `EINVAL` if there are fewer than 0 or more than `max` entries, or if they are nowhere.
pub(crate) fn sges<W: WorkRequest>(wr: &W, max: u32) -> Result<&[ibv_sge]> {
    let (list, count) = wr.sg_list();
    // One below 0 is more than any device takes.
    let count = count.cast_unsigned();
    if count > max {
        return Err(Errno::EINVAL);
    }
    if count == 0 {
        return Ok(&[]);
    }
    if list.is_null() {
        return Err(Errno::EINVAL);
    }
    // CAST: u32 fits usize on every target that libibverbs supports.
    // SAFETY: a list's work request names its entries (invariant of `List`), which live as long.
    Ok(unsafe { slice::from_raw_parts(list, count as usize) })
}

/// Whether the data of a send is copied when it is posted.
#[inline(always)]
pub(crate) fn is_inline(wr: &ibv_send_wr) -> bool {
    wr.send_flags & IBV_SEND_INLINE != 0
}

/// The entry of a work request from a [`List`] that has exactly one.
#[inline(always)]
pub(crate) fn only_sge<W: WorkRequest>(wr: &W) -> Option<&ibv_sge> {
    let (list, count) = wr.sg_list();
    if count != 1 {
        return None;
    }
    // SAFETY: as in `sges`.
    unsafe { list.as_ref() }
}

/// The bytes that an entry of a send with `IBV_SEND_INLINE` names, to be copied at once.
///
/// # Errors
///
/// `EINVAL` if there are bytes at address 0.
#[inline(always)]
pub(crate) fn inline_bytes(sge: &ibv_sge) -> Result<&[u8]> {
    if sge.length == 0 {
        return Ok(&[]);
    }
    let from = usize::try_from(sge.addr).map_err(|_| Errno::EINVAL)? as *const u8;
    if from.is_null() {
        return Err(Errno::EINVAL);
    }
    // CAST: u32 fits usize on every target that libibverbs supports.
    // SAFETY: the caller of `ibv_post_send` names readable memory of its own.
    Ok(unsafe { slice::from_raw_parts(from, sge.length as usize) })
}

/// The message length that the entries add up to.
///
/// # Errors
///
/// `EINVAL` if it does not fit 32 bits; no driver carries more than 2^31 bytes.
pub(crate) fn message_len(sges: &[ibv_sge]) -> Result<u32> {
    sges.iter()
        .try_fold(0_u32, |len, sge| len.checked_add(sge.length))
        .ok_or(Errno::EINVAL)
}
