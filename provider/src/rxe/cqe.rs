// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause

//! rxe's CQ: the kernel writes `struct ib_uverbs_wc`, which has the layout of `struct ibv_wc`.

use std::mem::{self, MaybeUninit};
use std::os::fd::RawFd;

use kernel_abi::rxe::MmapInfo;
use kernel_abi::uverbs::Wc;
use rdma_core_sys::{IBV_WC_GRH, IBV_WC_WITH_IMM, IBV_WC_WITH_INV, ibv_wc, ibv_wc__bindgen_ty_1};

use crate::cookie::VOID;
use crate::driver::{CompletionRing, Unread};
use crate::errno::Result;
use crate::ring::index::IndexRing;

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
    fn look(&mut self) {
        let mask = self.ring.capacity();
        self.produced = self.ring.producer();
        let there = self.produced.wrapping_sub(self.next) & mask;
        let read = self.next.wrapping_sub(self.base) & mask;
        self.was_full |= there.wrapping_add(read) >= mask;
        self.base = self.published;
    }

    fn after(&self, index: u32, by: u32) -> u32 {
        index.wrapping_add(by) & self.ring.capacity()
    }
}

impl CompletionRing for Completions {
    fn capacity(&self) -> u32 {
        self.ring.capacity()
    }

    fn next<'w>(&mut self, wc: &'w mut MaybeUninit<ibv_wc>) -> Option<&'w mut ibv_wc> {
        if self.next == self.produced {
            self.look();
            if self.next == self.produced {
                return None;
            }
        }
        let cqe = self.ring.read(self.next);
        self.next = self.after(self.next, 1);
        Some(wc.write(ibv_wc {
            wr_id: cqe.wr_id,
            status: cqe.status,
            opcode: cqe.opcode,
            vendor_err: cqe.vendor_err,
            byte_len: cqe.byte_len,
            __bindgen_anon_1: ibv_wc__bindgen_ty_1 {
                invalidated_rkey: cqe.ex,
            },
            qp_num: cqe.qp_num,
            src_qp: cqe.src_qp,
            wc_flags: wc_flags(cqe.wc_flags),
            pkey_index: cqe.pkey_index,
            slid: cqe.slid,
            sl: cqe.sl,
            dlid_path_bits: cqe.dlid_path_bits,
        }))
    }

    fn release(&mut self) {
        if self.published != self.next {
            self.published = self.next;
            self.ring.publish_consumer(self.next);
        }
    }

    fn was_full(&mut self) -> bool {
        mem::take(&mut self.was_full)
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

/// The flags as libibverbs numbers them: the driver writes the kernel's own `enum ib_wc_flags`
/// (linux 6.1 `rxe_resp.c: do_complete`), which has WITH_INVALIDATE in another place.
fn wc_flags(kernel: u32) -> u32 {
    const IB_WC_WITH_INVALIDATE: u32 = 1 << 2;
    let same = kernel & (IBV_WC_GRH | IBV_WC_WITH_IMM);
    if kernel & IB_WC_WITH_INVALIDATE == 0 {
        same
    } else {
        same | IBV_WC_WITH_INV
    }
}
