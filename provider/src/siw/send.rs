// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause

//! siw's SQ: `struct siw_sqe`.

use std::os::fd::RawFd;

use kernel_abi::siw::{self, Sge, Sqe, flags, opcode};
use rdma_core_sys::{
    IBV_SEND_FENCE, IBV_SEND_INLINE, IBV_SEND_SIGNALED, IBV_SEND_SOLICITED, IBV_WC_LOCAL_INV,
    IBV_WC_RDMA_READ, IBV_WC_RDMA_WRITE, IBV_WC_SEND, IBV_WR_LOCAL_INV, IBV_WR_RDMA_READ,
    IBV_WR_RDMA_WRITE, IBV_WR_SEND, IBV_WR_SEND_WITH_INV, ibv_send_wr, ibv_sge,
};
use zerocopy::IntoBytes;

use crate::cookie::Mark;
use crate::driver::{Published, SendRing};
use crate::errno::{Errno, Result};
use crate::ledger::{Posted, small};
use crate::ring::valid::ValidRing;
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

/// What the flags of a send ask for, checked.
struct Checked<'w> {
    siw_opcode: u8,
    sges: &'w [ibv_sge],
    length: u32,
    posted: Posted,
}

/// # Errors
///
/// `EINVAL` if siw does not have the operation, or not this form of it.
// Left to itself, the compiler keeps it apart, for its other callers: a tenth more instructions for each send.
#[inline(always)]
fn check<W: SendRequest>(request: &W, signal_all: bool) -> Result<Checked<'_>> {
    let wr = request.wr();
    if request.beyond().is_some() {
        return Err(Errno::EINVAL);
    }
    let (siw_opcode, opcode) = operation(wr)?;
    let is_read = siw_opcode == opcode::READ;
    let has = |flag| wr.send_flags & flag != 0;
    let sges = sges(request, MAX_SGE)?;
    let length = message_len(sges)?;
    // siw does not take a fenced READ, nor inline data but with these, and would leave it at the
    // head of the queue for ever (linux 6.1 `siw_qp.c: siw_activate_tx_from_sq`).
    if is_read && (sges.len() != 1 || has(IBV_SEND_FENCE)) {
        return Err(Errno::EINVAL);
    }
    let has_inline = matches!(siw_opcode, opcode::SEND | opcode::WRITE);
    if has(IBV_SEND_INLINE) && (length > MAX_INLINE || !has_inline) {
        return Err(Errno::EINVAL);
    }
    if siw_opcode == opcode::INVAL_STAG && !sges.is_empty() {
        return Err(Errno::EINVAL);
    }
    // A READ completes late, and what is behind it must wait: its CQE is always needed.
    let signaled = signal_all || has(IBV_SEND_SIGNALED);
    Ok(Checked {
        siw_opcode,
        sges,
        length,
        posted: Posted {
            wr_id: wr.wr_id,
            opcode,
            signaled,
            reported: signaled || is_read,
        },
    })
}

/// What siw calls an operation, and `enum ibv_wc_opcode` of its completion.
fn operation(wr: &ibv_send_wr) -> Result<(u8, u8)> {
    match wr.opcode {
        IBV_WR_SEND => Ok((opcode::SEND, small(IBV_WC_SEND))),
        IBV_WR_SEND_WITH_INV => Ok((opcode::SEND_REMOTE_INV, small(IBV_WC_SEND))),
        IBV_WR_RDMA_WRITE => Ok((opcode::WRITE, small(IBV_WC_RDMA_WRITE))),
        IBV_WR_RDMA_READ => Ok((opcode::READ, small(IBV_WC_RDMA_READ))),
        // Of a region: siw has no windows (linux 6.1 `siw_qp_tx.c: siw_qp_sq_proc_local`).
        IBV_WR_LOCAL_INV => Ok((opcode::INVAL_STAG, small(IBV_WC_LOCAL_INV))),
        // iWARP has neither immediate data nor atomics.
        _ => Err(Errno::EINVAL),
    }
}

impl SendRing for Sends {
    /// One less than there are entries: the mark needs one.
    fn capacity(&self) -> u32 {
        self.ring.capacity().wrapping_sub(1)
    }

    fn inspect<W: SendRequest>(&self, request: &W, signal_all: bool) -> Result<Posted> {
        let Checked { sges, posted, .. } = check(request, signal_all)?;
        if request.wr().send_flags & IBV_SEND_INLINE != 0 {
            sges.iter()
                .try_for_each(|sge| inline_bytes(sge).map(drop))?;
        }
        Ok(posted)
    }

    fn is_free(&self, name: u32) -> bool {
        !self.ring.is_pending(name)
    }

    fn write<W: SendRequest>(
        &mut self,
        name: u32,
        cookie: u64,
        request: &W,
        signal_all: bool,
    ) -> Result<Posted> {
        let Checked {
            siw_opcode,
            sges,
            length,
            posted,
        } = check(request, signal_all)?;
        let wr = request.wr();
        let mut sqe = Sqe {
            id: cookie,
            opcode: siw_opcode,
            ..Sqe::default()
        };
        if matches!(siw_opcode, opcode::SEND_REMOTE_INV | opcode::INVAL_STAG) {
            // SAFETY: both members of the union are 32 bits of plain data.
            sqe.rkey = unsafe { wr.__bindgen_anon_1.invalidate_rkey };
        } else if siw_opcode != opcode::SEND {
            // SAFETY: the member that these operations have; plain data.
            let rdma = unsafe { wr.wr.rdma };
            sqe.rkey = rdma.rkey;
            sqe.raddr = rdma.remote_addr;
        }
        if wr.send_flags & IBV_SEND_INLINE != 0 {
            // The kernel sets `num_sge` itself.
            copy_inline(&mut sqe, sges)?;
        } else if let (opcode::READ, [to, ..], [from]) = (siw_opcode, &mut sqe.sge, sges) {
            // Also an empty READ has its one entry.
            *to = entry(from);
            sqe.num_sge = 1;
        } else {
            sqe.num_sge = copy_sges(&mut sqe.sge, sges);
            if sqe.num_sge == 1 && length <= MAX_IN_HEADER {
                // Empty, and at the end, where it does no harm.
                sqe.num_sge = 2;
            }
        }
        self.ring.write(name, &sqe);
        let flags = sqe_flags(wr.send_flags, posted.reported);
        if name == self.marked {
            // The kernel does not look behind the mark, so this one goes last.
            self.first_flags = flags;
        } else {
            self.ring.publish(name, flags);
        }
        Ok(posted)
    }

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

fn sqe_flags(send_flags: u32, reported: bool) -> u16 {
    [
        (reported, flags::SIGNALLED),
        (send_flags & IBV_SEND_SOLICITED != 0, flags::SOLICITED),
        (send_flags & IBV_SEND_INLINE != 0, flags::INLINE),
        (send_flags & IBV_SEND_FENCE != 0, flags::READ_FENCE),
    ]
    .into_iter()
    .filter_map(|(set, flag)| set.then_some(flag))
    .fold(0, |all, flag| all | flag)
}

/// Copies a scatter/gather list of at most [`MAX_SGE`] entries, leaving out empty ones; how many.
///
/// An empty entry before one with bytes makes the kernel follow a null pointer
/// (linux 6.1, 6.12 `siw_qp_tx.c`: `siw_check_sgl_tx` looks up no memory for it, `siw_tx_hdt` uses it).
pub(super) fn copy_sges(to: &mut [Sge; siw::MAX_SGE], from: &[ibv_sge]) -> u8 {
    let mut count = 0_u8;
    for (to, from) in to.iter_mut().zip(from.iter().filter(|sge| sge.length != 0)) {
        *to = entry(from);
        count = count.wrapping_add(1);
    }
    count
}

fn entry(sge: &ibv_sge) -> Sge {
    Sge {
        laddr: sge.addr,
        length: sge.length,
        lkey: sge.lkey,
    }
}

/// Copies the bytes that a gather list names behind the first entry, which holds their length.
fn copy_inline(sqe: &mut Sqe, sges: &[ibv_sge]) -> Result<()> {
    let [head, room @ ..] = &mut sqe.sge;
    let mut room = room.as_mut_bytes();
    for sge in sges {
        let bytes = inline_bytes(sge)?;
        let (to, rest) = room
            .split_at_mut_checked(bytes.len())
            .ok_or(Errno::EINVAL)?;
        to.copy_from_slice(bytes);
        head.length = head.length.saturating_add(sge.length);
        room = rest;
    }
    Ok(())
}
