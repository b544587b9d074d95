// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause

//! Work requests, and what becomes of a list of them that is refused.

use std::error::Error;
use std::ffi::c_int;
use std::fmt;
use std::io;

use super::context::none;
use super::{Ah, Mr, Mw, Remote, Sge, sys};

/// A send work request, `ibv_send_wr`, and its scatter/gather list.
#[derive(Clone)]
pub struct SendWr<'m> {
    pub(super) raw: sys::ibv_send_wr,
    pub(super) sges: Vec<Sge<'m>>,
    claimed_sges: Option<c_int>,
}

/// A receive work request, `ibv_recv_wr`, and its scatter/gather list.
#[derive(Debug, Clone)]
pub struct RecvWr<'m> {
    wr_id: u64,
    sges: Vec<Sge<'m>>,
    claimed_sges: Option<c_int>,
}

/// Where `bad_wr` points after a verb has refused a list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BadWr {
    /// To the request at this place of the list.
    At(usize),
    /// Nowhere: it is null.
    Null,
    /// Where the caller had left it.
    Untouched,
    /// To something that is not in the list.
    Stray,
}

/// A list of work requests that a verb has not accepted as a whole.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Refused {
    /// What the verb returned; a positive errno if it keeps to the manual.
    pub returned: c_int,
    /// The first request that was not accepted.
    pub bad: BadWr,
}

impl Refused {
    /// Number of requests that were accepted in front of the first that found no room.
    ///
    /// # Errors
    ///
    /// The refusal itself, if it is of another kind.
    pub fn accepted_for_want_of_room(self) -> Result<usize, Self> {
        match self.bad {
            // The sign is not looked at: stock siw's is negative.
            BadWr::At(accepted) if self.returned.abs() == libc::ENOMEM => Ok(accepted),
            _ => Err(self),
        }
    }
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let errno = io::Error::from_raw_os_error(self.returned);
        write!(
            f,
            "post refused: returned {}, {errno}; bad_wr {:?}",
            self.returned, self.bad
        )
    }
}

impl Error for Refused {}

impl<'m> SendWr<'m> {
    /// A request with any opcode (`IBV_WR_*`), known or not.
    #[must_use]
    pub fn new(opcode: sys::ibv_wr_opcode, sges: &[Sge<'m>]) -> Self {
        let raw = sys::ibv_send_wr {
            opcode,
            ..Default::default()
        };
        Self {
            raw,
            sges: sges.to_vec(),
            claimed_sges: None,
        }
    }

    /// A SEND.
    #[must_use]
    pub fn send(sges: &[Sge<'m>]) -> Self {
        Self::new(sys::IBV_WR_SEND, sges)
    }

    /// An RDMA WRITE to `remote`.
    #[must_use]
    pub fn write(sges: &[Sge<'m>], remote: Remote) -> Self {
        Self::new(sys::IBV_WR_RDMA_WRITE, sges).at(remote)
    }

    /// An RDMA READ from `remote`.
    #[must_use]
    pub fn read(sges: &[Sge<'m>], remote: Remote) -> Self {
        Self::new(sys::IBV_WR_RDMA_READ, sges).at(remote)
    }

    /// An atomic that stores `swap` at `remote` if it finds `compare` there.
    #[must_use]
    pub fn compare_swap(result: Sge<'m>, remote: Remote, compare: u64, swap: u64) -> Self {
        Self::new(sys::IBV_WR_ATOMIC_CMP_AND_SWP, &[result]).atomic(remote, compare, swap)
    }

    /// An atomic that adds `addend` to what is at `remote`.
    #[must_use]
    pub fn fetch_add(result: Sge<'m>, remote: Remote, addend: u64) -> Self {
        Self::new(sys::IBV_WR_ATOMIC_FETCH_AND_ADD, &[result]).atomic(remote, addend, 0)
    }

    /// A bind of `mw` to the whole of `mr` under `rkey`, with the access flags `access`.
    #[must_use]
    pub fn bind(mw: &'m Mw, mr: &'m Mr, rkey: u32, access: u32) -> Self {
        let mut wr = Self::new(sys::IBV_WR_BIND_MW, &[]);
        let bind_info = sys::ibv_mw_bind_info {
            mr: mr.raw(),
            addr: mr.remote(0).address,
            length: mr.len() as u64,
            mw_access_flags: access,
        };
        let bind = sys::ibv_send_wr__bindgen_ty_4__bindgen_ty_1 {
            mw: mw.raw(),
            rkey,
            bind_info,
        };
        wr.raw.__bindgen_anon_2.bind_mw = bind;
        wr
    }

    /// Invalidation of the local key `rkey`.
    #[must_use]
    pub fn local_invalidate(rkey: u32) -> Self {
        Self::new(sys::IBV_WR_LOCAL_INV, &[]).invalidating(rkey)
    }

    /// Sets the identifier.
    #[must_use]
    pub fn id(mut self, wr_id: u64) -> Self {
        self.raw.wr_id = wr_id;
        self
    }

    /// Adds send flags (`IBV_SEND_*`).
    #[must_use]
    pub fn flags(mut self, flags: u32) -> Self {
        self.raw.send_flags |= flags;
        self
    }

    /// The opcode, `IBV_WR_*`.
    #[must_use]
    pub fn opcode(&self) -> sys::ibv_wr_opcode {
        self.raw.opcode
    }

    /// Whether the request asks for a completion by itself.
    #[must_use]
    pub fn is_signaled(&self) -> bool {
        self.raw.send_flags & sys::IBV_SEND_SIGNALED != 0
    }

    /// Asks for a completion.
    #[must_use]
    pub fn signaled(self) -> Self {
        self.flags(sys::IBV_SEND_SIGNALED)
    }

    /// Copies the data when posting.
    #[must_use]
    pub fn inline(self) -> Self {
        self.flags(sys::IBV_SEND_INLINE)
    }

    /// Makes a SEND or an RDMA WRITE one with immediate data, given in host byte order.
    #[must_use]
    pub fn imm(mut self, data: u32) -> Self {
        self.raw.opcode = match self.raw.opcode {
            sys::IBV_WR_RDMA_WRITE => sys::IBV_WR_RDMA_WRITE_WITH_IMM,
            _ => sys::IBV_WR_SEND_WITH_IMM,
        };
        self.raw.__bindgen_anon_1.imm_data = data.to_be();
        self
    }

    /// Sets the key to invalidate; a SEND becomes a SEND_WITH_INV.
    #[must_use]
    pub fn invalidating(mut self, rkey: u32) -> Self {
        if self.raw.opcode == sys::IBV_WR_SEND {
            self.raw.opcode = sys::IBV_WR_SEND_WITH_INV;
        }
        self.raw.__bindgen_anon_1.invalidate_rkey = rkey;
        self
    }

    /// Sets the receiver of a datagram.
    #[must_use]
    pub fn to(mut self, ah: &'m Ah, remote_qpn: u32, remote_qkey: u32) -> Self {
        self.raw.wr.ud = sys::ibv_send_wr__bindgen_ty_2__bindgen_ty_3 {
            ah: ah.raw(),
            remote_qpn,
            remote_qkey,
        };
        self
    }

    /// Sets the target of an RDMA operation.
    #[must_use]
    pub fn at(mut self, remote: Remote) -> Self {
        self.raw.wr.rdma = sys::ibv_send_wr__bindgen_ty_2__bindgen_ty_1 {
            remote_addr: remote.address,
            rkey: remote.rkey,
        };
        self
    }

    fn atomic(mut self, remote: Remote, compare_add: u64, swap: u64) -> Self {
        self.raw.wr.atomic = sys::ibv_send_wr__bindgen_ty_2__bindgen_ty_2 {
            remote_addr: remote.address,
            compare_add,
            swap,
            rkey: remote.rkey,
        };
        self
    }

    /// Claims another number of elements than there are.
    ///
    /// # Safety
    ///
    /// A provider that believes the number may read or write anywhere: only for a process that
    /// may crash.
    #[must_use]
    pub unsafe fn claiming(mut self, num_sge: c_int) -> Self {
        self.claimed_sges = Some(num_sge);
        self
    }
}

impl fmt::Debug for SendWr<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SendWr")
            .field("wr_id", &self.raw.wr_id)
            .field("opcode", &self.raw.opcode)
            .field("send_flags", &self.raw.send_flags)
            .field("sges", &self.sges)
            .finish_non_exhaustive()
    }
}

impl<'m> RecvWr<'m> {
    /// A receive into `sges`.
    #[must_use]
    pub fn new(wr_id: u64, sges: &[Sge<'m>]) -> Self {
        Self {
            wr_id,
            sges: sges.to_vec(),
            claimed_sges: None,
        }
    }

    /// Claims another number of elements than there are.
    ///
    /// # Safety
    ///
    /// As [`SendWr::claiming`].
    #[must_use]
    pub unsafe fn claiming(mut self, num_sge: c_int) -> Self {
        self.claimed_sges = Some(num_sge);
        self
    }
}

fn count(sges: &[Sge<'_>], claimed: Option<c_int>) -> c_int {
    claimed.unwrap_or_else(|| c_int::try_from(sges.len()).unwrap_or(c_int::MAX))
}

/// The list that libibverbs takes: it points to the scatter/gather lists of `list`, which has to outlive it.
#[must_use]
pub fn chain_sends(list: &[SendWr<'_>]) -> Vec<sys::ibv_send_wr> {
    let raw = list.iter().map(|wr| sys::ibv_send_wr {
        sg_list: wr.sges.as_ptr().cast_mut().cast(),
        num_sge: count(&wr.sges, wr.claimed_sges),
        ..wr.raw
    });
    let mut chain: Vec<_> = raw.collect();
    let base = chain.as_mut_ptr();
    for (at, wr) in chain
        .iter_mut()
        .enumerate()
        .take(list.len().saturating_sub(1))
    {
        wr.next = base.wrapping_add(at + 1);
    }
    chain
}

/// The list that libibverbs takes: it points to the scatter/gather lists of `list`, which has to outlive it.
#[must_use]
pub fn chain_recvs(list: &[RecvWr<'_>]) -> Vec<sys::ibv_recv_wr> {
    let raw = list.iter().map(|wr| sys::ibv_recv_wr {
        wr_id: wr.wr_id,
        next: none(),
        sg_list: wr.sges.as_ptr().cast_mut().cast(),
        num_sge: count(&wr.sges, wr.claimed_sges),
    });
    let mut chain: Vec<_> = raw.collect();
    let base = chain.as_mut_ptr();
    for (at, wr) in chain
        .iter_mut()
        .enumerate()
        .take(list.len().saturating_sub(1))
    {
        wr.next = base.wrapping_add(at + 1);
    }
    chain
}

/// Posts `chain` with `verb`, which takes the list and the place for `bad_wr`, and judges what it
/// says.
pub(super) fn post<T>(
    mut chain: Vec<T>,
    verb: impl FnOnce(*mut T, *mut *mut T) -> c_int,
) -> Result<(), Refused> {
    let untouched = std::ptr::dangling_mut::<T>();
    let mut bad = untouched;
    let first = if chain.is_empty() {
        none()
    } else {
        chain.as_mut_ptr()
    };
    let returned = verb(first, &raw mut bad);
    if returned == 0 {
        return Ok(());
    }
    let places = 0..chain.len();
    let bad = match bad {
        at if at == untouched => BadWr::Untouched,
        at if at.is_null() => BadWr::Null,
        at => places
            .map(|place| (place, first.wrapping_add(place)))
            .find(|&(_, request)| request == at)
            .map_or(BadWr::Stray, |(place, _)| BadWr::At(place)),
    };
    Err(Refused { returned, bad })
}
