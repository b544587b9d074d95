// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause

//! siw's RQ and SRQ: `struct siw_rqe`.

use std::mem::offset_of;
use std::os::fd::RawFd;

use kernel_abi::siw::Rqe;
use rdma_core_sys::ibv_recv_wr;

use super::send::{MAX_SGE, write_sges};
use crate::driver::{RecvRing, SrqResize};
use crate::errno::{Errno, Result};
use crate::ring::valid::ValidRing;
use crate::wr::{message_len, sges};

/// A mapped RQ or SRQ.
#[derive(Debug)]
pub(crate) struct Recvs {
    ring: ValidRing<Rqe>,
    /// The RQE to be written next, and the first that is not yet published; free running.
    next: u32,
    unpublished: u32,
    /// The id of the mark, which stands behind all that was published in an RQ. An SRQ is not flushed
    /// and has none.
    mark: Option<u64>,
    /// Entries kept free for the mark.
    spare: u32,
}

impl Recvs {
    /// Maps a ring of `count` entries, of which `spare` are kept free: one, if it is to have a mark.
    pub(super) fn map(cmd_fd: RawFd, key: u64, count: u32, spare: u32) -> Result<Self> {
        Ok(Self {
            ring: ValidRing::map(cmd_fd, key, count)?,
            next: 0,
            unpublished: 0,
            mark: None,
            spare,
        })
    }
}

impl RecvRing for Recvs {
    fn capacity(&self) -> u32 {
        self.ring.capacity().wrapping_sub(self.spare)
    }

    fn inspect(&self, wr: &ibv_recv_wr) -> Result<()> {
        message_len(sges(wr, MAX_SGE)?).map(drop)
    }

    /// The kernel takes an RQE whose flags are VALID and nothing else (linux 6.1, 6.12 `siw_qp_rx.c:
    /// siw_rqe_get`), and has taken what completed.
    #[inline(always)]
    fn write(&mut self, cookie: u64, wr: &ibv_recv_wr) -> Result<()> {
        let sges = sges(wr, MAX_SGE)?;
        let mut rqe = self.ring.open(self.next);
        let (num_sge, _) = write_sges::<{ offset_of!(Rqe, sge) }, _>(&mut rqe, sges)?;
        rqe.write_part::<0, _>(cookie);
        rqe.write_part::<{ offset_of!(Rqe, num_sge) }, _>(num_sge);
        // It does not look behind the mark, so the first goes last.
        if self.next != self.unpublished || self.mark.is_none() {
            rqe.publish(0);
        }
        self.next = self.next.wrapping_add(1);
        Ok(())
    }

    #[inline(always)]
    fn publish(&mut self) -> bool {
        let first = self.unpublished;
        self.unpublished = self.next;
        match self.mark {
            Some(mark) if first != self.next => {
                self.ring.mark(self.next, mark);
                self.ring.publish_over_mark(first, 0)
            }
            _ => true,
        }
    }

    fn mark(&mut self, id: u64) -> bool {
        self.mark = Some(id);
        self.ring.mark(self.next, id)
    }

    /// The flush has run through when the move to ERR returns.
    fn is_drained(&self) -> bool {
        true
    }

    fn untaken(&self) -> u32 {
        let mut count = 0_u32;
        while count < self.ring.capacity()
            && self
                .ring
                .is_pending(self.unpublished.wrapping_sub(count).wrapping_sub(1))
        {
            count = count.wrapping_add(1);
        }
        count
    }
}

/// siw does not resize an SRQ (linux 6.1 `siw_verbs.c: siw_modify_srq`: `EOPNOTSUPP`).
#[derive(Debug, Default)]
pub(crate) struct Resize;

impl SrqResize<Recvs> for Resize {
    type Request = ();

    fn request(&mut self) {}

    fn replace(&self, _: RawFd, _: &mut Recvs) -> Result<()> {
        Err(Errno::EOPNOTSUPP)
    }
}
