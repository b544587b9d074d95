// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause

//! Sends that are built call by call: `ibv_wr_post`(3).

use std::error::Error;
use std::ffi::c_int;
use std::fmt;
use std::io;
use std::marker::PhantomData;

use crate::links::Device;

use super::{Qp, SendWr, Transport, sys};

/// All that a QP on `device` of that transport can post in a draft, on every kernel.
#[must_use]
pub fn send_ops(device: Device, transport: Transport) -> u64 {
    let both = sys::IBV_QP_EX_WITH_SEND;
    let connected = sys::IBV_QP_EX_WITH_SEND_WITH_INV | sys::IBV_QP_EX_WITH_RDMA_WRITE;
    let immediate = sys::IBV_QP_EX_WITH_SEND_WITH_IMM;
    let write_immediate = sys::IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM;
    let reliable = sys::IBV_QP_EX_WITH_RDMA_READ | sys::IBV_QP_EX_WITH_LOCAL_INV;
    let atomic = sys::IBV_QP_EX_WITH_ATOMIC_CMP_AND_SWP | sys::IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD;
    let bind = sys::IBV_QP_EX_WITH_BIND_MW;
    u64::from(match (device, transport) {
        (Device::Siw, _) => both | connected | reliable,
        (Device::Rxe, Transport::Ud) => both | immediate,
        (Device::Rxe, Transport::Uc) => both | immediate | connected | write_immediate | bind,
        (Device::Rxe, Transport::Rc) => {
            both | immediate | connected | write_immediate | bind | reliable | atomic
        }
    })
}

/// A draft that `ibv_wr_complete` has refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Incomplete {
    /// What it returned; a positive errno if it keeps to the manual.
    pub returned: c_int,
}

impl fmt::Display for Incomplete {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let errno = io::Error::from_raw_os_error(self.returned);
        write!(f, "ibv_wr_complete returned {}, {errno}", self.returned)
    }
}

impl Error for Incomplete {}

/// A draft that is open; it is aborted unless it is completed.
#[derive(Debug)]
pub struct Draft<'q> {
    raw: *mut sys::ibv_qp_ex,
    transport: Transport,
    is_open: bool,
    _qp: PhantomData<&'q Qp>,
}

/// Calls the operation behind a member of an `ibv_qp_ex`, which is NULL only if the QP was not created
/// for it.
#[macro_export]
macro_rules! wr_call {
    ($qp:expr, $member:ident $(, $argument:expr)*) => {{
        let qp: *mut $crate::verbs::sys::ibv_qp_ex = $qp;
        match (*qp).$member {
            Some(op) => op(qp $(, $argument)*),
            None => panic!("ibv_qp_ex.{} is NULL", stringify!($member)),
        }
    }};
}

impl Qp {
    /// Whether the QP was created with send operations.
    #[must_use]
    pub fn has_drafts(&self) -> bool {
        !self.extended_view().is_null()
    }

    /// What `ibv_qp_to_qp_ex` says.
    #[must_use]
    pub fn extended_view(&self) -> *mut sys::ibv_qp_ex {
        // SAFETY: the QP is alive.
        unsafe { sys::ibv_qp_to_qp_ex(self.raw()) }
    }

    /// Begins a draft (`ibv_wr_start`).
    ///
    /// # Panics
    ///
    /// If the QP was not created with send operations.
    #[must_use]
    pub fn draft(&self) -> Draft<'_> {
        let raw = self.extended_view();
        assert!(!raw.is_null(), "a QP without send operations");
        let draft = Draft {
            raw,
            transport: self.transport(),
            is_open: true,
            _qp: PhantomData,
        };
        // SAFETY: the QP is alive.
        unsafe { wr_call!(draft.raw, wr_start) };
        draft
    }

    /// Posts sends as one draft.
    ///
    /// # Errors
    ///
    /// That the draft was refused.
    pub fn post_draft(&self, list: &[SendWr<'_>]) -> Result<(), Incomplete> {
        let draft = self.draft();
        for wr in list {
            draft.add(wr);
        }
        draft.complete()
    }
}

impl Draft<'_> {
    /// The QP, for calls that no method makes.
    #[must_use]
    pub fn raw(&self) -> *mut sys::ibv_qp_ex {
        self.raw
    }

    /// Calls the builder and the setters for `wr`: one entry is set by the call for one, more by that
    /// for a list.
    ///
    /// # Panics
    ///
    /// If no builder is known for its opcode.
    pub fn add(&self, wr: &SendWr<'_>) {
        self.begin(wr);
        let inline = wr.raw.send_flags & sys::IBV_SEND_INLINE != 0;
        let sges = wr.sges.as_ptr().cast::<sys::ibv_sge>();
        // SAFETY: the QP is alive; a request's elements name memory of its own.
        unsafe {
            match wr.sges.len() {
                0 => {}
                1 if inline => {
                    let sge = *sges;
                    wr_call!(
                        self.raw,
                        wr_set_inline_data,
                        place(sge),
                        sge.length as usize
                    );
                }
                1 => {
                    let sge = *sges;
                    wr_call!(self.raw, wr_set_sge, sge.lkey, sge.addr, sge.length);
                }
                count if inline => {
                    let parts: Vec<_> = (0..count)
                        .map(|at| *sges.add(at))
                        .map(|sge| sys::ibv_data_buf {
                            addr: place(sge),
                            length: sge.length as usize,
                        })
                        .collect();
                    wr_call!(self.raw, wr_set_inline_data_list, count, parts.as_ptr());
                }
                count => {
                    // A list that is gone when the setter has returned.
                    let copy: Vec<_> = (0..count).map(|at| *sges.add(at)).collect();
                    wr_call!(self.raw, wr_set_sge_list, count, copy.as_ptr());
                }
            }
        }
    }

    /// Calls the builder for `wr`, and gives a datagram its receiver.
    ///
    /// # Panics
    ///
    /// As [`Self::add`].
    pub fn begin(&self, wr: &SendWr<'_>) {
        let raw = &wr.raw;
        // SAFETY: the QP is alive, and this thread alone uses it; the union's members are those of the
        // opcode.
        unsafe {
            (*self.raw).wr_id = raw.wr_id;
            (*self.raw).wr_flags = raw.send_flags & !sys::IBV_SEND_INLINE;
            let ex = raw.__bindgen_anon_1;
            let (rdma, atomic) = (raw.wr.rdma, raw.wr.atomic);
            let (rkey, address) = (rdma.rkey, rdma.remote_addr);
            match raw.opcode {
                sys::IBV_WR_SEND => wr_call!(self.raw, wr_send),
                sys::IBV_WR_SEND_WITH_IMM => wr_call!(self.raw, wr_send_imm, ex.imm_data),
                sys::IBV_WR_SEND_WITH_INV => wr_call!(self.raw, wr_send_inv, ex.invalidate_rkey),
                sys::IBV_WR_RDMA_WRITE => wr_call!(self.raw, wr_rdma_write, rkey, address),
                sys::IBV_WR_RDMA_WRITE_WITH_IMM => {
                    wr_call!(self.raw, wr_rdma_write_imm, rkey, address, ex.imm_data);
                }
                sys::IBV_WR_RDMA_READ => wr_call!(self.raw, wr_rdma_read, rkey, address),
                sys::IBV_WR_ATOMIC_CMP_AND_SWP => wr_call!(
                    self.raw,
                    wr_atomic_cmp_swp,
                    atomic.rkey,
                    atomic.remote_addr,
                    atomic.compare_add,
                    atomic.swap
                ),
                sys::IBV_WR_ATOMIC_FETCH_AND_ADD => wr_call!(
                    self.raw,
                    wr_atomic_fetch_add,
                    atomic.rkey,
                    atomic.remote_addr,
                    atomic.compare_add
                ),
                sys::IBV_WR_LOCAL_INV => wr_call!(self.raw, wr_local_inv, ex.invalidate_rkey),
                sys::IBV_WR_BIND_MW => {
                    let bind = raw.__bindgen_anon_2.bind_mw;
                    wr_call!(
                        self.raw,
                        wr_bind_mw,
                        bind.mw,
                        bind.rkey,
                        &raw const bind.bind_info
                    );
                }
                opcode => panic!("no builder for opcode {opcode}"),
            }
            if self.transport == Transport::Ud {
                let ud = raw.wr.ud;
                wr_call!(
                    self.raw,
                    wr_set_ud_addr,
                    ud.ah,
                    ud.remote_qpn,
                    ud.remote_qkey
                );
            }
        }
    }

    /// Posts the draft (`ibv_wr_complete`).
    ///
    /// # Errors
    ///
    /// That it was refused.
    pub fn complete(mut self) -> Result<(), Incomplete> {
        self.is_open = false;
        // SAFETY: the QP is alive.
        match unsafe { wr_call!(self.raw, wr_complete) } {
            0 => Ok(()),
            returned => Err(Incomplete { returned }),
        }
    }

    /// Drops the draft (`ibv_wr_abort`).
    pub fn abort(self) {
        drop(self);
    }
}

impl Drop for Draft<'_> {
    fn drop(&mut self) {
        if self.is_open {
            // SAFETY: the QP is alive.
            unsafe { wr_call!(self.raw, wr_abort) }
        }
    }
}

/// Where the bytes of an element of inline data are.
fn place(sge: sys::ibv_sge) -> *mut std::ffi::c_void {
    std::ptr::with_exposed_provenance_mut(usize::try_from(sge.addr).unwrap_or(0))
}
