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
use crate::driver::{CompletionRing, Front, Unread};
use crate::errno::Result;
use crate::ring::index::{IndexRing, Published, Slot};

/// A mapped CQ.
///
/// `next` and `published` are ours, `produced` is what the kernel's index was when last read; all
/// masked.
#[derive(Debug)]
pub(crate) struct Completions {
    ring: IndexRing<Wc>,
    next: u32,
    published: u32,
    produced: u32,
    /// What was published when `produced` was read.
    base: u32,
    was_full: bool,
}

impl Completions {
    pub(super) fn map(cmd_fd: RawFd, info: &MmapInfo) -> Result<Self> {
        let ring = IndexRing::map(cmd_fd, info)?;
        let next = ring.consumer();
        Ok(Self {
            ring,
            next,
            published: next,
            produced: next,
            base: next,
            was_full: false,
        })
    }

    /// Reads the kernel's index.
    ///
    /// If the kernel has found the ring full since the last look, it had filled all places from some
    /// consumer index on that was published since, and so from `base` on. It has not missed the one that
    /// is published now, unless it had filled them before: that was stored before the lock of the CQ was
    /// taken again, a barrier that is followed by this load.
    #[inline(always)]
    fn look(&mut self) {
        let mask = self.ring.capacity();
        self.produced = self.ring.producer();
        let there = self.produced.wrapping_sub(self.next) & mask;
        let read = self.next.wrapping_sub(self.base) & mask;
        if there.wrapping_add(read) >= mask {
            self.was_full = true;
        }
        self.base = self.published;
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
        let (mut count, mut expected) = (0_u32, first);
        for ((entry, wc), slot) in entries.iter().zip(wcs).zip(self.published()) {
            let found: u32 = slot.read_part::<{ offset_of!(Wc, status) }, _>();
            let cookie: u64 = slot.read_part::<{ offset_of!(Wc, wr_id) }, _>();
            if cookie != expected || found != status || take(slot, entry, wc).is_none() {
                break;
            }
            count = count.wrapping_add(1);
            expected = expected.wrapping_add(1);
        }
        self.next = self.after(self.next, count);
        count
    }

    /// The CQEs from the next one on, as far as they are known and stand one behind the other.
    #[inline(always)]
    fn published(&self) -> Published<'_, Wc> {
        let there = self.produced.wrapping_sub(self.next) & self.ring.capacity();
        self.ring.published(self.next, there)
    }

    fn after(&self, index: u32, by: u32) -> u32 {
        index.wrapping_add(by) & self.ring.capacity()
    }
}

impl CompletionRing for Completions {
    fn capacity(&self) -> u32 {
        self.ring.capacity()
    }

    #[inline(always)]
    fn front(&mut self) -> Option<Front> {
        if self.next == self.produced {
            self.look();
            if self.next == self.produced {
                return None;
            }
        }
        let slot = self.ring.at(self.next);
        let status: u32 = slot.read_part::<{ offset_of!(Wc, status) }, _>();
        Some(Front {
            cookie: slot.read_part::<{ offset_of!(Wc, wr_id) }, _>(),
            is_success: status == IBV_WC_SUCCESS,
            is_flush: status == IBV_WC_WR_FLUSH_ERR,
        })
    }

    #[inline(always)]
    fn is_last(&self) -> bool {
        self.after(self.next, 1) == self.produced
    }

    #[inline(always)]
    fn take_run<E>(
        &mut self,
        first: u64,
        entries: &[E],
        wr_id: impl Fn(&E) -> Option<u64>,
        wcs: &mut [MaybeUninit<ibv_wc>],
    ) -> u32 {
        self.take_like(first, IBV_WC_SUCCESS, entries, wcs, |slot, entry, wc| {
            to_wc(slot, wr_id(entry)?, wc);
            Some(())
        })
    }

    #[inline(always)]
    fn take_each(
        &mut self,
        first: u64,
        mut complete: impl FnMut(u32) -> Option<u64>,
        wcs: &mut [MaybeUninit<ibv_wc>],
    ) -> u32 {
        let mut count = 0_u32;
        for (wc, slot) in wcs.iter_mut().zip(self.published()) {
            let status: u32 = slot.read_part::<{ offset_of!(Wc, status) }, _>();
            let cookie: u64 = slot.read_part::<{ offset_of!(Wc, wr_id) }, _>();
            if status != IBV_WC_SUCCESS || !Cookie::is_of_one_queue(cookie, first) {
                break;
            }
            let Some(wr_id) = complete(Cookie::entry(cookie)) else {
                break;
            };
            to_wc(slot, wr_id, wc);
            count = count.wrapping_add(1);
        }
        self.next = self.after(self.next, count);
        count
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
        let slot = self.ring.at(self.next);
        self.next = self.after(self.next, 1);
        to_wc(slot, wr_id, wc)
    }

    fn release(&mut self) {
        if self.published != self.next {
            self.published = self.next;
            self.ring.publish_consumer(self.next);
        }
    }

    fn was_full(&self) -> bool {
        self.was_full
    }

    fn forget_full(&mut self) {
        self.was_full = false;
    }

    fn peek(&self, ahead: u32) -> Option<Unread> {
        let there = self.ring.producer().wrapping_sub(self.next) & self.ring.capacity();
        (ahead < there).then(|| {
            let cqe = self.ring.read(self.after(self.next, ahead));
            Unread {
                cookie: cqe.wr_id,
                qp_num: cqe.qp_num,
            }
        })
    }

    fn void(&mut self, ahead: u32) {
        let index = self.after(self.next, ahead);
        let cqe = self.ring.read(index);
        self.ring.write(index, &Wc { wr_id: VOID, ..cqe });
    }
}

/// Makes a CQE an `ibv_wc` with this `wr_id`: member by member the same but for the flags.
#[inline(always)]
fn to_wc<'w>(slot: Slot<'_, Wc>, wr_id: u64, wc: &'w mut MaybeUninit<ibv_wc>) -> &'w mut ibv_wc {
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
    if wc.wc_flags & !SAME_FLAGS != 0 {
        wc.wc_flags = wc_flags(wc.wc_flags);
    }
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
