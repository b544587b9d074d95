// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause

//! How queue pairs are connected: by hand on rxe, by the connection manager on siw.

use std::net::SocketAddrV4;

use crate::links::Device;
use crate::suite::{Outcome, Stop};
use crate::verbs::{CmChannel, CmId, Qp, QpInit, REMOTE_ACCESS, Transport, route_to, sys};

use super::Bench;

/// The Q_Key of both ends of a datagram pair.
pub const QKEY: u32 = 0x1122_3344;

/// Packet sequence number that each rxe QP starts with; close to the wrap at 2^24.
const FIRST_PSN: u32 = 0x00ff_fff0;

/// Packets carry 1024 bytes: the most that a default Ethernet MTU of 1500 has room for.
pub const PATH_MTU: usize = 1024;

/// How often rxe tries again when nobody answers.
#[derive(Debug, Clone, Copy)]
pub struct Retry {
    /// The time until then is 4.096 µs × 2^`timeout`; 0 means for ever.
    pub timeout: u8,
    /// Number of tries, at most 7.
    pub count: u8,
    /// The same for a peer without a receive; 7 means for ever.
    pub rnr: u8,
}

impl Retry {
    /// 0.27 s, long enough not to fire on a slow machine for nothing; a receiver may be late, but
    /// never fails its sender.
    pub const PATIENT: Self = Self {
        timeout: 16,
        count: 7,
        rnr: 7,
    };

    /// Two tries, 34 ms apart.
    pub const BRIEF: Self = Self {
        timeout: 13,
        count: 2,
        rnr: 2,
    };

    /// Waits for ever for an answer.
    pub const NEVER: Self = Self {
        timeout: 0,
        count: 7,
        rnr: 7,
    };
}

impl Bench {
    /// Creates two QPs and connects them.
    ///
    /// # Errors
    ///
    /// A failure of any verb.
    pub fn connect(&self, a: &QpInit, b: &QpInit) -> Result<(Qp, Qp), Stop> {
        self.connect_watched(a, b, |_| Ok(()))
    }

    /// As [`Self::connect`]; on rxe, the first tries again as `retry` says.
    ///
    /// # Errors
    ///
    /// A failure of any verb.
    pub fn connect_with(&self, a: &QpInit, b: &QpInit, retry: Retry) -> Result<(Qp, Qp), Stop> {
        if self.device == Device::Siw {
            return self.connect(a, b);
        }
        let a = Qp::create(&self.pd, a)?;
        let b = Qp::create(&self.pd, b)?;
        self.bring_up(&a, b.number(), retry)?;
        self.bring_up(&b, a.number(), Retry::PATIENT)?;
        Ok((a, b))
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
                self.to_rtr(&a, b.number())?;
                visit(&a)?;
                self.to_rts(&a, Retry::PATIENT)?;
                self.bring_up(&b, a.number(), Retry::PATIENT)?;
                Ok((a, b))
            }
            Device::Siw => {
                let (listener, port) = self.listen()?;
                let a = self.request(port, a, visit)?;
                let b = self.accept(&listener, b)?;
                await_established(&a)?;
                Ok((a, b))
            }
        }
    }

    /// Creates a QP in the INIT state.
    ///
    /// # Errors
    ///
    /// A failure of any verb.
    pub fn unconnected(&self, init: &QpInit) -> Result<Qp, Stop> {
        match self.device {
            Device::Rxe => {
                let qp = Qp::create(&self.pd, init)?;
                self.to_init(&qp)?;
                Ok(qp)
            }
            // Any port will do: nobody is asked for a connection.
            Device::Siw => self.on_the_way_to(1, init),
        }
    }

    /// Moves an rxe QP from RESET to RTS, with the QP of number `peer` as its peer.
    ///
    /// # Errors
    ///
    /// A failure of the verb.
    pub fn bring_up(&self, qp: &Qp, peer: u32, retry: Retry) -> Outcome {
        self.to_init(qp)?;
        self.to_rtr(qp, peer)?;
        self.to_rts(qp, retry)
    }

    /// Moves an rxe QP from RESET to INIT.
    ///
    /// # Errors
    ///
    /// A failure of the verb.
    pub fn to_init(&self, qp: &Qp) -> Outcome {
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

    /// Moves an rxe QP from INIT to RTR, with the QP of number `peer` as its peer.
    ///
    /// # Errors
    ///
    /// A failure of the verb.
    pub fn to_rtr(&self, qp: &Qp, peer: u32) -> Outcome {
        let attributes = sys::ibv_qp_attr {
            qp_state: sys::IBV_QPS_RTR,
            path_mtu: sys::IBV_MTU_1024,
            dest_qp_num: peer,
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
    pub fn to_rts(&self, qp: &Qp, retry: Retry) -> Outcome {
        let attributes = sys::ibv_qp_attr {
            qp_state: sys::IBV_QPS_RTS,
            sq_psn: FIRST_PSN,
            timeout: retry.timeout,
            retry_cnt: retry.count,
            rnr_retry: retry.rnr,
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

    /// Listens on a free port of the siw device's address.
    ///
    /// # Errors
    ///
    /// A failure of any verb.
    pub fn listen(&self) -> Result<(CmId, u16), Stop> {
        let listener = CmId::create(&CmChannel::create()?)?;
        listener.bind(self.device.address())?;
        let port = listener.listen()?;
        Ok((listener, port))
    }

    /// Asks the listener at `port` for a connection of a new siw QP, which `visit` sees before.
    /// [`await_established`] says when it is there.
    ///
    /// # Errors
    ///
    /// A failure of any verb or of `visit`.
    pub fn request(
        &self,
        port: u16,
        init: &QpInit,
        visit: impl Fn(&Qp) -> Outcome,
    ) -> Result<Qp, Stop> {
        let qp = self.on_the_way_to(port, init)?;
        visit(&qp)?;
        owner(&qp)?.connect()?;
        Ok(qp)
    }

    fn on_the_way_to(&self, port: u16, init: &QpInit) -> Result<Qp, Stop> {
        let client = CmId::create(&CmChannel::create()?)?;
        client.resolve(SocketAddrV4::new(self.device.address(), port))?;
        Ok(Qp::on_cm_id(client, &self.pd, init)?)
    }

    /// Accepts the next request for a connection with a new siw QP.
    ///
    /// # Errors
    ///
    /// A failure of any verb.
    pub fn accept(&self, listener: &CmId, init: &QpInit) -> Result<Qp, Stop> {
        let qp = Qp::on_cm_id(listener.next_request()?, &self.pd, init)?;
        owner(&qp)?.accept()?;
        await_established(&qp)?;
        Ok(qp)
    }
}

/// Waits until the connection of a siw QP is established.
///
/// # Errors
///
/// That it is not, or not in time.
pub fn await_established(qp: &Qp) -> Outcome {
    drop(
        owner(qp)?
            .channel()
            .expect(sys::RDMA_CM_EVENT_ESTABLISHED)?,
    );
    Ok(())
}

/// The CM id of a siw QP.
///
/// # Errors
///
/// That it has none.
pub fn owner(qp: &Qp) -> Result<&CmId, Stop> {
    qp.cm_id()
        .ok_or_else(|| Stop::Fail("a QP without a CM id".to_owned()))
}
