// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause

//! What the builders and setters of a draft find.

use std::mem;
use std::ptr;
use std::slice;

use rdma_core_sys::provider::WR_FLUSH;
use rdma_core_sys::{
    IBV_SEND_INLINE, IBV_WR_ATOMIC_WRITE, IBV_WR_BIND_MW, IBV_WR_LOCAL_INV, IBV_WR_RDMA_WRITE,
    IBV_WR_SEND, IBV_WR_SEND_WITH_INV, ibv_qp_cap, ibv_send_wr__bindgen_ty_2__bindgen_ty_3,
    ibv_sge, ibv_wr_opcode,
};

use super::staged::Staged;
use crate::errno::{Errno, Result};
use crate::object::zeroed;

/// Memory for what the work requests of a draft name, if that is more than one entry each.
#[derive(Default)]
struct Data {
    /// The most work requests that a draft has.
    depth: usize,
    /// `max_sge` for each work request.
    sges: Box<[ibv_sge]>,
    max_sge: usize,
    /// `max_inline` for each.
    bytes: Box<[u8]>,
    max_inline: usize,
}

impl Data {
    fn new(depth: usize, cap: &ibv_qp_cap) -> Result<Self> {
        let size = |each: u32| usize::try_from(each).map_err(|_| Errno::ENOMEM);
        let (max_sge, max_inline) = (size(cap.max_send_sge)?, size(cap.max_inline_data)?);
        let all = |each: usize| depth.checked_mul(each).ok_or(Errno::ENOMEM);
        // SAFETY: zeroes are entries, and bytes.
        let (sges, bytes) = unsafe { (zeroed(all(max_sge)?)?, zeroed(all(max_inline)?)?) };
        Ok(Self {
            depth,
            sges,
            max_sge,
            bytes,
            max_inline,
        })
    }
}

/// What a draft consists of.
pub(super) struct Extent {
    pub(super) count: usize,
    /// See [`Requests::are_simple`](crate::wr::Requests::are_simple).
    pub(super) are_simple: bool,
    pub(super) goes_beyond: bool,
}

/// What the builders and setters find: of a draft that is open, until a mistake is made in it, what they need. Else
/// there is no room, and no work request that wants data: that is all they ask for.
#[derive(Default)]
pub(crate) struct Open {
    /// Where the next work requests go.
    free: slice::IterMut<'static, Staged>,
    /// The one that was begun last, if a setter may give it data, and none has.
    wanting: Option<&'static mut Staged>,
    /// Else here.
    done: Option<&'static mut Staged>,
    are_simple: bool,
    goes_beyond: bool,
    /// The first mistake: the draft will be refused for it.
    mistake: Option<Errno>,
    data: Data,
}

impl Open {
    /// Nothing yet, of drafts of so many work requests with as much data as `cap` allows.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(super) fn new(depth: usize, cap: &ibv_qp_cap) -> Result<Self> {
        Ok(Self {
            data: Data::new(depth, cap)?,
            ..Self::default()
        })
    }

    /// Begins a draft, with room for it.
    pub(super) fn begin_draft(&mut self, free: &'static mut [Staged]) {
        self.free = free.iter_mut();
        self.are_simple = true;
        self.goes_beyond = false;
        self.mistake = None;
    }

    /// Notes a mistake, if it is the first.
    pub(super) fn fail(&mut self, errno: Errno) {
        self.mistake.get_or_insert(errno);
        self.close();
    }

    /// Ends the draft; how much of the room it has used, and what is to be known of it.
    ///
    /// # Errors
    ///
    /// The first mistake that was made in it.
    #[inline(always)]
    pub(super) fn end_draft(&mut self) -> Result<Extent> {
        let extent = Extent {
            count: self.data.depth.wrapping_sub(self.free.len()),
            are_simple: self.are_simple,
            goes_beyond: self.goes_beyond,
        };
        self.close();
        match self.mistake {
            Some(errno) => Err(errno),
            None => Ok(extent),
        }
    }

    /// Begins the next work request: all but its data, its receiver, and what its operation has of its own. None if
    /// there is no room.
    ///
    /// Each builder has an `opcode` of its own, so that what is asked of it is known when it is compiled.
    #[inline(always)]
    pub(crate) fn begin(
        &mut self,
        wr_id: u64,
        opcode: ibv_wr_opcode,
        send_flags: u32,
    ) -> Option<&mut Staged> {
        let staged = self.free.next()?;
        staged.wr.wr_id = wr_id;
        staged.wr.opcode = opcode;
        // Whether data is inline, the setter says that gives it.
        staged.wr.send_flags = send_flags & !IBV_SEND_INLINE;
        staged.wr.num_sge = 0;
        // A datagram without a receiver is refused, also where an earlier draft has left one.
        staged.wr.wr.ud.ah = ptr::null_mut();
        let is_beyond = matches!(opcode, IBV_WR_ATOMIC_WRITE | WR_FLUSH);
        let takes_none = matches!(opcode, IBV_WR_LOCAL_INV | IBV_WR_BIND_MW);
        let is_simple = matches!(
            opcode,
            IBV_WR_SEND | IBV_WR_SEND_WITH_INV | IBV_WR_RDMA_WRITE
        );
        if is_beyond {
            self.goes_beyond = true;
        }
        if !is_simple {
            self.are_simple = false;
        }
        if is_beyond || takes_none {
            self.wanting = None;
            Some(self.done.insert(staged))
        } else {
            Some(self.wanting.insert(staged))
        }
    }

    /// Gives the work request its data: what is at `sge`.
    ///
    /// # Errors
    ///
    /// `EINVAL` if it may have none, or has some.
    #[inline(always)]
    pub(crate) fn set_sge(&mut self, sge: ibv_sge) -> Result<()> {
        self.give_data()?.set_only(sge);
        Ok(())
    }

    /// Gives the work request its data: what `sges` name.
    ///
    /// # Errors
    ///
    /// As [`set_sge`](Self::set_sge), and if there are too many entries.
    pub(crate) fn set_sges(&mut self, sges: &[ibv_sge]) -> Result<()> {
        if sges.len() > self.data.max_sge || self.wanting.is_none() {
            return Err(Errno::EINVAL);
        }
        let place = self.place_of_last(self.data.max_sge);
        let place = self.data.sges.get_mut(place..).unwrap_or_default();
        let place = place.get_mut(..sges.len()).ok_or(Errno::ENOMEM)?;
        place.copy_from_slice(sges);
        let list = place.as_mut_ptr();
        self.are_simple = false;
        let last = self.give_data()?;
        last.wr.num_sge = sges.len().try_into().map_err(|_| Errno::EINVAL)?;
        last.wr.sg_list = list;
        Ok(())
    }

    /// Gives the work request its data: a copy of `parts`.
    ///
    /// # Errors
    ///
    /// As [`set_sge`](Self::set_sge), and if there are too many bytes.
    pub(crate) fn set_inline<'p>(
        &mut self,
        parts: impl Iterator<Item = Result<&'p [u8]>>,
    ) -> Result<()> {
        if self.wanting.is_none() {
            return Err(Errno::EINVAL);
        }
        let place = self.place_of_last(self.data.max_inline);
        let place = self.data.bytes.get_mut(place..).unwrap_or_default();
        let place = place.get_mut(..self.data.max_inline).ok_or(Errno::EINVAL)?;
        let addr = place.as_mut_ptr().expose_provenance() as u64;
        let mut room = place;
        for part in parts {
            let part = part?;
            let (to, behind) = mem::take(&mut room)
                .split_at_mut_checked(part.len())
                .ok_or(Errno::EINVAL)?;
            to.copy_from_slice(part);
            room = behind;
        }
        let length = self.data.max_inline.wrapping_sub(room.len());
        self.are_simple = false;
        let last = self.give_data()?;
        last.wr.send_flags |= IBV_SEND_INLINE;
        last.set_only(ibv_sge {
            addr,
            // At most `max_inline_data`.
            length: u32::try_from(length).map_err(|_| Errno::EINVAL)?,
            lkey: 0,
        });
        Ok(())
    }

    /// The work request that was begun last, which gets its data.
    ///
    /// # Errors
    ///
    /// `EINVAL` if it wants none.
    #[inline(always)]
    fn give_data(&mut self) -> Result<&mut Staged> {
        let last = self.wanting.take().ok_or(Errno::EINVAL)?;
        Ok(self.done.insert(last))
    }

    /// Where the data of the last work request is, of which each has `count`.
    fn place_of_last(&self, count: usize) -> usize {
        // From the end: what the free ones have is behind it.
        let behind = self.free.len().wrapping_add(1);
        self.data.depth.saturating_sub(behind).saturating_mul(count)
    }

    /// Gives the work request, a datagram, its receiver.
    ///
    /// # Errors
    ///
    /// `EINVAL` if there is no work request.
    pub(crate) fn set_receiver(
        &mut self,
        receiver: ibv_send_wr__bindgen_ty_2__bindgen_ty_3,
    ) -> Result<()> {
        let last = self.wanting.as_mut().or(self.done.as_mut());
        last.ok_or(Errno::EINVAL)?.wr.wr.ud = receiver;
        Ok(())
    }

    /// Leaves nothing to be found.
    fn close(&mut self) {
        self.free = slice::IterMut::default();
        self.wanting = None;
        self.done = None;
    }
}
