// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause

//! An open device, and what queue pairs on it are made from.

use std::net::Ipv4Addr;
use std::sync::Arc;

use crate::links::Device;
use crate::suite::Stop;
use crate::verbs::{
    Caps, CmChannel, CmId, Context, Cq, Mr, Pd, QpInit, REMOTE_ACCESS, Td, Transport,
};

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
        match device {
            Device::Rxe => Self::open_directly(device),
            Device::Siw => Self::open_at(device.address()),
        }
    }

    /// Opens the siw device that has `address`.
    ///
    /// # Errors
    ///
    /// A failure of any verb.
    pub fn open_at(address: Ipv4Addr) -> Result<Self, Stop> {
        let id = CmId::create(&CmChannel::create()?)?;
        id.bind(address)?;
        Self::on(Device::Siw, Context::of_cm_id(id)?)
    }

    /// Opens `device` without librdmacm; QPs of such a bench cannot be connected on siw.
    ///
    /// # Errors
    ///
    /// A failure of any verb.
    pub fn open_directly(device: Device) -> Result<Self, Stop> {
        Self::on(device, Context::open(device.ibdev())?)
    }

    fn on(device: Device, context: Arc<Context>) -> Result<Self, Stop> {
        let pd = Pd::alloc(&context)?;
        Ok(Self {
            device,
            context,
            pd,
        })
    }

    /// Makes all that comes in a thread domain: with a parent domain in place of the PD.
    ///
    /// # Errors
    ///
    /// A failure of the verbs.
    pub fn into_thread_domain(mut self) -> Result<Self, Stop> {
        let td = Td::alloc(&self.context, 0)?;
        self.pd = Pd::parent(&self.pd, Some(&td))?;
        Ok(self)
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
            send_ops: None,
        })
    }
}
