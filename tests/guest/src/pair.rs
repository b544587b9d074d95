// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause

//! Two connected queue pairs in one process.

use std::net::SocketAddrV4;
use std::sync::Arc;

use crate::links::Device;
use crate::suite::{Outcome, Stop};
use crate::verbs::{
    Caps, CmChannel, CmId, Context, Cq, Mr, Pd, Qp, QpInit, REMOTE_ACCESS, Transport, route_to, sys,
};

/// The Q_Key of both ends of a datagram pair.
pub const QKEY: u32 = 0x1122_3344;

/// Packet sequence number that each rxe QP starts with; close to the wrap at 2^24.
const FIRST_PSN: u32 = 0x00ff_fff0;

/// Packets carry 1024 bytes: the most that a default Ethernet MTU of 1500 has room for.
pub const PATH_MTU: usize = 1024;

/// An open device with a protection domain: what everything else is made from.
#[derive(Debug)]
pub struct Bench {
    /// The driver.
    pub device: Device,
    /// The open device. On siw it is librdmacm's, whose QPs accept only objects of that.
    pub context: Arc<Context>,
    /// The protection domain.
    pub pd: Arc<Pd>,
}

impl Bench {
    /// Opens `device`.
    ///
    /// # Errors
    ///
    /// A failure of any verb.
    pub fn open(device: Device) -> Result<Self, Stop> {
        let context = match device {
            Device::Rxe => Context::open(device.ibdev())?,
            Device::Siw => {
                let id = CmId::create(&CmChannel::create()?)?;
                id.bind(device.address())?;
                Context::of_cm_id(id)?
            }
        };
        let pd = Pd::alloc(&context)?;
        Ok(Self {
            device,
            context,
            pd,
        })
    }

    /// Opens `device` without librdmacm; QPs of such a bench cannot be connected on siw.
    ///
    /// # Errors
    ///
    /// A failure of any verb.
    pub fn open_directly(device: Device) -> Result<Self, Stop> {
        let context = Context::open(device.ibdev())?;
        let pd = Pd::alloc(&context)?;
        Ok(Self {
            device,
            context,
            pd,
        })
    }

    /// Registers `len` bytes with every access right.
    ///
    /// # Errors
    ///
    /// A failure of the verb.
    pub fn memory(&self, len: usize) -> Result<Mr, Stop> {
        Ok(Mr::register(&self.pd, len, REMOTE_ACCESS)?)
    }

    /// Creates a CQ.
    ///
    /// # Errors
    ///
    /// A failure of the verb.
    pub fn cq(&self, entries: usize) -> Result<Arc<Cq>, Stop> {
        Ok(Cq::create(&self.context, entries)?)
    }

    /// What a QP with CQs of its own is created from.
    ///
    /// # Errors
    ///
    /// A failure to create the CQs.
    pub fn init(&self, transport: Transport, caps: Caps) -> Result<QpInit, Stop> {
        Ok(QpInit {
            transport,
            send_cq: self.cq(caps.send_wr as usize)?,
            recv_cq: self.cq(caps.recv_wr as usize)?,
            srq: None,
            caps,
            signal_all: false,
        })
    }

    /// Creates two QPs and connects them.
    ///
    /// # Errors
    ///
    /// A failure of any verb.
    pub fn connect(&self, a: &QpInit, b: &QpInit) -> Result<(Qp, Qp), Stop> {
        self.connect_watched(a, b, |_| Ok(()))
    }

    /// As [`Self::connect`], but calls `visit` with the first QP in each state that it passes
    /// before RTS: RESET, INIT and RTR on rxe; on siw, where librdmacm moves it, INIT only.
    ///
    /// # Errors
    ///
    /// A failure of any verb or of `visit`.
    pub fn connect_watched(
        &self,
        a: &QpInit,
        b: &QpInit,
        visit: impl Fn(&Qp) -> Outcome,
    ) -> Result<(Qp, Qp), Stop> {
        match self.device {
            Device::Rxe => {
                let a = Qp::create(&self.pd, a)?;
                let b = Qp::create(&self.pd, b)?;
                visit(&a)?;
                self.to_init(&a)?;
                visit(&a)?;
                self.to_rtr(&a, &b)?;
                visit(&a)?;
                self.to_rts(&a)?;
                self.to_init(&b)?;
                self.to_rtr(&b, &a)?;
                self.to_rts(&b)?;
                Ok((a, b))
            }
            Device::Siw => self.connect_by_cm(a, b, visit),
        }
    }

    /// Moves an rxe QP from RESET to INIT.
    ///
    /// # Errors
    ///
    /// A failure of the verb.
    pub fn to_init(&self, qp: &Qp) -> Result<(), Stop> {
        let attributes = sys::ibv_qp_attr {
            qp_state: sys::IBV_QPS_INIT,
            port_num: 1,
            qkey: QKEY,
            qp_access_flags: REMOTE_ACCESS,
            ..Default::default()
        };
        let own = match qp.transport() {
            Transport::Ud => sys::IBV_QP_QKEY,
            Transport::Rc | Transport::Uc => sys::IBV_QP_ACCESS_FLAGS,
        };
        let mask = sys::IBV_QP_STATE | sys::IBV_QP_PKEY_INDEX | sys::IBV_QP_PORT | own;
        Ok(qp.modify(attributes, mask)?)
    }

    /// Moves an rxe QP from INIT to RTR, with `peer` as its peer.
    ///
    /// # Errors
    ///
    /// A failure of the verb.
    pub fn to_rtr(&self, qp: &Qp, peer: &Qp) -> Result<(), Stop> {
        let attributes = sys::ibv_qp_attr {
            qp_state: sys::IBV_QPS_RTR,
            path_mtu: sys::IBV_MTU_1024,
            dest_qp_num: peer.number(),
            rq_psn: FIRST_PSN,
            ah_attr: route_to(&self.pd, self.device.address())?,
            max_dest_rd_atomic: 16,
            min_rnr_timer: 1,
            ..Default::default()
        };
        let connected =
            sys::IBV_QP_AV | sys::IBV_QP_PATH_MTU | sys::IBV_QP_DEST_QPN | sys::IBV_QP_RQ_PSN;
        let reliable = sys::IBV_QP_MAX_DEST_RD_ATOMIC | sys::IBV_QP_MIN_RNR_TIMER;
        let mask = match qp.transport() {
            Transport::Rc => sys::IBV_QP_STATE | connected | reliable,
            Transport::Uc => sys::IBV_QP_STATE | connected,
            Transport::Ud => sys::IBV_QP_STATE,
        };
        Ok(qp.modify(attributes, mask)?)
    }

    /// Moves an rxe QP from RTR to RTS.
    ///
    /// # Errors
    ///
    /// A failure of the verb.
    pub fn to_rts(&self, qp: &Qp) -> Result<(), Stop> {
        let attributes = sys::ibv_qp_attr {
            qp_state: sys::IBV_QPS_RTS,
            sq_psn: FIRST_PSN,
            // 4.096 µs × 2^16 ≈ 0.27 s: long enough not to fire on a slow machine for nothing.
            timeout: 16,
            retry_cnt: 7,
            // Seven means for ever: a receiver may be late, but never fails its sender.
            rnr_retry: 7,
            max_rd_atomic: 16,
            ..Default::default()
        };
        let reliable = sys::IBV_QP_TIMEOUT
            | sys::IBV_QP_RETRY_CNT
            | sys::IBV_QP_RNR_RETRY
            | sys::IBV_QP_MAX_QP_RD_ATOMIC;
        let mask = sys::IBV_QP_STATE | sys::IBV_QP_SQ_PSN;
        let mask = if qp.transport() == Transport::Rc {
            mask | reliable
        } else {
            mask
        };
        Ok(qp.modify(attributes, mask)?)
    }

    fn connect_by_cm(
        &self,
        a: &QpInit,
        b: &QpInit,
        visit: impl Fn(&Qp) -> Outcome,
    ) -> Result<(Qp, Qp), Stop> {
        let listener = CmId::create(&CmChannel::create()?)?;
        listener.bind(self.device.address())?;
        let port = listener.listen()?;
        let client = CmId::create(&CmChannel::create()?)?;
        client.resolve(SocketAddrV4::new(self.device.address(), port))?;
        let a = Qp::on_cm_id(client, &self.pd, a)?;
        visit(&a)?;
        let client = owner(&a)?;
        client.connect()?;
        let b = Qp::on_cm_id(listener.next_request()?, &self.pd, b)?;
        let server = owner(&b)?;
        server.accept()?;
        drop(client.channel().expect(sys::RDMA_CM_EVENT_ESTABLISHED)?);
        drop(server.channel().expect(sys::RDMA_CM_EVENT_ESTABLISHED)?);
        Ok((a, b))
    }
}

fn owner(qp: &Qp) -> Result<&CmId, Stop> {
    qp.cm_id()
        .ok_or_else(|| Stop::Fail("a QP without a CM id".to_owned()))
}

/// One end of a [`Pair`].
#[derive(Debug)]
pub struct End {
    /// The QP.
    pub qp: Qp,
    /// The CQ of its sends.
    pub send_cq: Arc<Cq>,
    /// The CQ of its receives.
    pub recv_cq: Arc<Cq>,
}

/// Two connected QPs on one device, each with two CQs of its own.
///
/// On rxe they are connected by hand; on siw, where only the connection manager can do it, by a
/// listener and a client in this process, each with an event channel of its own.
#[derive(Debug)]
pub struct Pair {
    /// What the QPs are made from.
    pub bench: Bench,
    /// The end that has connected.
    pub a: End,
    /// The end that was connected to.
    pub b: End,
}

impl Pair {
    /// Connects two QPs of the default sizes.
    ///
    /// # Errors
    ///
    /// A failure of any verb.
    pub fn new(device: Device, transport: Transport) -> Result<Self, Stop> {
        Self::with(device, transport, Caps::default())
    }

    /// Connects two QPs of the given sizes.
    ///
    /// # Errors
    ///
    /// A failure of any verb.
    pub fn with(device: Device, transport: Transport, caps: Caps) -> Result<Self, Stop> {
        let bench = Bench::open(device)?;
        let (a, b) = (bench.init(transport, caps)?, bench.init(transport, caps)?);
        Self::of(bench, a, b)
    }

    /// Connects two QPs made from `a` and `b`.
    ///
    /// # Errors
    ///
    /// A failure of any verb.
    pub fn of(bench: Bench, a: QpInit, b: QpInit) -> Result<Self, Stop> {
        let (qp_a, qp_b) = bench.connect(&a, &b)?;
        Ok(Self {
            bench,
            a: End {
                qp: qp_a,
                send_cq: a.send_cq,
                recv_cq: a.recv_cq,
            },
            b: End {
                qp: qp_b,
                send_cq: b.send_cq,
                recv_cq: b.recv_cq,
            },
        })
    }

    /// Both directions: from `a` to `b`, and back.
    #[must_use]
    pub fn directions(&self) -> [(&End, &End); 2] {
        [(&self.a, &self.b), (&self.b, &self.a)]
    }
}
