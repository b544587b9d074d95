// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause

//! The queue pair.

use std::ffi::c_int;
use std::io;
use std::mem::MaybeUninit;
use std::ptr::NonNull;
use std::sync::Arc;

use super::context::none;
use super::work::{chain_recvs, chain_sends, post};
use super::{CmId, Cq, Pd, RecvWr, Refused, SendWr, Srq, check, destroyed, object, sys};

/// The transport service of a QP.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Transport {
    /// Reliable connection, `IBV_QPT_RC`.
    Rc,
    /// Unreliable connection, `IBV_QPT_UC`.
    Uc,
    /// Unreliable datagram, `IBV_QPT_UD`.
    Ud,
}

impl Transport {
    fn raw(self) -> sys::ibv_qp_type {
        match self {
            Self::Rc => sys::IBV_QPT_RC,
            Self::Uc => sys::IBV_QPT_UC,
            Self::Ud => sys::IBV_QPT_UD,
        }
    }
}

/// Sizes of the queues of a QP, `ibv_qp_cap`.
#[derive(Debug, Clone, Copy)]
pub struct Caps {
    /// Send requests.
    pub send_wr: u32,
    /// Receive requests.
    pub recv_wr: u32,
    /// Elements of a send request.
    pub send_sge: u32,
    /// Elements of a receive request.
    pub recv_sge: u32,
    /// Bytes of inline data.
    pub inline: u32,
}

impl Default for Caps {
    fn default() -> Self {
        Self {
            send_wr: 64,
            recv_wr: 64,
            send_sge: 4,
            recv_sge: 4,
            inline: 64,
        }
    }
}

/// What a QP is created from.
#[derive(Debug, Clone)]
pub struct QpInit {
    /// The transport service.
    pub transport: Transport,
    /// The CQ of its sends.
    pub send_cq: Arc<Cq>,
    /// The CQ of its receives.
    pub recv_cq: Arc<Cq>,
    /// The SRQ that it takes its receives from, if any.
    pub srq: Option<Arc<Srq>>,
    /// Sizes of the queues.
    pub caps: Caps,
    /// Whether each send completes, signaled or not.
    pub signal_all: bool,
    /// What can also be posted by [`Qp::draft`] (`IBV_QP_EX_WITH_*`), if anything.
    pub send_ops: Option<u64>,
}

/// A queue pair, `ibv_qp`.
#[derive(Debug)]
pub struct Qp {
    raw: NonNull<sys::ibv_qp>,
    number: u32,
    /// The CM id that owns the QP; without one it is ours to destroy.
    cm_id: Option<CmId>,
    init: QpInit,
    answer: Caps,
    _pd: Arc<Pd>,
}

// SAFETY: libibverbs allows any thread to use a QP, and librdmacm any thread to use an id; the
// wrapper holds no other state.
unsafe impl Send for Qp {}
// SAFETY: as above.
unsafe impl Sync for Qp {}

impl QpInit {
    /// The attributes of `ibv_create_qp`.
    #[must_use]
    pub fn attributes(&self) -> sys::ibv_qp_init_attr {
        sys::ibv_qp_init_attr {
            qp_context: none(),
            send_cq: self.send_cq.raw(),
            recv_cq: self.recv_cq.raw(),
            srq: self.srq.as_ref().map_or(none(), |srq| srq.raw()),
            cap: sys::ibv_qp_cap {
                max_send_wr: self.caps.send_wr,
                max_recv_wr: self.caps.recv_wr,
                max_send_sge: self.caps.send_sge,
                max_recv_sge: self.caps.recv_sge,
                max_inline_data: self.caps.inline,
            },
            qp_type: self.transport.raw(),
            sq_sig_all: c_int::from(self.signal_all),
        }
    }

    /// The attributes of `ibv_create_qp_ex`, with `send_ops` among them.
    #[must_use]
    pub fn extended(&self, pd: &Pd, send_ops: u64) -> sys::ibv_qp_init_attr_ex {
        let plain = self.attributes();
        sys::ibv_qp_init_attr_ex {
            send_cq: plain.send_cq,
            recv_cq: plain.recv_cq,
            srq: plain.srq,
            cap: plain.cap,
            qp_type: plain.qp_type,
            sq_sig_all: plain.sq_sig_all,
            comp_mask: sys::IBV_QP_INIT_ATTR_PD | sys::IBV_QP_INIT_ATTR_SEND_OPS_FLAGS,
            pd: pd.raw(),
            send_ops_flags: send_ops,
            ..Default::default()
        }
    }
}

impl Qp {
    /// Creates a QP in the RESET state.
    ///
    /// # Errors
    ///
    /// The errno of `ibv_create_qp` or `ibv_create_qp_ex`.
    pub fn create(pd: &Arc<Pd>, init: &QpInit) -> io::Result<Self> {
        if let Some(send_ops) = init.send_ops {
            return Self::create_extended(pd, init, init.extended(pd, send_ops));
        }
        let mut attributes = init.attributes();
        // SAFETY: PD, CQs and SRQ are alive, and the attributes are filled in.
        let raw = object(unsafe { sys::ibv_create_qp(pd.raw(), &raw mut attributes) })?;
        Ok(Self::own(raw, None, pd, init, attributes.cap))
    }

    /// Creates a QP from `init`, but by these attributes.
    ///
    /// # Errors
    ///
    /// The errno of `ibv_create_qp_ex`.
    pub fn create_extended(
        pd: &Arc<Pd>,
        init: &QpInit,
        mut attributes: sys::ibv_qp_init_attr_ex,
    ) -> io::Result<Self> {
        let context = pd.context().raw();
        // SAFETY: PD, CQs and SRQ are alive, and the attributes are filled in.
        let raw = object(unsafe { sys::extended::create_qp_ex(context, &raw mut attributes) })?;
        Ok(Self::own(raw, None, pd, init, attributes.cap))
    }

    /// Creates a QP that belongs to a CM id; librdmacm moves it through its states.
    ///
    /// # Errors
    ///
    /// The errno of `rdma_create_qp` or `rdma_create_qp_ex`.
    pub fn on_cm_id(id: CmId, pd: &Arc<Pd>, init: &QpInit) -> io::Result<Self> {
        let (raw, cap) = if let Some(send_ops) = init.send_ops {
            let mut attributes = init.extended(pd, send_ops);
            (id.create_qp_ex(&mut attributes)?, attributes.cap)
        } else {
            let mut attributes = init.attributes();
            (id.create_qp(pd, &mut attributes)?, attributes.cap)
        };
        Ok(Self::own(raw, Some(id), pd, init, cap))
    }

    fn own(
        raw: NonNull<sys::ibv_qp>,
        cm_id: Option<CmId>,
        pd: &Arc<Pd>,
        init: &QpInit,
        cap: sys::ibv_qp_cap,
    ) -> Self {
        // SAFETY: the QP has just been created; libibverbs does not change its number.
        let number = unsafe { (*raw.as_ptr()).qp_num };
        Self {
            raw,
            number,
            cm_id,
            init: init.clone(),
            answer: Caps {
                send_wr: cap.max_send_wr,
                recv_wr: cap.max_recv_wr,
                send_sge: cap.max_send_sge,
                recv_sge: cap.max_recv_sge,
                inline: cap.max_inline_data,
            },
            _pd: Arc::clone(pd),
        }
    }

    /// The object that libibverbs knows.
    #[must_use]
    pub fn raw(&self) -> *mut sys::ibv_qp {
        self.raw.as_ptr()
    }

    /// The QP number.
    #[must_use]
    pub fn number(&self) -> u32 {
        self.number
    }

    /// The sizes that its creation answered with.
    #[must_use]
    pub fn answer(&self) -> Caps {
        self.answer
    }

    /// The transport service.
    #[must_use]
    pub fn transport(&self) -> Transport {
        self.init.transport
    }

    /// The CM id that the QP belongs to, if any.
    #[must_use]
    pub fn cm_id(&self) -> Option<&CmId> {
        self.cm_id.as_ref()
    }

    /// Changes the attributes that `mask` (`IBV_QP_*`) names.
    ///
    /// # Errors
    ///
    /// The errno of `ibv_modify_qp`.
    pub fn modify(&self, mut attributes: sys::ibv_qp_attr, mask: u32) -> io::Result<()> {
        let mask = c_int::try_from(mask).map_err(io::Error::other)?;
        // SAFETY: the QP is alive, and the attributes are initialised.
        check(unsafe { sys::ibv_modify_qp(self.raw(), &raw mut attributes, mask) })
    }

    /// Moves the QP to `state` (`IBV_QPS_*`), changing nothing else.
    ///
    /// # Errors
    ///
    /// The errno of `ibv_modify_qp`.
    pub fn move_to(&self, state: sys::ibv_qp_state) -> io::Result<()> {
        let attributes = sys::ibv_qp_attr {
            qp_state: state,
            ..Default::default()
        };
        self.modify(attributes, sys::IBV_QP_STATE)
    }

    /// The state that the kernel reports (`IBV_QPS_*`).
    ///
    /// # Errors
    ///
    /// The errno of `ibv_query_qp`.
    pub fn query_state(&self) -> io::Result<sys::ibv_qp_state> {
        self.query_with(sys::IBV_QP_STATE)
            .map(|attributes| attributes.qp_state)
    }

    /// Whether a QP in SQD still has sends to finish; only then may it leave that state.
    ///
    /// # Errors
    ///
    /// The errno of `ibv_query_qp`.
    pub fn is_draining(&self) -> io::Result<bool> {
        self.query_with(sys::IBV_QP_STATE)
            .map(|attributes| attributes.sq_draining != 0)
    }

    fn query_with(&self, mask: u32) -> io::Result<sys::ibv_qp_attr> {
        let mut attributes = MaybeUninit::<sys::ibv_qp_attr>::zeroed();
        let mut init = MaybeUninit::<sys::ibv_qp_init_attr>::zeroed();
        let mask = c_int::try_from(mask).map_err(io::Error::other)?;
        // SAFETY: the QP is alive, and both places are big enough.
        check(unsafe {
            sys::ibv_query_qp(self.raw(), attributes.as_mut_ptr(), mask, init.as_mut_ptr())
        })?;
        // SAFETY: all-zero is a valid value, and the verb has filled in what the mask names.
        Ok(unsafe { attributes.assume_init() })
    }

    /// The state that libibverbs has cached in `ibv_qp`, where an application may look.
    #[must_use]
    pub fn cached_state(&self) -> sys::ibv_qp_state {
        // SAFETY: the QP is alive. Another thread's verb may write the field at this moment, which
        // is as good as before or after.
        unsafe { (&raw const (*self.raw()).state).read_volatile() }
    }

    /// Posts a list of sends.
    ///
    /// # Errors
    ///
    /// What `ibv_post_send` returned, and where `bad_wr` points.
    pub fn post_send(&self, list: &[SendWr<'_>]) -> Result<(), Refused> {
        post(chain_sends(list), |first, bad| {
            // SAFETY: the QP is alive, and `first` heads a well-formed list or is null.
            unsafe { sys::inline::post_send(self.raw(), first, bad) }
        })
    }

    /// Posts a list of receives.
    ///
    /// # Errors
    ///
    /// What `ibv_post_recv` returned, and where `bad_wr` points.
    pub fn post_recv(&self, list: &[RecvWr<'_>]) -> Result<(), Refused> {
        post(chain_recvs(list), |first, bad| {
            // SAFETY: the QP is alive, and `first` heads a well-formed list or is null.
            unsafe { sys::inline::post_recv(self.raw(), first, bad) }
        })
    }
}

impl Qp {
    /// Asks for the destruction of a QP that is still in use, and returns how that is refused.
    ///
    /// # Panics
    ///
    /// If it is not: the QP would be gone.
    #[must_use]
    pub fn destroy_in_use(&self) -> io::Error {
        // SAFETY: the QP is alive. If it is destroyed all the same, the process does not go on.
        match check(unsafe { sys::ibv_destroy_qp(self.raw()) }) {
            Ok(()) => panic!("a QP in use is destroyed"),
            Err(error) => error,
        }
    }
}

impl Drop for Qp {
    fn drop(&mut self) {
        match &self.cm_id {
            Some(id) => id.destroy_qp(),
            // SAFETY: the QP is ours.
            None => destroyed("ibv_destroy_qp", unsafe { sys::ibv_destroy_qp(self.raw()) }),
        }
    }
}
