// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause

//! rxe's SQ. What stands in its slots is `wqe.rs`'s.

use std::os::fd::RawFd;

use kernel_abi::rxe::{DmaInfo, MmapInfo, RdmaWr, SendHead, SendWqe, Sge, wqe_state};
use rdma_core_sys::{IBV_SEND_SIGNALED, IBV_WR_SEND, ibv_qp_cap, ibv_qp_type, ibv_sge};

use super::operations::operations;
use super::wqe::{Terms, posted, write_iova, write_parts};
use crate::driver::{OpenSends, Published, SendRing};
use crate::errno::{Errno, Result};
use crate::ledger::Posted;
use crate::ring::index::{IndexRing, OpenSlot, OpenSlots, Word};
use crate::wr::{SendRequest, is_inline, only_sge};

/// Bytes of a gather list's entry.
#[expect(clippy::cast_possible_truncation, reason = "16")]
const SGE_BYTES: u32 = size_of::<Sge>() as u32;

/// How far the kernel is with a WQE.
type State = Word<{ SendWqe::<RdmaWr>::STATUS_OFFSET }>;

/// A mapped SQ.
#[derive(Debug)]
pub(crate) struct Sends {
    ring: IndexRing<SendWqe>,
    terms: Terms,
}

impl Sends {
    /// # Errors
    ///
    /// `EIO` if a slot has no room for what `cap` promises; else what mapping says.
    pub(super) fn map(
        cmd_fd: RawFd,
        info: &MmapInfo,
        qp_type: ibv_qp_type,
        cap: &ibv_qp_cap,
    ) -> Result<Self> {
        let ring = IndexRing::<SendWqe>::map(cmd_fd, info)?;
        let sge_bytes = cap.max_send_sge.checked_mul(SGE_BYTES);
        let needed = sge_bytes.map(|bytes| bytes.max(cap.max_inline_data));
        let fits = needed
            .and_then(|n| usize::try_from(n).ok())
            .is_some_and(|n| n <= ring.tail_bytes());
        if !fits {
            return Err(Errno::EIO);
        }
        Ok(Self {
            ring,
            terms: Terms {
                operations: operations(qp_type),
                max_sge: cap.max_send_sge,
                max_inline: cap.max_inline_data,
            },
        })
    }

    /// What the kernel says of the WQE that `name` names.
    fn state(&self, name: u32) -> u32 {
        // SAFETY: the ring is mapped.
        unsafe { self.watch(name).state() }
    }
}

/// Free slots of an SQ.
#[derive(Debug)]
pub(crate) struct Open<'r> {
    slots: OpenSlots<'r, SendWqe>,
    terms: &'r Terms,
    /// `IBV_SEND_*` that every send has.
    flags: &'r u32,
}

impl OpenSends for Open<'_> {
    type Watch = State;

    #[inline(always)]
    fn watch(&mut self) -> State {
        self.slots.slot().word()
    }

    #[inline(always)]
    fn write_quickly<W: SendRequest>(
        &mut self,
        cookie: u64,
        request: &W,
        only: &ibv_sge,
    ) -> Option<Posted> {
        let slot = self.slots.slot();
        let operation = self
            .terms
            .write_quickly::<_, false>(slot, cookie, request, only)?;
        self.slots.pass();
        Some(posted(request.wr(), operation, *self.flags))
    }

    #[inline(always)]
    fn write<W: SendRequest>(&mut self, cookie: u64, request: &W) -> Result<Posted> {
        let slot = self.slots.slot();
        let quick = match only_sge(request) {
            Some(only) if is_inline(request.wr()) => self
                .terms
                .write_quickly::<_, true>(slot, cookie, request, only),
            Some(only) => self
                .terms
                .write_quickly::<_, false>(slot, cookie, request, only),
            None => None,
        };
        let operation = match quick {
            Some(operation) => operation,
            None => self.terms.write(self.slots.slot(), cookie, request)?,
        };
        self.slots.pass();
        Ok(posted(request.wr(), operation, *self.flags))
    }

    #[inline(always)]
    fn publish(self, end: u32) -> Published {
        self.slots.ring().publish_producer(end);
        // The requester runs for a doorbell alone (linux 6.1 `rxe_verbs.c: rxe_post_send`).
        Published::Unseen
    }
}

impl SendRing for Sends {
    type Open<'r> = Open<'r>;
    type Watch = State;
    const CAN_LEAVE: bool = true;

    fn capacity(&self) -> u32 {
        self.ring.capacity()
    }

    fn inspect<W: SendRequest>(&self, request: &W) -> Result<Posted> {
        self.terms.check(request)
    }

    #[inline(always)]
    fn open<'r>(&'r mut self, first: u32, flags: &'r u32) -> Open<'r> {
        Open {
            slots: self.ring.open(first),
            terms: &self.terms,
            flags,
        }
    }

    /// Never: rxe refuses a doorbell by the state, which is looked at before the ring is written.
    fn take_back(&mut self, _first: u32, _end: u32) -> bool {
        false
    }

    /// An empty SEND, which in ERR is flushed as any other.
    fn mark(&mut self, id: u64) -> bool {
        if self.ring.is_full() {
            return false;
        }
        let at = self.ring.producer();
        let head = SendHead {
            wr_id: id,
            opcode: IBV_WR_SEND,
            send_flags: IBV_SEND_SIGNALED,
            ..SendHead::default()
        };
        let mut open = self.ring.open(at);
        write_iova(&mut open.slot(), 0);
        write_parts(&mut open.slot(), head, DmaInfo::default());
        self.ring.publish_producer(at.wrapping_add(1));
        true
    }

    /// There is none ahead of death.
    fn unmark(&mut self) {}

    fn is_marked(&self) -> bool {
        false
    }

    /// A flush leaves nothing in the ring.
    fn is_untouched(&self, _name: u32) -> bool {
        false
    }

    fn is_drained(&self) -> bool {
        self.ring.is_empty()
    }

    /// The requester stops at a WQE that it cannot send, and linux 6.1 leaves it at that until the
    /// sends before it complete, which they may never do (`rxe_req.c: rxe_requester`,
    /// `rxe_comp.c: rxe_completer` with `need_retry`).
    ///
    /// It takes them in order: one that is only posted is behind all that it has looked at.
    #[cold]
    fn has_failed(&self, first: u32, end: u32) -> bool {
        let mut name = first;
        while name != end {
            match self.state(name) {
                wqe_state::POSTED => return false,
                wqe_state::ERROR => return true,
                _ => name = name.wrapping_add(1),
            }
        }
        false
    }

    #[inline(always)]
    fn watch(&self, name: u32) -> State {
        self.ring.word(name)
    }

    #[inline(always)]
    unsafe fn is_under_way(watch: State) -> bool {
        // SAFETY: the caller's promise.
        let state = unsafe { watch.state() };
        state != wqe_state::POSTED && state != wqe_state::ERROR
    }

    #[inline(always)]
    unsafe fn is_faulty(watch: State) -> bool {
        // SAFETY: the caller's promise.
        unsafe { watch.state() == wqe_state::ERROR }
    }

    fn position(&self) -> (u32, u32) {
        (self.ring.producer(), self.ring.capacity())
    }

    /// The consumer index moves when a WQE completes, just before its CQE is posted
    /// (linux 6.1 `rxe_comp.c: do_complete`).
    fn is_past(&self, name: u32, end: u32) -> bool {
        let waiting = end.wrapping_sub(self.ring.consumer()) & self.ring.capacity();
        end.wrapping_sub(name) > waiting.wrapping_add(1)
    }
}

/// Writes a scatter/gather list behind a WQE; the message length that it adds up to.
///
/// # Errors
///
/// `EINVAL` if that does not fit 32 bits.
#[inline(always)]
pub(super) fn write_sges<T>(slot: &mut OpenSlot<'_, T>, sges: &[ibv_sge]) -> Result<u32> {
    // `struct ibv_sge` is `struct rxe_sge`, member by member.
    const { assert!(size_of::<ibv_sge>() == size_of::<Sge>()) };
    let mut length = 0_u32;
    slot.write_list(sges, |sge: &ibv_sge| {
        length = length.checked_add(sge.length).ok_or(Errno::EINVAL)?;
        Ok(())
    })?;
    Ok(length)
}
