// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause

//! rxe's CQ: the kernel writes `struct ib_uverbs_wc`, which has the layout of `struct ibv_wc`.

use std::mem::{MaybeUninit, offset_of};
use std::os::fd::RawFd;

use kernel_abi::rxe::MmapInfo;
use kernel_abi::uverbs::Wc;
use rdma_core_sys::{
    IBV_WC_GRH, IBV_WC_SUCCESS, IBV_WC_WITH_IMM, IBV_WC_WITH_INV, IBV_WC_WR_FLUSH_ERR, ibv_wc,
    ibv_wc_opcode, ibv_wc_status,
};

use crate::cookie::{Cookie, VOID};
use crate::driver::{CompletionRing, Front, Sight, Unread};
use crate::errno::Result;
use crate::ring::index::{Found, IndexRing, Reader, Slot};

/// A mapped CQ.
///
#[derive(Debug)]
pub(crate) struct Completions {
    reader: Reader<Wc>,
    /// How many were read and not given back.
    unpublished: u32,
    /// How many are known that were not read.
    known: u32,
    /// How many places were free when that was last looked at.
    spare: u32,
    was_full: bool,
}

impl Completions {
    pub(super) fn map(cmd_fd: RawFd, info: &MmapInfo) -> Result<Self> {
        let reader = Reader::new(IndexRing::map(cmd_fd, info)?);
        Ok(Self {
            unpublished: 0,
            known: 0,
            spare: reader.ring().capacity(),
            reader,
            was_full: false,
        })
    }

    fn mask(&self) -> u32 {
        self.reader.ring().capacity()
    }

    /// Whether the kernel may have found the ring full since the last look, when so many have `arrived` since.
    ///
    /// If it has, it had filled all places from some consumer index on that was published at the last look or since.
    /// It has not missed the one that is published now, unless it had filled them before: that was stored before the
    /// lock of the CQ was taken again, a barrier that is followed by the load of the kernel's index.
    #[inline(always)]
    fn may_have_been_full(&self, arrived: u32) -> bool {
        arrived >= self.spare
    }

    /// Looks how many there are, where all that were known were read.
    #[inline(always)]
    fn look(&mut self) {
        let arrived = self.reader.filled();
        self.was_full |= self.may_have_been_full(arrived);
        self.known = arrived;
        let filled = arrived.wrapping_add(self.unpublished) & self.mask();
        self.spare = self.mask().wrapping_sub(filled);
    }

    /// Takes CQEs as long as there are entries and room, and `take` takes one; how many.
    #[inline(always)]
    fn take_while<E>(
        &mut self,
        entries: &[E],
        wcs: &mut [MaybeUninit<ibv_wc>],
        mut take: impl FnMut(Slot<'_, Wc>, &E, &mut MaybeUninit<ibv_wc>) -> Option<()>,
    ) -> u32 {
        let mut count = 0_u32;
        let mut published = self.reader.published(self.known);
        // CAST: u32 fits usize on every target that libibverbs supports.
        let known = published.left() as usize;
        let most = wcs.len().min(known);
        let wcs = wcs.get_mut(..most).unwrap_or_default();
        for (entry, wc) in entries.iter().zip(wcs) {
            // SAFETY: there is not more room than that.
            let slot = unsafe { published.slot() };
            if take(slot, entry, wc).is_none() {
                break;
            }
            published.pass();
            count = count.wrapping_add(1);
        }
        // SAFETY: counted.
        unsafe { published.end(count) };
        self.known = self.known.wrapping_sub(count);
        self.unpublished = self.unpublished.wrapping_add(count);
        count
    }

    /// Takes CQEs as long as they are of this status, each of the entry behind that of the one before it, and
    /// `take` takes it; how many.
    #[inline(always)]
    fn take_like<E>(
        &mut self,
        first: u64,
        status: ibv_wc_status,
        entries: &[E],
        wcs: &mut [MaybeUninit<ibv_wc>],
        take: impl Fn(Slot<'_, Wc>, &E, &mut MaybeUninit<ibv_wc>) -> Option<()>,
    ) -> u32 {
        let mut expected = first;
        self.take_while(entries, wcs, |slot, entry, wc| {
            let found: u32 = slot.read_part::<{ offset_of!(Wc, status) }, _>();
            let cookie: u64 = slot.read_part::<{ offset_of!(Wc, wr_id) }, _>();
            if cookie != expected || found != status {
                return None;
            }
            expected = Cookie::next(expected);
            take(slot, entry, wc)
        })
    }

    /// The index of the CQE that is `ahead` of the next one.
    fn index(&self, ahead: u32) -> u32 {
        self.reader.next().wrapping_add(ahead)
    }
}

impl CompletionRing for Completions {
    fn capacity(&self) -> u32 {
        self.mask()
    }

    type Found = Found;

    #[inline(always)]
    fn glance(&mut self) -> Sight<Found> {
        if self.known == 0 {
            let arrived = self.reader.filled();
            if arrived == 0 {
                self.spare = self.mask();
                return Sight::Nothing;
            }
            if self.may_have_been_full(arrived) {
                return Sight::Unclear;
            }
            self.known = arrived;
            self.spare = self.mask().wrapping_sub(arrived);
        }
        let slot = self.reader.slot();
        let status: u32 = slot.read_part::<{ offset_of!(Wc, status) }, _>();
        if status != IBV_WC_SUCCESS {
            return Sight::Unclear;
        }
        let cookie = slot.read_part::<{ offset_of!(Wc, wr_id) }, _>();
        Sight::Success(cookie, self.reader.found())
    }

    #[inline(always)]
    unsafe fn take_only<const SEND: bool>(
        &mut self,
        found: Found,
        wc: &mut MaybeUninit<ibv_wc>,
        wr_id: u64,
        _: ibv_wc_opcode,
    ) {
        // SAFETY: the caller's promise.
        let slot = unsafe { self.reader.slot_found(found) };
        if SEND {
            copy_wc(slot, wr_id, wc);
        } else {
            to_wc(slot, wr_id, wc);
        }
        self.known = self.known.wrapping_sub(1);
        // SAFETY: as above.
        unsafe { self.reader.pass_found(found) };
        self.reader.give_back();
    }

    #[inline(always)]
    fn front(&mut self) -> Option<Front> {
        if self.known == 0 {
            self.look();
            if self.known == 0 {
                return None;
            }
        }
        let slot = self.reader.slot();
        let status: u32 = slot.read_part::<{ offset_of!(Wc, status) }, _>();
        Some(Front {
            cookie: slot.read_part::<{ offset_of!(Wc, wr_id) }, _>(),
            is_success: status == IBV_WC_SUCCESS,
            is_flush: status == IBV_WC_WR_FLUSH_ERR,
        })
    }

    #[inline(always)]
    fn is_last(&self) -> bool {
        self.known == 1
    }

    #[inline(always)]
    fn take_run<const SENDS: bool, E>(
        &mut self,
        first: u64,
        entries: &[E],
        of: impl Fn(&E) -> Option<(u64, ibv_wc_opcode)>,
        wcs: &mut [MaybeUninit<ibv_wc>],
    ) -> u32 {
        self.take_like(first, IBV_WC_SUCCESS, entries, wcs, |slot, entry, wc| {
            // Its own opcode is there.
            let (wr_id, _) = of(entry)?;
            if SENDS {
                copy_wc(slot, wr_id, wc);
            } else {
                to_wc(slot, wr_id, wc);
            }
            Some(())
        })
    }

    #[inline(always)]
    fn take_each<E>(
        &mut self,
        entries: &[E],
        complete: impl Fn(&E, u64) -> Option<u64>,
        wcs: &mut [MaybeUninit<ibv_wc>],
    ) -> u32 {
        self.take_while(entries, wcs, |slot, entry, wc| {
            let status: u32 = slot.read_part::<{ offset_of!(Wc, status) }, _>();
            if status != IBV_WC_SUCCESS {
                return None;
            }
            let cookie: u64 = slot.read_part::<{ offset_of!(Wc, wr_id) }, _>();
            to_wc(slot, complete(entry, cookie)?, wc);
            Some(())
        })
    }

    #[inline(always)]
    fn take_flushes<E>(
        &mut self,
        first: u64,
        entries: &[E],
        of: impl Fn(&E) -> (u64, ibv_wc_opcode),
        wcs: &mut [MaybeUninit<ibv_wc>],
    ) -> u32 {
        self.take_like(
            first,
            IBV_WC_WR_FLUSH_ERR,
            entries,
            wcs,
            |slot, entry, wc| {
                let (wr_id, opcode) = of(entry);
                to_wc(slot, wr_id, wc).opcode = opcode;
                Some(())
            },
        )
    }

    #[inline(always)]
    fn take<'w>(&mut self, wc: &'w mut MaybeUninit<ibv_wc>, wr_id: u64) -> &'w mut ibv_wc {
        let wc = to_wc(self.reader.slot(), wr_id, wc);
        self.known = self.known.wrapping_sub(1);
        self.reader.pass();
        self.unpublished = self.unpublished.wrapping_add(1);
        wc
    }

    fn release(&mut self) {
        if self.unpublished > 0 {
            self.unpublished = 0;
            self.reader.give_back();
        }
    }

    fn may_glance(&self) -> bool {
        self.unpublished == 0
    }

    fn was_full(&self) -> bool {
        self.was_full
    }

    fn forget_full(&mut self) {
        self.was_full = false;
    }

    fn peek(&self, ahead: u32) -> Option<Unread> {
        (ahead < self.reader.filled()).then(|| {
            let cqe = self.reader.ring().read(self.index(ahead));
            Unread {
                cookie: cqe.wr_id,
                qp_num: cqe.qp_num,
            }
        })
    }

    fn void(&mut self, ahead: u32) {
        let index = self.index(ahead);
        let ring = self.reader.ring_mut();
        let cqe = ring.read(index);
        ring.write(index, &Wc { wr_id: VOID, ..cqe });
    }
}

/// Makes a CQE an `ibv_wc` with this `wr_id`.
#[inline(always)]
fn to_wc<'w>(slot: Slot<'_, Wc>, wr_id: u64, wc: &'w mut MaybeUninit<ibv_wc>) -> &'w mut ibv_wc {
    let wc = copy_wc(slot, wr_id, wc);
    let flags: u32 = slot.read_part::<{ offset_of!(Wc, wc_flags) }, _>();
    if flags & !SAME_FLAGS != 0 {
        wc.wc_flags = wc_flags(flags);
    }
    wc
}

/// As [`to_wc`], of a send that succeeded: member by member the same. It has one flag at most, of those that are numbered
/// alike (linux 6.1, 6.12 `rxe_comp.c: make_send_cqe`).
#[inline(always)]
fn copy_wc<'w>(slot: Slot<'_, Wc>, wr_id: u64, wc: &'w mut MaybeUninit<ibv_wc>) -> &'w mut ibv_wc {
    const {
        assert!(size_of::<Wc>() == size_of::<ibv_wc>());
        assert!(offset_of!(Wc, ex) == offset_of!(ibv_wc, __bindgen_anon_1));
        assert!(offset_of!(Wc, wc_flags) == offset_of!(ibv_wc, wc_flags));
        assert!(offset_of!(Wc, dlid_path_bits) == offset_of!(ibv_wc, dlid_path_bits));
    }
    slot.copy_to(wc);
    // SAFETY: all of it was just written, and is integers.
    let wc = unsafe { wc.assume_init_mut() };
    wc.wr_id = wr_id;
    wc
}

/// Those that libibverbs numbers as the kernel does.
const SAME_FLAGS: u32 = IBV_WC_GRH | IBV_WC_WITH_IMM;

/// The flags as libibverbs numbers them: the driver writes the kernel's own `enum ib_wc_flags`
/// (linux 6.1 `rxe_resp.c: do_complete`), which has WITH_INVALIDATE in another place.
#[cold]
fn wc_flags(kernel: u32) -> u32 {
    const IB_WC_WITH_INVALIDATE: u32 = 1 << 2;
    let same = kernel & SAME_FLAGS;
    if kernel & IB_WC_WITH_INVALIDATE == 0 {
        same
    } else {
        same | IBV_WC_WITH_INV
    }
}
