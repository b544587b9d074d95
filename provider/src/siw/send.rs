// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause

//! siw's SQ: `struct siw_sqe`.

use std::mem::offset_of;
use std::os::fd::RawFd;

use kernel_abi::siw::{self, Sge, Sqe};
use rdma_core_sys::{ibv_send_wr, ibv_sge};

use super::operation::{Form, OPERATIONS, Operation, Operations, Own};
use crate::cookie::Mark;
use crate::driver::{OpenSends, Published, SendRing};
use crate::errno::{Errno, Result};
use crate::ledger::Posted;
use crate::ring::valid::{Head, OpenEntries, OpenEntry, ValidRing};
use crate::wr::{SendRequest, inline_bytes, message_len, only_sge, sges};

/// Entries that an SQE or RQE has room for.
#[expect(clippy::cast_possible_truncation, reason = "6")]
pub(super) const MAX_SGE: u32 = siw::MAX_SGE as u32;
/// Bytes that an SQE has room for in place of entries 1 to 5.
#[expect(clippy::cast_possible_truncation, reason = "80")]
pub(super) const MAX_INLINE: u32 = siw::MAX_INLINE as u32;

/// Bytes of one entry that the kernel sends within the packet's header (`MAX_HDR_INLINE`).
///
/// It fetches them with `copy_from_user` as long as `in_syscall` is set, also in its transmit thread
/// if that takes over before the doorbell's system call has cleared it; there the copy fails and
/// the QP dies of `LOC_QP_OP_ERR` (linux 6.1, 6.12 `siw_qp_tx.c: siw_try_1seg`,
/// `siw_verbs.c: siw_post_send`). A list of two entries takes another way.
const MAX_IN_HEADER: u32 = 32;

/// A mapped SQ.
///
/// One entry more than can be outstanding, where the mark stands: behind all that was published.
#[derive(Debug)]
pub(crate) struct Sends {
    ring: ValidRing<Sqe>,
    /// The id of the mark.
    mark: u64,
    /// The entry at which the mark stands, or stood until the kernel flushed it.
    marked: u32,
    /// They are the same for all. Not named where they are used: the compiler would ask for what it finds in them, one
    /// after the other, instead of looking it up.
    operations: &'static Operations,
}

impl Sends {
    pub(super) fn map(cmd_fd: RawFd, key: u64, count: u32) -> Result<Self> {
        Ok(Self {
            ring: ValidRing::map(cmd_fd, key, count)?,
            mark: 0,
            marked: 0,
            operations: &OPERATIONS,
        })
    }
}

/// Free entries of an SQ, the first of which is that where the mark stands.
#[derive(Debug)]
pub(crate) struct Open<'r> {
    sqes: OpenEntries<'r, Sqe>,
    /// With which the first one will be published, once it is written.
    first_head: Head,
    /// See [`Sends`].
    mark: &'r u64,
    /// See [`Sends`].
    marked: &'r mut u32,
    /// See [`Sends`].
    operations: &'static Operations,
    /// `IBV_SEND_*` that every send has.
    flags: &'r u32,
}

impl Open<'_> {
    /// Writes the rest of an entry. What is left of it the kernel does not look at: what other operations have, and
    /// entries behind the first `num_sge` (linux 6.1, 6.12 `siw_qp_tx.c: siw_qp_prepare_tx, siw_check_sgl_tx`).
    #[inline(always)]
    fn finish(
        &mut self,
        cookie: u64,
        wr: &ibv_send_wr,
        operation: &Operation,
        head: Head,
    ) -> Posted {
        let is_first = self.sqes.is_at_first();
        let mut sqe = self.sqes.entry();
        if operation.own != Own::Nothing {
            write_own(&mut sqe, operation.own, wr);
        }
        sqe.write_part::<0, _>(cookie);
        if is_first {
            // The kernel does not look behind the mark, so this one goes last.
            self.first_head = head;
        } else {
            sqe.publish(head);
        }
        self.sqes.pass();
        Posted {
            wr_id: wr.wr_id,
            standing: operation.standing,
        }
    }
}

impl OpenSends for Open<'_> {
    type Watch = ();

    fn watch(&mut self) {}

    #[inline(always)]
    fn write_quickly<W: SendRequest>(
        &mut self,
        cookie: u64,
        request: &W,
        only: &ibv_sge,
    ) -> Option<Posted> {
        let operation = self.operations.get(request, *self.flags)?;
        if !write_only(self.sqes.entry(), operation.form, only) {
            return None;
        }
        Some(self.finish(cookie, request.wr(), operation, operation.head))
    }

    #[inline(always)]
    fn write<W: SendRequest>(&mut self, cookie: u64, request: &W) -> Result<Posted> {
        let operation = self
            .operations
            .get(request, *self.flags)
            .ok_or(Errno::EINVAL)?;
        let is_written = only_sge(request).is_some_and(|only| {
            let sqe = self.sqes.entry();
            if operation.form == Form::Inline {
                write_only_inline(sqe, only)
            } else {
                write_only(sqe, operation.form, only)
            }
        });
        let head = if is_written {
            operation.head
        } else {
            let num_sge = write_list(self.sqes.entry(), operation.form, request)?;
            operation.head.with_num_sge(num_sge)
        };
        Ok(self.finish(cookie, request.wr(), operation, head))
    }

    #[inline(always)]
    fn publish(mut self, end: u32) -> Published {
        // The next mark first: there is one at every moment. There is room for it, since the kernel
        // has taken what completed.
        self.sqes.entry().mark(Mark::at(*self.mark, end));
        *self.marked = end;
        if !self.sqes.first().publish_over_mark(self.first_head) {
            // The flush did not come as far as the new one, or has told of it.
            self.sqes.entry().unmark();
            Published::Dead
        } else if self.sqes.will_be_seen() {
            Published::Seen
        } else {
            Published::Unseen
        }
    }
}

impl SendRing for Sends {
    type Open<'r> = Open<'r>;
    type Watch = ();
    /// They are VALID, and the mark alone keeps the kernel from them.
    const CAN_LEAVE: bool = false;

    /// One less than there are entries: the mark needs one.
    fn capacity(&self) -> u32 {
        self.ring.capacity().wrapping_sub(1)
    }

    fn inspect<W: SendRequest>(&self, request: &W) -> Result<Posted> {
        let operation = self.operations.get(request, 0).ok_or(Errno::EINVAL)?;
        let sges = sges_of(operation.form, request)?;
        let length = message_len(sges)?;
        if operation.form == Form::Inline {
            if length > MAX_INLINE {
                return Err(Errno::EINVAL);
            }
            sges.iter()
                .try_for_each(|sge| inline_bytes(sge).map(drop))?;
        }
        Ok(Posted {
            wr_id: request.wr().wr_id,
            standing: operation.standing,
        })
    }

    #[inline(always)]
    fn open<'r>(&'r mut self, first: u32, flags: &'r u32) -> Open<'r> {
        Open {
            sqes: self.ring.open(first),
            first_head: Head::valid(0, 0, 0),
            operations: self.operations,
            mark: &self.mark,
            marked: &mut self.marked,
            flags,
        }
    }

    fn take_back(&mut self, first: u32, end: u32) -> bool {
        // The kernel takes entries in order, so without the first it gets none.
        if !self
            .ring
            .take_back_for_mark(first, Mark::at(self.mark, first))
        {
            return false;
        }
        let mut name = first.wrapping_add(1);
        while name != end {
            self.ring.take_back(name);
            name = name.wrapping_add(1);
        }
        self.ring.unmark(end);
        self.marked = first;
        true
    }

    fn mark(&mut self, id: u64) -> bool {
        self.mark = id;
        self.ring.mark(self.marked, Mark::at(id, self.marked))
    }

    fn unmark(&mut self) {
        self.ring.unmark(self.marked);
    }

    fn is_marked(&self) -> bool {
        self.ring.is_marked(self.marked)
    }

    /// Also the one before an entry that was left in the ring: if the CQ was full when that was
    /// flushed, so it was for the one that the kernel had in hand, whose CQE is lost.
    fn is_untouched(&self, name: u32) -> bool {
        let next = name.wrapping_add(1);
        [name, next].iter().any(|at| self.ring.is_pending(*at)) || self.ring.is_marked(next)
    }

    /// The flush has run through when the move to ERR returns.
    fn is_drained(&self) -> bool {
        true
    }

    /// A faulty entry is reported at once, or its doorbell fails.
    fn has_failed(&self, _first: u32, _end: u32) -> bool {
        false
    }

    fn watch(&self, _name: u32) {}

    unsafe fn is_under_way((): ()) -> bool {
        true
    }

    unsafe fn is_faulty((): ()) -> bool {
        false
    }

    /// Never asked for: siw does not reset a queue.
    fn position(&self) -> (u32, u32) {
        (0, 0)
    }

    /// The kernel takes one entry at a time, when it is done with the one before
    /// (linux 6.1 `siw_qp_tx.c: siw_qp_sq_process`).
    fn is_past(&self, name: u32, end: u32) -> bool {
        let next = name.wrapping_add(1);
        next != end && !self.ring.is_pending(next)
    }
}

// `struct ibv_sge` is `struct siw_sge`, member by member.
const _: () = assert!(
    size_of::<ibv_sge>() == size_of::<Sge>()
        && offset_of!(ibv_sge, addr) == offset_of!(Sge, laddr)
        && offset_of!(ibv_sge, length) == offset_of!(Sge, length)
        && offset_of!(ibv_sge, lkey) == offset_of!(Sge, lkey)
);

/// Where an SQE has its second entry.
const SECOND: usize = offset_of!(Sqe, sge) + size_of::<Sge>();

/// Writes a scatter/gather list of at most [`MAX_SGE`] entries to where an element has its own, `AT`, leaving out
/// empty ones; how many, and the message length that they add up to.
///
/// An empty entry before one with bytes makes the kernel follow a null pointer
/// (linux 6.1, 6.12 `siw_qp_tx.c`: `siw_check_sgl_tx` looks up no memory for it, `siw_tx_hdt` uses it).
///
/// # Errors
///
/// `EINVAL` if the length does not fit 32 bits.
#[inline(always)]
pub(super) fn write_sges<const AT: usize, T>(
    mut element: OpenEntry<'_, T>,
    sges: &[ibv_sge],
) -> Result<(u8, u32)> {
    let mut length = 0_u32;
    let count = element.write_list::<AT, { siw::MAX_SGE }, _>(sges, |sge| {
        length = length.checked_add(sge.length).ok_or(Errno::EINVAL)?;
        Ok(sge.length != 0)
    })?;
    Ok((count, length))
}

/// Writes the `only` entry of a send, not inline, if that is done quickly; whether it was.
#[inline(always)]
fn write_only(mut sqe: OpenEntry<'_, Sqe>, form: Form, only: &ibv_sge) -> bool {
    let is_quick = matches!(form, Form::Gather | Form::Scatter) && only.length > MAX_IN_HEADER;
    if is_quick {
        sqe.write_part::<{ offset_of!(Sqe, sge) }, _>(*only);
    }
    is_quick
}

/// Writes the bytes of the `only` entry of a send, if that is done quickly; whether it was.
#[inline(always)]
fn write_only_inline(mut sqe: OpenEntry<'_, Sqe>, only: &ibv_sge) -> bool {
    let is_quick = inline_bytes(only).is_ok_and(|bytes| {
        sqe.write_bytes_quickly::<{ Sqe::INLINE_OFFSET }, { siw::MAX_INLINE }>(bytes)
    });
    if is_quick {
        write_inline_head(&mut sqe, only.length);
    }
    is_quick
}

/// Writes the list of a send, of entries or inline; `num_sge`.
///
/// # Errors
///
/// `EINVAL` if siw does not have the operation, or not this form of it.
// Cold: the registers are for those that are written quickly.
#[cold]
#[inline(never)]
fn write_list<W: SendRequest>(sqe: OpenEntry<'_, Sqe>, form: Form, request: &W) -> Result<u8> {
    let sges = sges_of(form, request)?;
    if form == Form::Inline {
        write_inline(sqe, sges)
    } else {
        write_gather_list(sqe, sges, form == Form::Scatter)
    }
}

/// The entries of a send of this form.
///
/// # Errors
///
/// `EINVAL` if there are not as many as that takes, or siw does not have it.
fn sges_of<W: SendRequest>(form: Form, request: &W) -> Result<&[ibv_sge]> {
    let sges = sges(request, MAX_SGE)?;
    let fits = match form {
        Form::Gather | Form::Inline => true,
        Form::Scatter => sges.len() == 1,
        Form::Nothing => sges.is_empty(),
        Form::Unknown => false,
    };
    if fits { Ok(sges) } else { Err(Errno::EINVAL) }
}

/// Writes the gather list of a send, or the one entry that a READ scatters to; `num_sge`.
///
/// # Errors
///
/// `EINVAL` if the length does not fit 32 bits.
fn write_gather_list(mut sqe: OpenEntry<'_, Sqe>, sges: &[ibv_sge], is_read: bool) -> Result<u8> {
    let (count, length) = write_sges::<{ offset_of!(Sqe, sge) }, _>(sqe.reborrow(), sges)?;
    let num_sge = match (is_read, sges) {
        // Also an empty READ has its one entry.
        (true, [only, ..]) => {
            sqe.write_part::<{ offset_of!(Sqe, sge) }, _>(*only);
            1
        }
        // Empty, and at the end, where it does no harm.
        (false, _) if count == 1 && length <= MAX_IN_HEADER => {
            sqe.write_part::<SECOND, _>(ibv_sge::default());
            2
        }
        _ => count,
    };
    Ok(num_sge)
}

/// Copies the bytes that a gather list names to where inline data stands; `num_sge`.
///
/// # Errors
///
/// `EINVAL` if they do not fit.
fn write_inline(mut sqe: OpenEntry<'_, Sqe>, sges: &[ibv_sge]) -> Result<u8> {
    let length = message_len(sges)?;
    let mut at = 0_usize;
    for sge in sges {
        let bytes = inline_bytes(sge)?;
        sqe.write_bytes::<{ Sqe::INLINE_OFFSET }, { siw::MAX_INLINE }>(at, bytes)?;
        at = at.wrapping_add(bytes.len());
    }
    write_inline_head(&mut sqe, length);
    Ok(0)
}

/// Writes the first entry of inline data, which holds the length; the data is behind it. The kernel sets `num_sge`
/// itself.
#[inline(always)]
fn write_inline_head(sqe: &mut OpenEntry<'_, Sqe>, length: u32) {
    let head = ibv_sge {
        length,
        ..Default::default()
    };
    sqe.write_part::<{ offset_of!(Sqe, sge) }, _>(head);
}

/// Writes what an operation has of its own.
#[inline(always)]
fn write_own(sqe: &mut OpenEntry<'_, Sqe>, own: Own, wr: &ibv_send_wr) {
    let rkey = if own == Own::Target {
        // SAFETY: the member that these operations have; plain data.
        let rdma = unsafe { wr.wr.rdma };
        sqe.write_part::<{ offset_of!(Sqe, raddr) }, _>(rdma.remote_addr);
        rdma.rkey
    } else {
        // SAFETY: both members of the union are 32 bits of plain data.
        unsafe { wr.__bindgen_anon_1.invalidate_rkey }
    };
    sqe.write_part::<{ offset_of!(Sqe, rkey) }, _>(rkey);
}
