// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause

//! Two connected queue pairs in one process.

mod bench;
mod connect;

use std::sync::Arc;

use crate::links::Device;
use crate::suite::Stop;
use crate::verbs::{Caps, Cq, Qp, QpInit, Transport};

pub use bench::Bench;
pub use connect::{PATH_MTU, QKEY, Retry, await_established, owner};

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
