// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause

//! siw's SQ: `struct siw_sqe`.

use std::mem::offset_of;
use std::os::fd::RawFd;

use kernel_abi::siw::{self, Sge, Sqe, flags, opcode};
use rdma_core_sys::{
    IBV_SEND_FENCE, IBV_SEND_INLINE, IBV_SEND_SIGNALED, IBV_SEND_SOLICITED, IBV_WC_LOCAL_INV,
    IBV_WC_RDMA_READ, IBV_WC_RDMA_WRITE, IBV_WC_SEND, IBV_WR_LOCAL_INV, IBV_WR_RDMA_READ,
    IBV_WR_RDMA_WRITE, IBV_WR_SEND, IBV_WR_SEND_WITH_INV, ibv_send_wr, ibv_sge,
};

use crate::cookie::Mark;
use crate::driver::{Published, SendRing};
use crate::errno::{Errno, Result};
use crate::ledger::{Posted, small};
use crate::ring::valid::{OpenEntry, ValidRing};
use crate::wr::{SendRequest, inline_bytes, message_len, sges};

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
    /// The flags with which that entry will be published, once it is written.
    first_flags: u16,
}

impl Sends {
    pub(super) fn map(cmd_fd: RawFd, key: u64, count: u32) -> Result<Self> {
        Ok(Self {
            ring: ValidRing::map(cmd_fd, key, count)?,
            mark: 0,
            marked: 0,
            first_flags: 0,
        })
    }
}

/// An operation that siw has.
#[derive(Debug, Clone, Copy)]
struct Operation {
    siw_opcode: u8,
    /// `enum ibv_wc_opcode` of its completion.
    completion: u8,
    takes_inline: bool,
    own: Own,
}

/// What an operation has of its own in its SQE.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Own {
    Nothing,
    /// `wr.rdma`.
    Target,
    /// The key that it invalidates.
    Key,
}

/// By `enum ibv_wr_opcode`. iWARP has neither immediate data nor atomics.
#[expect(
    clippy::indexing_slicing,
    reason = "all opcodes are below 16; evaluated at build time"
)]
const OPERATIONS: [Option<Operation>; 16] = {
    const fn operation(siw_opcode: u8, completion: u32, own: Own) -> Option<Operation> {
        Some(Operation {
            siw_opcode,
            completion: small(completion),
            takes_inline: matches!(siw_opcode, opcode::SEND | opcode::WRITE),
            own,
        })
    }
    let mut all = [None; 16];
    all[IBV_WR_SEND as usize] = operation(opcode::SEND, IBV_WC_SEND, Own::Nothing);
    all[IBV_WR_SEND_WITH_INV as usize] = operation(opcode::SEND_REMOTE_INV, IBV_WC_SEND, Own::Key);
    all[IBV_WR_RDMA_WRITE as usize] = operation(opcode::WRITE, IBV_WC_RDMA_WRITE, Own::Target);
    all[IBV_WR_RDMA_READ as usize] = operation(opcode::READ, IBV_WC_RDMA_READ, Own::Target);
    // Of a region: siw has no windows (linux 6.1 `siw_qp_tx.c: siw_qp_sq_proc_local`).
    all[IBV_WR_LOCAL_INV as usize] = operation(opcode::INVAL_STAG, IBV_WC_LOCAL_INV, Own::Key);
    all
};

impl Operation {
    /// # Errors
    ///
    /// `EINVAL` if siw does not have the operation.
    #[inline(always)]
    fn of<W: SendRequest>(request: &W) -> Result<Self> {
        if request.beyond().is_some() {
            return Err(Errno::EINVAL);
        }
        // CAST: u32 fits usize on every target that libibverbs supports.
        let operation = OPERATIONS.get(request.wr().opcode as usize);
        operation.copied().flatten().ok_or(Errno::EINVAL)
    }

    #[inline(always)]
    fn posted(self, wr: &ibv_send_wr, signal_all: bool) -> Posted {
        let signaled = signal_all || wr.send_flags & IBV_SEND_SIGNALED != 0;
        Posted {
            wr_id: wr.wr_id,
            opcode: self.completion,
            signaled,
            // A READ completes late, and what is behind it must wait: its CQE is always needed.
            reported: signaled || self.siw_opcode == opcode::READ,
        }
    }

    /// Whether the operation can be posted with these entries, not inline.
    ///
    /// # Errors
    ///
    /// `EINVAL` if not: siw does not take a fenced READ, and would leave it at the head of the queue for
    /// ever (linux 6.1 `siw_qp.c: siw_activate_tx_from_sq`).
    #[inline(always)]
    fn check(self, send_flags: u32, sges: &[ibv_sge]) -> Result<()> {
        let fits = match self.siw_opcode {
            opcode::READ => sges.len() == 1 && send_flags & IBV_SEND_FENCE == 0,
            opcode::INVAL_STAG => sges.is_empty(),
            _ => true,
        };
        if fits { Ok(()) } else { Err(Errno::EINVAL) }
    }

    /// The same for inline data, `length` bytes of it: what siw would not take, it leaves there likewise.
    ///
    /// # Errors
    ///
    /// `EINVAL` if the operation has none, or not as much.
    fn check_inline(self, length: u32) -> Result<()> {
        if length > MAX_INLINE || !self.takes_inline {
            return Err(Errno::EINVAL);
        }
        Ok(())
    }
}

impl SendRing for Sends {
    /// One less than there are entries: the mark needs one.
    fn capacity(&self) -> u32 {
        self.ring.capacity().wrapping_sub(1)
    }

    fn inspect<W: SendRequest>(&self, request: &W, signal_all: bool) -> Result<Posted> {
        let operation = Operation::of(request)?;
        let wr = request.wr();
        let sges = sges(request, MAX_SGE)?;
        let length = message_len(sges)?;
        if wr.send_flags & IBV_SEND_INLINE == 0 {
            operation.check(wr.send_flags, sges)?;
        } else {
            operation.check_inline(length)?;
            sges.iter()
                .try_for_each(|sge| inline_bytes(sge).map(drop))?;
        }
        Ok(operation.posted(wr, signal_all))
    }

    #[inline(always)]
    fn write<W: SendRequest>(
        &mut self,
        name: u32,
        cookie: u64,
        request: &W,
        signal_all: bool,
    ) -> Result<Posted> {
        let operation = Operation::of(request)?;
        let wr = request.wr();
        let sges = sges(request, MAX_SGE)?;
        let sqe = &mut self.ring.open(name);
        let num_sge = if wr.send_flags & IBV_SEND_INLINE == 0 {
            operation.check(wr.send_flags, sges)?;
            write_gather_list(sqe, sges, operation.siw_opcode == opcode::READ)?
        } else {
            operation.check_inline(message_len(sges)?)?;
            write_inline(sqe, sges)?
        };
        if operation.own != Own::Nothing {
            write_own(sqe, operation.own, wr);
        }
        // The rest of an entry the kernel does not look at: what other operations have, and entries behind the
        // first `num_sge` (linux 6.1, 6.12 `siw_qp_tx.c: siw_qp_prepare_tx, siw_check_sgl_tx`).
        sqe.write_part::<0, _>(cookie);
        sqe.write_part::<{ offset_of!(Sqe, num_sge) }, _>([num_sge, operation.siw_opcode]);
        let posted = operation.posted(wr, signal_all);
        let flags = sqe_flags(wr.send_flags, posted.reported);
        if name == self.marked {
            // The kernel does not look behind the mark, so this one goes last.
            self.first_flags = flags;
        } else {
            self.ring.open(name).publish(flags);
        }
        Ok(posted)
    }

    #[inline(always)]
    fn publish(&mut self, first: u32, end: u32) -> Published {
        // The next mark first: there is one at every moment. There is room for it, since the kernel
        // has taken what completed.
        self.ring.mark(end, Mark::at(self.mark, end));
        self.marked = end;
        if !self.ring.publish_over_mark(first, self.first_flags) {
            // The flush did not come as far as the new one, or has told of it.
            self.ring.unmark(end);
            Published::Dead
        } else if self.ring.will_be_seen(first.wrapping_sub(1)) {
            Published::Seen
        } else {
            Published::Unseen
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

/// The flags of an SQE but for VALID.
#[inline(always)]
fn sqe_flags(send_flags: u32, reported: bool) -> u16 {
    // Both are bits, some of them as far apart.
    const _: () = assert!(flags::SOLICITED as u32 == IBV_SEND_SOLICITED << 1);
    const _: () = assert!(flags::INLINE as u32 == IBV_SEND_INLINE >> 2);
    const _: () = assert!(flags::READ_FENCE as u32 == IBV_SEND_FENCE << 4);
    let asked = (send_flags & IBV_SEND_SOLICITED) << 1
        | (send_flags & IBV_SEND_INLINE) >> 2
        | (send_flags & IBV_SEND_FENCE) << 4;
    let signalled = if reported { flags::SIGNALLED } else { 0 };
    let [low, high, ..] = asked.to_le_bytes();
    u16::from_le_bytes([low, high]) | signalled
}

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
    element: &mut OpenEntry<'_, T>,
    sges: &[ibv_sge],
) -> Result<(u8, u32)> {
    let (mut count, mut length) = (0_u8, 0_u32);
    for sge in sges {
        if sge.length != 0 {
            length = length.checked_add(sge.length).ok_or(Errno::EINVAL)?;
            element.write_member::<AT, { siw::MAX_SGE }, _>(count.into(), entry(sge));
            count = count.wrapping_add(1);
        }
    }
    Ok((count, length))
}

fn entry(sge: &ibv_sge) -> Sge {
    Sge {
        laddr: sge.addr,
        length: sge.length,
        lkey: sge.lkey,
    }
}

/// Writes the gather list of a send, or the one entry that a READ scatters to; `num_sge`.
///
/// # Errors
///
/// `EINVAL` if the length does not fit 32 bits.
#[inline(always)]
fn write_gather_list(sqe: &mut OpenEntry<'_, Sqe>, sges: &[ibv_sge], is_read: bool) -> Result<u8> {
    let (count, length) = write_sges::<{ offset_of!(Sqe, sge) }, _>(sqe, sges)?;
    if length > MAX_IN_HEADER || count > 1 {
        return Ok(count);
    }
    Ok(write_small(sqe, sges, is_read, count))
}

/// What is different where a list is short; `num_sge`.
#[inline(never)]
fn write_small(sqe: &mut OpenEntry<'_, Sqe>, sges: &[ibv_sge], is_read: bool, count: u8) -> u8 {
    match (is_read, sges) {
        // Also an empty READ has its one entry.
        (true, [only, ..]) => {
            write_sge(sqe, 0, entry(only));
            1
        }
        // Empty, and at the end, where it does no harm.
        (false, _) if count == 1 => {
            write_sge(sqe, 1, Sge::default());
            2
        }
        _ => count,
    }
}

fn write_sge(sqe: &mut OpenEntry<'_, Sqe>, nth: usize, sge: Sge) {
    sqe.write_member::<{ offset_of!(Sqe, sge) }, { siw::MAX_SGE }, _>(nth, sge);
}

/// Copies the bytes that a gather list names behind the first entry, which holds their length. The kernel sets
/// `num_sge` itself.
///
/// # Errors
///
/// `EINVAL` if they do not fit.
#[inline(never)]
fn write_inline(sqe: &mut OpenEntry<'_, Sqe>, sges: &[ibv_sge]) -> Result<u8> {
    let mut bytes = [0; siw::MAX_INLINE];
    let mut room = bytes.as_mut_slice();
    let mut head = Sge::default();
    for sge in sges {
        let from = inline_bytes(sge)?;
        let (to, rest) = room.split_at_mut_checked(from.len()).ok_or(Errno::EINVAL)?;
        to.copy_from_slice(from);
        head.length = head.length.saturating_add(sge.length);
        room = rest;
    }
    write_sge(sqe, 0, head);
    sqe.write_part::<{ Sqe::INLINE_OFFSET }, _>(bytes);
    Ok(0)
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
