// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause

//! What differs between `rdma_rxe` and `siw`: everything else is generic over [`Driver`].

use std::ffi::{CStr, c_int};
use std::fmt::Debug;
use std::mem::MaybeUninit;
use std::ops::RangeInclusive;
use std::os::fd::RawFd;

use rdma_core_sys::{
    ibv_context, ibv_qp_cap, ibv_qp_state, ibv_qp_type, ibv_recv_wr, ibv_sge, ibv_srq_attr, ibv_wc,
    ibv_wc_opcode,
};
use zerocopy::{FromZeros, IntoBytes};

use crate::cookie::Queue;
use crate::cq::Cq;
use crate::errno::{Errno, Result};
use crate::ledger::{CqeOrder, Posted};
use crate::queue_pair::QueuePair;
use crate::wr::{SendRequest, only_sge};

/// One of the two kernel drivers.
pub(crate) trait Driver: Debug + Sized + Send + Sync + 'static {
    /// Name in libibverbs' device tables.
    const NAME: &'static CStr;
    /// `enum rdma_driver_id` of `rdma/ib_user_ioctl_verbs.h`.
    const ID: u32;
    /// Versions of the driver's user ABI that this code speaks.
    const ABI: RangeInclusive<u32>;
    /// The order of a send queue's CQEs.
    const CQE_ORDER: CqeOrder;
    /// The kernel may post a CQE for the success of a send that is not signaled.
    const REPORTS_UNASKED: bool;
    /// The kernel moves a QP to RTS without `modify_qp` (iWARP's connection manager does), so that
    /// the state that libibverbs remembers says nothing.
    const CONNECTS_UNSEEN: bool;
    /// The most CQEs that a CQ can have room for.
    const MAX_CQE: c_int;
    /// The kernel gives a CQ a ring of another size, and carries the unread CQEs over.
    const RESIZES_CQS: bool;
    /// A destroyed QP's number may be given to the next one at once.
    const REUSES_QP_NUMBERS: bool;
    /// When the move to ERR returns, the kernel has flushed what it will ever flush, and flushes no
    /// more.
    const FLUSHES_AT_ONCE: bool;
    /// The mark stands in a ring as long as the QP lives, so that the kernel's flush tells of a death
    /// by itself. Otherwise it is put there when the library knows.
    const MARKS_AHEAD: bool;
    /// A receive that is posted to a dead QP stays where it is, and nothing tells.
    const DIES_UNSEEN: bool;
    /// The kernel may stop at a faulty send and say nothing.
    const MAY_STICK: bool;
    /// What else than ERR makes a connected QP an erroneous one: `ibv_modify_qp` to this state.
    const CLOSES_BY: Option<ibv_qp_state>;
    /// The kernel forgets what is queued when a QP is moved to RESET, and starts it anew.
    const RESETS: bool;

    /// The driver's part of the answer to opening a device.
    type ContextAnswer: FromZeros;
    /// The driver's part of the request for a memory region.
    type MrRequest: FromZeros + IntoBytes;
    /// The driver's part of the answer to it.
    type MrAnswer: FromZeros;
    /// The driver's part of the answer to creating a CQ, and to resizing one.
    type CqAnswer: FromZeros + Debug + Send;
    /// The driver's part of the answer to creating a QP.
    type QpAnswer: FromZeros + Debug;
    /// The driver's part of the answer to creating an SRQ.
    type SrqAnswer: FromZeros + Debug;

    /// A CQ's ring.
    type Completions: CompletionRing;
    /// What arms a CQ in memory, if that does.
    type Notify: Debug + Send + Sync;
    /// A send queue's ring.
    type Sends: SendRing;
    /// A receive queue's ring.
    type Recvs: RecvRing;
    /// How an SRQ's ring is replaced.
    type Resize: SrqResize<Self::Recvs>;

    /// Maps the ring of a CQ that is new, or has got another size.
    ///
    /// # Errors
    ///
    /// This and the three below: `EIO` if the answer is impossible, else what `mmap(2)` says.
    fn map_cq(cmd_fd: RawFd, answer: &Self::CqAnswer) -> Result<Self::Completions>;

    /// Maps a new QP's send queue, and writes into `cap` what it can really hold.
    fn map_sq(
        cmd_fd: RawFd,
        answer: &Self::QpAnswer,
        qp_type: ibv_qp_type,
        cap: &mut ibv_qp_cap,
    ) -> Result<Self::Sends>;

    /// Maps a new QP's receive queue, and writes into `cap` what it can really hold.
    fn map_rq(
        cmd_fd: RawFd,
        answer: &Self::QpAnswer,
        cap: &mut ibv_qp_cap,
    ) -> Result<Option<Self::Recvs>>;

    /// Maps a new SRQ's ring, and writes into `attr` what it can really hold.
    fn map_srq(
        cmd_fd: RawFd,
        answer: &Self::SrqAnswer,
        attr: &mut ibv_srq_attr,
    ) -> Result<Self::Recvs>;

    /// What [`arm`](Self::arm) needs of a CQ's ring.
    fn notify(ring: &Self::Completions) -> Self::Notify;

    /// Asks for an event at the CQ's next completion.
    ///
    /// # Errors
    ///
    /// What the system call says, where one is needed.
    fn arm(cq: &Cq<Self>) -> Result<()>;

    /// Whether the kernel raises LAST_WQE_REACHED for a QP that is moved to ERR.
    ///
    /// # Safety
    ///
    /// An open context of this driver's.
    unsafe fn raises_last_wqe(context: *mut ibv_context) -> bool;

    /// Whether QPs of `qp_type` have all the operations `send_ops`, `IBV_QP_EX_WITH_*`.
    ///
    /// # Safety
    ///
    /// An open context of this driver's.
    unsafe fn has_send_ops(context: *mut ibv_context, qp_type: ibv_qp_type, send_ops: u64) -> bool;

    /// Causes a CQE, which polls pass over, on the CQ of one of a dead QP's queues. No lock is held.
    fn ring_bell(pair: &QueuePair<Self>, queue: Queue);
}

/// Our side of a send queue's ring. Used under the lock of the queue.
pub(crate) trait SendRing: Debug + Send {
    /// Free entries.
    type Open<'r>: OpenSends<Watch = Self::Watch>
    where
        Self: 'r;
    /// An entry, of which something is known without the lock.
    type Watch;
    /// What is written but not published can be left: nobody sees it, and the next ones go over it.
    const CAN_LEAVE: bool;

    /// How many sends may be outstanding.
    fn capacity(&self) -> u32;

    /// What the ledger is to remember of `request`.
    ///
    /// # Errors
    ///
    /// `EINVAL` if the work request is malformed, or the QP does not have its operation.
    fn inspect<W: SendRequest>(&self, request: &W) -> Result<Posted>;

    /// The entries from `first` on, each of which has `flags` whatever its work request says.
    ///
    /// They are free: the kernel has let go of every one that is not outstanding, before its CQE. It may take those
    /// that are written from [`publish`](OpenSends::publish) on.
    fn open<'r>(&'r mut self, first: u32, flags: &'r u32) -> Self::Open<'r>;

    /// Takes `first..end` back from a kernel that has refused the doorbell; false, and nothing is
    /// taken back, if the kernel has begun with them nevertheless.
    fn take_back(&mut self, first: u32, end: u32) -> bool;

    /// Puts the mark `id` behind all entries; false if there is no room.
    fn mark(&mut self, id: u64) -> bool;

    /// Takes away the mark that stands ahead of death, so that its flush is not told.
    fn unmark(&mut self);

    /// Whether the mark stands in the ring, ahead of a flush.
    fn is_marked(&self) -> bool;

    /// Whether the kernel has left entry `name` untouched, though it will not look at the ring again.
    fn is_untouched(&self, name: u32) -> bool;

    /// Whether the kernel has consumed all that was published.
    fn is_drained(&self) -> bool;

    /// Whether the kernel has found one of `first..end` faulty, and does not go on.
    fn has_failed(&self, first: u32, end: u32) -> bool;

    /// What tells of entry `name` without the lock of the queue.
    fn watch(&self, name: u32) -> Self::Watch;

    /// Whether the kernel has begun with the entry that is watched, so that neither this one nor one before it
    /// [has failed](Self::has_failed). False may be said of any.
    ///
    /// # Safety
    ///
    /// The ring that it is of is still mapped.
    unsafe fn is_under_way(watch: Self::Watch) -> bool;

    /// Whether the kernel has found the entry that is watched faulty, as [`has_failed`](Self::has_failed) of that one.
    ///
    /// # Safety
    ///
    /// As [`is_under_way`](Self::is_under_way).
    unsafe fn is_faulty(watch: Self::Watch) -> bool;

    /// Where the next entry will be written: an index, and the mask under which names are compared
    /// with it.
    fn position(&self) -> (u32, u32);

    /// Whether the kernel is done with `name`, an entry that completes silently: it has gone on to
    /// the entry after the next one, so that not even a CQE of `name` is still under way.
    ///
    /// `end` is the name of the next entry to be written.
    fn is_past(&self, name: u32, end: u32) -> bool;
}

/// Free entries of a send queue's ring, from a first one on.
pub(crate) trait OpenSends {
    /// See [`SendRing`].
    type Watch;

    /// What tells of the next one without the lock of the queue, once it is written.
    fn watch(&mut self) -> Self::Watch;

    /// Writes `request`, which has this `only` entry, not inline, into the next one under the id `cookie`, if
    /// that is done quickly; what the ledger is to remember. If not, it is for [`write`](Self::write).
    fn write_quickly<W: SendRequest>(
        &mut self,
        cookie: u64,
        request: &W,
        only: &ibv_sge,
    ) -> Option<Posted>;

    /// Writes `request` into the next one under the id `cookie`; what the ledger is to remember.
    ///
    /// # Errors
    ///
    /// As [`SendRing::inspect`], and never where that has none. Nothing that the kernel could see is written then.
    fn write<W: SendRequest>(&mut self, cookie: u64, request: &W) -> Result<Posted>;

    /// Hands those that are written to the kernel; the next one will have the name `end`.
    fn publish(self, end: u32) -> Published;
}

/// Our side of a receive queue's ring, an SRQ's or a QP's own. Used under the lock of the queue.
pub(crate) trait RecvRing: Debug + Send {
    /// Free entries.
    type Open<'r>: OpenRecvs
    where
        Self: 'r;

    /// How many receives may be outstanding.
    fn capacity(&self) -> u32;

    /// Whether `wr` is well formed.
    ///
    /// # Errors
    ///
    /// `EINVAL` if not.
    fn inspect(&self, wr: &ibv_recv_wr) -> Result<()>;

    /// The entries from the next one on. As many are free as the ledger has room for.
    fn open(&mut self) -> Self::Open<'_>;

    /// Puts the mark `id` behind all entries; false if there is no room.
    fn mark(&mut self, id: u64) -> bool;

    /// Whether the kernel has consumed all that was published.
    fn is_drained(&self) -> bool;

    /// How many of those that were published the kernel has not taken.
    fn untaken(&self) -> u32;
}

/// Free entries of a receive queue's ring, from the next one on.
pub(crate) trait OpenRecvs {
    /// What is known of a list that is written.
    type List;

    /// Writes the list of a receive that has this `only` entry into the next one, if that is done quickly.
    fn write_only(&mut self, only: &ibv_sge) -> Option<Self::List>;

    /// Writes the list of any receive into the next one.
    ///
    /// # Errors
    ///
    /// As [`RecvRing::inspect`].
    fn write_list(&mut self, wr: &ibv_recv_wr) -> Result<Self::List>;

    /// Writes what is left of the next one, whose list is written, under the id `cookie`, and goes on to the one
    /// after it.
    fn finish(&mut self, cookie: u64, list: Self::List);

    /// Writes a receive into the next one under the id `cookie`, which has this `only` entry, if that is done
    /// quickly; whether it was. If not, it is for [`write`](Self::write).
    #[inline(always)]
    fn write_quickly(&mut self, cookie: u64, only: &ibv_sge) -> bool {
        let list = self.write_only(only);
        let is_written = list.is_some();
        if let Some(list) = list {
            self.finish(cookie, list);
        }
        is_written
    }

    /// Writes `wr` into the next one under the id `cookie`.
    ///
    /// # Errors
    ///
    /// As [`RecvRing::inspect`]. Nothing that the kernel could see is written then.
    #[inline(always)]
    fn write(&mut self, cookie: u64, wr: &ibv_recv_wr) -> Result<()> {
        let list = match only_sge(wr).and_then(|only| self.write_only(only)) {
            Some(list) => list,
            None => self.write_list(wr)?,
        };
        self.finish(cookie, list);
        Ok(())
    }

    /// Hands those that are written, `count` of them, to the kernel; false if it has flushed the queue meanwhile.
    fn publish(self, count: u32) -> bool;
}

/// What has to follow when entries were handed to the kernel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Published {
    /// Nothing: the kernel is sure to look.
    Seen,
    /// It must be told.
    Unseen,
    /// It has flushed the queue, and does not look again.
    Dead,
}

/// What the next CQE is at first sight.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Sight<F> {
    /// There is none.
    Nothing,
    /// A success with this cookie, which is there.
    Success(u64, F),
    /// Something else, or the ring may have been full.
    Unclear,
}

/// Our side of a CQ's ring. Used under the lock of the CQ.
pub(crate) trait CompletionRing: Debug + Send {
    /// How many CQEs it can hold.
    fn capacity(&self) -> u32;

    /// Where a CQE is that was found.
    type Found: Copy;

    /// What the next CQE is at first sight. Where one [may](Self::may_glance) look.
    fn glance(&mut self) -> Sight<Self::Found>;

    /// [Takes](Self::take) the success that [`glance`](Self::glance) has found, which is of that opcode, and releases it.
    /// It is a `SEND`, or a receive.
    ///
    /// # Safety
    ///
    /// It was found since one was taken last.
    unsafe fn take_only<const SEND: bool>(
        &mut self,
        found: Self::Found,
        wc: &mut MaybeUninit<ibv_wc>,
        wr_id: u64,
        opcode: ibv_wc_opcode,
    );

    /// What the next CQE says first.
    fn front(&mut self) -> Option<Front>;

    /// Whether there is no CQE behind the one that was found, as far as is known.
    fn is_last(&self) -> bool;

    /// Reads the CQE that [`front`](Self::front) has found into `wc`, with this `wr_id`, and goes on to the
    /// one after it.
    fn take<'w>(&mut self, wc: &'w mut MaybeUninit<ibv_wc>, wr_id: u64) -> &'w mut ibv_wc;

    /// Reads CQEs into `wcs`, from that on which [`front`](Self::front) has found: those that are nothing but
    /// the successes of `entries`, of which `first` names the first, each with the `wr_id` and the opcode of its entry, up
    /// to one that has none. How many; there may be more of them. They are `SENDS`, or receives.
    fn take_run<const SENDS: bool, E>(
        &mut self,
        first: u64,
        entries: &[E],
        of: impl Fn(&E) -> Option<(u64, ibv_wc_opcode)>,
        wcs: &mut [MaybeUninit<ibv_wc>],
    ) -> u32;

    /// As [`take_run`](Self::take_run), of receives that complete in any order: as long as `complete` has a `wr_id` for
    /// the cookie, whose entry is perhaps this one, and there are entries.
    fn take_each<E>(
        &mut self,
        entries: &[E],
        complete: impl Fn(&E, u64) -> Option<u64>,
        wcs: &mut [MaybeUninit<ibv_wc>],
    ) -> u32;

    /// As [`take_run`](Self::take_run), of those that are nothing but the flushes of `entries`, each with the
    /// `wr_id` and the opcode of its entry.
    fn take_flushes<E>(
        &mut self,
        first: u64,
        entries: &[E],
        of: impl Fn(&E) -> (u64, ibv_wc_opcode),
        wcs: &mut [MaybeUninit<ibv_wc>],
    ) -> u32;

    /// Reads the next CQE into `wc`, its cookie as `wr_id`, and goes on to the one after it.
    fn next<'w>(&mut self, wc: &'w mut MaybeUninit<ibv_wc>) -> Option<&'w mut ibv_wc> {
        let front = self.front()?;
        Some(self.take(wc, front.cookie))
    }

    /// Gives what was read back to the kernel.
    fn release(&mut self);

    /// Whether a [`glance`](Self::glance) tells of the next CQE what has to be known, and goes on to do so until
    /// something else than [`take_only`](Self::take_only) takes one: nothing waits for [`release`](Self::release).
    fn may_glance(&self) -> bool;

    /// Whether there may have been no free place since [`forget_full`](Self::forget_full), so that a CQE was
    /// dropped.
    ///
    /// Never missed, but also said where what is in the ring and what was read shortly before would have
    /// filled it together. What the kernel does while polls go on can be told no better.
    fn was_full(&self) -> bool;

    /// That it was full has been dealt with.
    fn forget_full(&mut self);

    /// The CQE that is `ahead` of the next one.
    fn peek(&self, ahead: u32) -> Option<Unread>;

    /// Overwrites the cookie of the CQE that is `ahead` of the next one, so that it is passed over.
    fn void(&mut self, ahead: u32);
}

/// A ring's capacity, if it is what was asked for.
///
/// # Errors
///
/// `EIO` if the kernel's answer has fewer entries than it promised.
pub(crate) fn holds(capacity: u32, asked: u32) -> Result<u32> {
    if capacity < asked {
        Err(Errno::EIO)
    } else {
        Ok(capacity)
    }
}

/// What decides how a CQE is dealt with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Front {
    pub(crate) cookie: u64,
    pub(crate) is_success: bool,
    pub(crate) is_flush: bool,
}

/// What tells whose an unread CQE is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Unread {
    pub(crate) cookie: u64,
    pub(crate) qp_num: u32,
}

/// An SRQ's ring that is about to be replaced by `ibv_modify_srq` with `IBV_SRQ_MAX_WR`.
pub(crate) trait SrqResize<R>: Default {
    /// The driver's part of the request.
    type Request: IntoBytes;

    /// The request, which names `self` for the answer: it must stay where it is.
    fn request(&mut self) -> Self::Request;

    /// Maps the new ring in place of the old one.
    ///
    /// # Errors
    ///
    /// `EIO` if the answer is impossible, else what `mmap(2)` says.
    fn replace(&self, cmd_fd: RawFd, ring: &mut R) -> Result<()>;
}
