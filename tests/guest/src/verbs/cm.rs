// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause

//! Connection management with librdmacm, which iWARP cannot do without.

use std::ffi::{CStr, c_int};
use std::fmt;
use std::io;
use std::mem;
use std::net::{Ipv4Addr, SocketAddrV4};
use std::ptr::NonNull;
use std::sync::Arc;
use std::time::Duration;

use super::context::none;
use super::{Pd, check, destroyed, object, readable, sys};

/// How long address and route resolution may take, in milliseconds.
const RESOLVE_MS: c_int = 5000;

/// How long a CM event may take.
const CM_PATIENCE: Duration = Duration::from_secs(8);

/// An event channel, `rdma_event_channel`.
#[derive(Debug)]
pub struct CmChannel {
    raw: NonNull<sys::rdma_event_channel>,
}

// SAFETY: librdmacm allows any thread to use a channel, and the wrapper holds no other state.
unsafe impl Send for CmChannel {}
// SAFETY: as above.
unsafe impl Sync for CmChannel {}

/// A CM event, `rdma_cm_event`; dropping it acknowledges it.
pub struct CmEvent {
    raw: NonNull<sys::rdma_cm_event>,
}

/// A CM id, `rdma_cm_id`: the socket of the connection manager.
#[derive(Debug)]
pub struct CmId {
    raw: NonNull<sys::rdma_cm_id>,
    channel: Arc<CmChannel>,
}

// SAFETY: librdmacm allows any thread to use an id, and the wrapper holds no other state.
unsafe impl Send for CmId {}
// SAFETY: as above.
unsafe impl Sync for CmId {}

impl CmChannel {
    /// Creates a channel.
    ///
    /// # Errors
    ///
    /// The errno of `rdma_create_event_channel`.
    pub fn create() -> io::Result<Arc<Self>> {
        // SAFETY: the function takes nothing.
        let raw = object(unsafe { sys::rdma_create_event_channel() })?;
        Ok(Arc::new(Self { raw }))
    }

    /// The next event, or `None` if none comes within `limit`.
    ///
    /// # Errors
    ///
    /// The errno of poll(2) or of `rdma_get_cm_event`.
    pub fn next_event(&self, limit: Duration) -> io::Result<Option<CmEvent>> {
        // SAFETY: the channel is alive; librdmacm does not change the descriptor.
        if !readable(unsafe { (*self.raw.as_ptr()).fd }, limit)? {
            return Ok(None);
        }
        let mut event = none();
        // SAFETY: the channel is alive, and `event` is a valid place for a pointer.
        check(unsafe { sys::rdma_get_cm_event(self.raw.as_ptr(), &raw mut event) })?;
        Ok(Some(CmEvent {
            raw: object(event)?,
        }))
    }

    /// Takes the next event, which must be of `kind` (`RDMA_CM_EVENT_*`).
    ///
    /// # Errors
    ///
    /// `TimedOut` if none comes; `Other` if another one does.
    pub fn expect(&self, kind: sys::rdma_cm_event_type) -> io::Result<CmEvent> {
        match self.next_event(CM_PATIENCE)? {
            Some(event) if event.kind() == kind => Ok(event),
            Some(event) => Err(io::Error::other(format!(
                "{event:?} instead of {}",
                name(kind)
            ))),
            None => Err(io::Error::new(
                io::ErrorKind::TimedOut,
                format!("no {} within {CM_PATIENCE:?}", name(kind)),
            )),
        }
    }
}

impl Drop for CmChannel {
    fn drop(&mut self) {
        // SAFETY: the channel is ours, and every id on it holds an `Arc` of it.
        unsafe { sys::rdma_destroy_event_channel(self.raw.as_ptr()) };
    }
}

fn name(kind: sys::rdma_cm_event_type) -> String {
    // SAFETY: librdmacm returns a constant string for every value.
    unsafe { CStr::from_ptr(sys::rdma_event_str(kind)) }
        .to_string_lossy()
        .into_owned()
}

impl CmEvent {
    /// What has happened: `RDMA_CM_EVENT_*`.
    #[must_use]
    pub fn kind(&self) -> sys::rdma_cm_event_type {
        // SAFETY: the event is valid until it is acknowledged.
        unsafe { (*self.raw.as_ptr()).event }
    }

    /// The new id of a connection request, on the channel of the listener.
    fn new_id(&self) -> io::Result<NonNull<sys::rdma_cm_id>> {
        // SAFETY: as above.
        object(unsafe { (*self.raw.as_ptr()).id })
    }
}

impl fmt::Debug for CmEvent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // SAFETY: as above.
        let status = unsafe { (*self.raw.as_ptr()).status };
        write!(f, "{} (status {status})", name(self.kind()))
    }
}

impl Drop for CmEvent {
    fn drop(&mut self) {
        // SAFETY: the event is ours, and not yet acknowledged.
        destroyed("rdma_ack_cm_event", unsafe {
            sys::rdma_ack_cm_event(self.raw.as_ptr())
        });
    }
}

impl CmId {
    /// Creates an id whose events go to `channel`.
    ///
    /// # Errors
    ///
    /// The errno of `rdma_create_id`.
    pub fn create(channel: &Arc<CmChannel>) -> io::Result<Self> {
        let mut id = none();
        // SAFETY: the channel is alive, and `id` is a valid place for a pointer.
        check(unsafe {
            sys::rdma_create_id(channel.raw.as_ptr(), &raw mut id, none(), sys::RDMA_PS_TCP)
        })?;
        Ok(Self {
            raw: object(id)?,
            channel: Arc::clone(channel),
        })
    }

    /// The channel of its events.
    #[must_use]
    pub fn channel(&self) -> &Arc<CmChannel> {
        &self.channel
    }

    /// The device that the id is bound to, if any.
    #[must_use]
    pub fn verbs(&self) -> Option<NonNull<sys::ibv_context>> {
        // SAFETY: the id is alive; librdmacm sets the pointer when it binds the id.
        NonNull::new(unsafe { (*self.raw.as_ptr()).verbs })
    }

    /// Binds the id to a free port of `address`, and so to the device that has it.
    ///
    /// # Errors
    ///
    /// The errno of `rdma_bind_addr`.
    pub fn bind(&self, address: Ipv4Addr) -> io::Result<()> {
        let mut address = socket_address(SocketAddrV4::new(address, 0));
        // SAFETY: the id is alive, and the address is a valid IPv4 address of that family.
        check(unsafe { sys::rdma_bind_addr(self.raw.as_ptr(), (&raw mut address).cast()) })
    }

    /// Starts to listen; returns the port.
    ///
    /// # Errors
    ///
    /// The errno of `rdma_listen`.
    pub fn listen(&self) -> io::Result<u16> {
        // SAFETY: the id is alive.
        check(unsafe { sys::rdma_listen(self.raw.as_ptr(), 1) })?;
        // SAFETY: the id is alive and bound.
        Ok(u16::from_be(unsafe {
            sys::rdma_get_src_port(self.raw.as_ptr())
        }))
    }

    /// Waits for a connection request.
    ///
    /// # Errors
    ///
    /// As [`CmChannel::expect`].
    pub fn next_request(&self) -> io::Result<Self> {
        let request = self.channel.expect(sys::RDMA_CM_EVENT_CONNECT_REQUEST)?;
        Ok(Self {
            raw: request.new_id()?,
            channel: Arc::clone(&self.channel),
        })
    }

    /// Finds the way to `peer` and binds the id to the device that leads there.
    ///
    /// # Errors
    ///
    /// The errno of `rdma_resolve_addr` or `rdma_resolve_route`, or as [`CmChannel::expect`].
    pub fn resolve(&self, peer: SocketAddrV4) -> io::Result<()> {
        let mut peer = socket_address(peer);
        let peer = (&raw mut peer).cast();
        // SAFETY: the id is alive, and the address is a valid IPv4 address of that family.
        check(unsafe { sys::rdma_resolve_addr(self.raw.as_ptr(), none(), peer, RESOLVE_MS) })?;
        drop(self.channel.expect(sys::RDMA_CM_EVENT_ADDR_RESOLVED)?);
        // SAFETY: the id is alive, and its address resolved.
        check(unsafe { sys::rdma_resolve_route(self.raw.as_ptr(), RESOLVE_MS) })?;
        drop(self.channel.expect(sys::RDMA_CM_EVENT_ROUTE_RESOLVED)?);
        Ok(())
    }

    /// Sends a connection request for the id's QP.
    ///
    /// # Errors
    ///
    /// The errno of `rdma_connect`.
    pub fn connect(&self) -> io::Result<()> {
        let mut parameters = parameters();
        // SAFETY: the id is alive, and the parameters are filled in.
        check(unsafe { sys::rdma_connect(self.raw.as_ptr(), &raw mut parameters) })
    }

    /// Accepts the request that the id stands for.
    ///
    /// # Errors
    ///
    /// The errno of `rdma_accept`.
    pub fn accept(&self) -> io::Result<()> {
        let mut parameters = parameters();
        // SAFETY: the id is alive, and the parameters are filled in.
        check(unsafe { sys::rdma_accept(self.raw.as_ptr(), &raw mut parameters) })
    }

    /// Closes the connection.
    ///
    /// # Errors
    ///
    /// The errno of `rdma_disconnect`.
    pub fn disconnect(&self) -> io::Result<()> {
        // SAFETY: the id is alive.
        check(unsafe { sys::rdma_disconnect(self.raw.as_ptr()) })
    }

    pub(super) fn create_qp(
        &self,
        pd: &Pd,
        init: &mut sys::ibv_qp_init_attr,
    ) -> io::Result<NonNull<sys::ibv_qp>> {
        // SAFETY: the id is alive, and so is all that the attributes name.
        check(unsafe { sys::rdma_create_qp(self.raw.as_ptr(), pd.raw(), init) })?;
        // SAFETY: the id is alive, and `rdma_create_qp` has set the pointer.
        object(unsafe { (*self.raw.as_ptr()).qp })
    }

    pub(super) fn create_qp_ex(
        &self,
        init: &mut sys::ibv_qp_init_attr_ex,
    ) -> io::Result<NonNull<sys::ibv_qp>> {
        // SAFETY: the id is alive, and so is all that the attributes name.
        check(unsafe { sys::rdma_create_qp_ex(self.raw.as_ptr(), init) })?;
        // SAFETY: the id is alive, and `rdma_create_qp_ex` has set the pointer.
        object(unsafe { (*self.raw.as_ptr()).qp })
    }

    pub(super) fn destroy_qp(&self) {
        // SAFETY: the id is alive and has a QP.
        unsafe { sys::rdma_destroy_qp(self.raw.as_ptr()) };
    }
}

impl Drop for CmId {
    fn drop(&mut self) {
        // SAFETY: the id is ours. Its QP, if it had one, has been destroyed: `Qp` owns the id.
        destroyed("rdma_destroy_id", unsafe {
            sys::rdma_destroy_id(self.raw.as_ptr())
        });
    }
}

/// Room for 16 READs in either direction; the rest means nothing to iWARP.
fn parameters() -> sys::rdma_conn_param {
    sys::rdma_conn_param {
        private_data: none::<std::ffi::c_void>().cast_const(),
        private_data_len: 0,
        responder_resources: 16,
        initiator_depth: 16,
        flow_control: 0,
        retry_count: 7,
        rnr_retry_count: 7,
        srq: 0,
        qp_num: 0,
    }
}

/// `AF_INET` in the width that `sockaddr_in` stores.
const AF_INET: libc::sa_family_t = 2;

fn socket_address(address: SocketAddrV4) -> libc::sockaddr_in {
    // SAFETY: `sockaddr_in` consists of integers, for which zero is a value.
    let mut raw: libc::sockaddr_in = unsafe { mem::zeroed() };
    raw.sin_family = AF_INET;
    raw.sin_port = address.port().to_be();
    raw.sin_addr.s_addr = u32::from(*address.ip()).to_be();
    raw
}
