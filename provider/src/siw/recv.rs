// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause

//! siw's RQ and SRQ: `struct siw_rqe`.

use std::mem::offset_of;
use std::num::NonZeroU64;
use std::os::fd::RawFd;

use kernel_abi::siw::Rqe;
use rdma_core_sys::{ibv_recv_wr, ibv_sge};

use super::send::{MAX_SGE, write_sges};
use crate::driver::{OpenRecvs, RecvRing, SrqResize};
use crate::errno::{Errno, Result};
use crate::ring::valid::{Head, OpenEntries, OpenEntry, ValidRing};
use crate::wr::{message_len, sges};

/// A mapped RQ or SRQ.
#[derive(Debug)]
pub(crate) struct Recvs {
    ring: ValidRing<Rqe>,
    /// The id of the mark, which stands behind all that was published in an RQ. An SRQ is not flushed
    /// and has none.
    mark: Option<NonZeroU64>,
    /// Entries kept free for the mark.
    spare: u32,
}

impl Recvs {
    /// Maps a ring of `count` entries, of which `spare` are kept free: one, if it is to have a mark.
    pub(super) fn map(cmd_fd: RawFd, key: u64, count: u32, spare: u32) -> Result<Self> {
        Ok(Self {
            ring: ValidRing::map(cmd_fd, key, count)?,
            mark: None,
            spare,
        })
    }
}

/// Free RQEs.
#[derive(Debug)]
pub(crate) struct Open<'r> {
    rqes: OpenEntries<'r, Rqe>,
    /// With which the first one will be published, once it is written.
    first_head: Head,
    /// See [`Recvs`].
    mark: &'r Option<NonZeroU64>,
}

/// The head of an RQE that has so many entries.
fn head(num_sge: u8) -> Head {
    Head::valid(0, num_sge, 0)
}

impl OpenRecvs for Open<'_> {
    type List = Head;

    /// If it is not empty.
    #[inline(always)]
    fn write_only(&mut self, only: &ibv_sge) -> Option<Head> {
        if only.length == 0 {
            return None;
        }
        let mut rqe = self.rqes.entry();
        rqe.write_part::<{ offset_of!(Rqe, sge) }, _>(*only);
        Some(head(1))
    }

    /// The kernel takes an RQE whose flags are VALID and nothing else, in turn (linux 6.1, 6.12 `siw_qp_rx.c:
    /// siw_rqe_get`): the first goes last.
    #[inline(always)]
    fn finish(&mut self, cookie: u64, head: Head) {
        let is_first = self.rqes.is_at_first();
        let mut rqe = self.rqes.entry();
        rqe.write_part::<0, _>(cookie);
        if is_first {
            self.first_head = head;
        } else {
            rqe.publish(head);
        }
        self.rqes.pass();
    }

    #[inline(always)]
    fn write_list(&mut self, wr: &ibv_recv_wr) -> Result<Head> {
        write_scatter_list(self.rqes.entry(), wr)
    }

    #[inline(always)]
    fn publish(mut self, count: u32) -> bool {
        if count == 0 {
            return true;
        }
        self.rqes.leave();
        let Some(mark) = *self.mark else {
            self.rqes.first().publish(self.first_head);
            return true;
        };
        self.rqes.entry().mark(mark.get());
        self.rqes.first().publish_over_mark(self.first_head)
    }
}

/// Writes a scatter list, leaving out empty entries; the head that it asks for.
///
/// # Errors
///
/// `EINVAL` if the length does not fit 32 bits, or the list is malformed.
// Cold: the registers are for the lists of one entry.
#[cold]
#[inline(never)]
fn write_scatter_list(rqe: OpenEntry<'_, Rqe>, wr: &ibv_recv_wr) -> Result<Head> {
    let sges = sges(wr, MAX_SGE)?;
    let (count, _) = write_sges::<{ offset_of!(Rqe, sge) }, _>(rqe, sges)?;
    Ok(head(count))
}

impl RecvRing for Recvs {
    type Open<'r> = Open<'r>;

    fn capacity(&self) -> u32 {
        self.ring.capacity().wrapping_sub(self.spare)
    }

    fn inspect(&self, wr: &ibv_recv_wr) -> Result<()> {
        message_len(sges(wr, MAX_SGE)?).map(drop)
    }

    #[inline(always)]
    fn open(&mut self) -> Open<'_> {
        Open {
            rqes: self.ring.open_next(),
            first_head: head(0),
            mark: &self.mark,
        }
    }

    fn mark(&mut self, id: u64) -> bool {
        self.mark = NonZeroU64::new(id);
        self.ring.open_next().entry().mark(id)
    }

    /// The flush has run through when the move to ERR returns.
    fn is_drained(&self) -> bool {
        true
    }

    fn untaken(&self) -> u32 {
        self.ring.pending_before_next()
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
