// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause

//! siw's RQ and SRQ: `struct siw_rqe`.

use std::os::fd::RawFd;

use kernel_abi::siw::Rqe;
use rdma_core_sys::ibv_recv_wr;

use super::send::{MAX_SGE, copy_sges};
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

    fn write(&mut self, cookie: u64, wr: &ibv_recv_wr) -> Result<()> {
        let sges = sges(wr, MAX_SGE)?;
        message_len(sges)?;
        if self.ring.is_pending(self.next) {
            return Err(Errno::ENOMEM);
        }
        let mut rqe = Rqe {
            id: cookie,
            ..Rqe::default()
        };
        rqe.num_sge = copy_sges(&mut rqe.sge, sges);
        self.ring.write(self.next, &rqe);
        self.next = self.next.wrapping_add(1);
        Ok(())
    }

    fn publish(&mut self) -> bool {
        let first = self.unpublished;
        if first == self.next {
            return true;
        }
        self.unpublished = self.next;
        // The kernel takes an RQE whose flags are VALID and nothing else
        // (linux 6.1 `siw_qp_rx.c: siw_rqe_get`).
        let Some(mark) = self.mark else {
            let mut index = first;
            while index != self.next {
                self.ring.publish(index, 0);
                index = index.wrapping_add(1);
            }
            return true;
        };
        // It does not look behind the mark, so the first goes last.
        let mut index = first.wrapping_add(1);
        while index != self.next {
            self.ring.publish(index, 0);
            index = index.wrapping_add(1);
        }
        self.ring.mark(self.next, mark);
        self.ring.publish_over_mark(first, 0)
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
