// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause

//! rxe's RQ and SRQ: `struct rxe_recv_wqe`, the scatter list behind it.

use std::mem::offset_of;
use std::os::fd::RawFd;

use kernel_abi::rxe::{MmapInfo, ModifySrqCmd, RecvWqe, Sge};
use rdma_core_sys::{ibv_recv_wr, ibv_sge};

use super::send::write_sges;
use super::wqe::dma;
use crate::driver::{OpenRecvs, RecvRing, SrqResize};
use crate::errno::{Errno, Result};
use crate::ring::index::{IndexRing, OpenSlot, OpenSlots};
use crate::wr::{message_len, sges};

/// A mapped RQ or SRQ.
#[derive(Debug)]
pub(crate) struct Recvs {
    ring: IndexRing<RecvWqe>,
    max_sge: u32,
    /// The index of the next WQE to be written.
    next: u32,
}

impl Recvs {
    /// # Errors
    ///
    /// `EIO` if a slot has no room for `max_sge` entries; else what mapping says.
    pub(super) fn map(cmd_fd: RawFd, info: &MmapInfo, max_sge: u32) -> Result<Self> {
        let list = usize::try_from(max_sge)
            .ok()
            .and_then(|n| n.checked_mul(size_of::<Sge>()))
            .ok_or(Errno::EIO)?;
        let ring = IndexRing::<RecvWqe>::map(cmd_fd, info)?.with_tail(list)?;
        // The SRQ's ring that a resize made has WQEs in it.
        let next = ring.producer();
        Ok(Self {
            ring,
            max_sge,
            next,
        })
    }
}

/// Free slots of an RQ or SRQ.
#[derive(Debug)]
pub(crate) struct Open<'r> {
    slots: OpenSlots<'r, RecvWqe>,
    max_sge: u32,
    next: &'r mut u32,
}

impl OpenRecvs for Open<'_> {
    type List = ();

    /// If it may have one.
    #[inline(always)]
    fn write_only(&mut self, only: &ibv_sge) -> Option<()> {
        let mut slot = self.slots.slot();
        slot.write_tail_part(only).ok()?;
        slot.write_part::<{ offset_of!(RecvWqe, dma) }, _>(dma(1, only.length));
        Some(())
    }

    /// The kernel does not look at what is `reserved` (linux 6.1, 6.12 `rxe_resp.c`).
    #[inline(always)]
    fn finish(&mut self, cookie: u64, (): ()) {
        let mut slot = self.slots.slot();
        slot.write_part::<{ offset_of!(RecvWqe, wr_id) }, _>(cookie);
        self.slots.pass();
    }

    #[inline(always)]
    fn write_list(&mut self, wr: &ibv_recv_wr) -> Result<()> {
        write_scatter_list(self.slots.slot(), wr, self.max_sge)
    }

    #[inline(always)]
    fn publish(self, count: u32) -> bool {
        *self.next = self.next.wrapping_add(count);
        self.slots.ring().publish_producer(*self.next);
        true
    }
}

/// Writes a scatter list.
///
/// # Errors
///
/// `EINVAL` if its length does not fit 32 bits, or it is malformed.
// Cold: the registers are for the lists of one entry.
#[cold]
#[inline(never)]
fn write_scatter_list(
    mut slot: OpenSlot<'_, RecvWqe>,
    wr: &ibv_recv_wr,
    max_sge: u32,
) -> Result<()> {
    let length = write_sges(&mut slot, sges(wr, max_sge)?)?;
    let dma = dma(wr.num_sge.cast_unsigned(), length);
    slot.write_part::<{ offset_of!(RecvWqe, dma) }, _>(dma);
    Ok(())
}

impl RecvRing for Recvs {
    type Open<'r> = Open<'r>;

    fn capacity(&self) -> u32 {
        self.ring.capacity()
    }

    fn inspect(&self, wr: &ibv_recv_wr) -> Result<()> {
        message_len(sges(wr, self.max_sge)?).map(drop)
    }

    #[inline(always)]
    fn open(&mut self) -> Open<'_> {
        Open {
            slots: self.ring.open(self.next),
            max_sge: self.max_sge,
            next: &mut self.next,
        }
    }

    fn mark(&mut self, id: u64) -> bool {
        if self.ring.is_full() {
            return false;
        }
        self.ring.write(
            self.next,
            &RecvWqe {
                wr_id: id,
                ..RecvWqe::default()
            },
        );
        self.next = self.next.wrapping_add(1);
        self.ring.publish_producer(self.next);
        true
    }

    fn is_drained(&self) -> bool {
        self.ring.is_empty()
    }

    /// An SRQ's consumer index moves when a WQE is taken (linux 6.1 `rxe_resp.c: get_srq_wqe`).
    fn untaken(&self) -> u32 {
        self.ring.unconsumed(self.next)
    }
}

/// The new ring of an SRQ: the kernel copies the posted WQEs and says where it is
/// (linux 6.1 `rxe_srq.c: rxe_srq_from_attr`).
#[derive(Debug, Default)]
pub(crate) struct Resize(MmapInfo);

impl SrqResize<Recvs> for Resize {
    type Request = ModifySrqCmd;

    fn request(&mut self) -> ModifySrqCmd {
        // The kernel writes there, so the address must be one that others may use.
        ModifySrqCmd {
            mmap_info_addr: (&raw mut self.0).expose_provenance() as u64,
        }
    }

    fn replace(&self, cmd_fd: RawFd, ring: &mut Recvs) -> Result<()> {
        *ring = Recvs::map(cmd_fd, &self.0, ring.max_sge)?;
        Ok(())
    }
}
