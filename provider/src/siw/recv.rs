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
}

impl Recvs {
    pub(super) fn map(cmd_fd: RawFd, key: u64, count: u32) -> Result<Self> {
        Ok(Self {
            ring: ValidRing::map(cmd_fd, key, count)?,
            next: 0,
            unpublished: 0,
        })
    }
}

impl RecvRing for Recvs {
    fn capacity(&self) -> u32 {
        self.ring.capacity()
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

    fn publish(&mut self) {
        while self.unpublished != self.next {
            // The kernel takes an RQE whose flags are VALID and nothing else
            // (linux 6.1 `siw_qp_rx.c: siw_rqe_get`).
            self.ring.publish(self.unpublished, 0);
            self.unpublished = self.unpublished.wrapping_add(1);
        }
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
