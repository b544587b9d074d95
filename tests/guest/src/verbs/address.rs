// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause

//! Address handles and the path to a GID.

use std::io;
use std::net::Ipv4Addr;
use std::ptr::NonNull;
use std::sync::Arc;

use super::{Pd, destroyed, object, sys};

/// An address handle, `ibv_ah`.
#[derive(Debug)]
pub struct Ah {
    raw: NonNull<sys::ibv_ah>,
    _pd: Arc<Pd>,
}

/// The path from port 1 of the device of `pd` to `address` on the same device.
///
/// # Errors
///
/// `NotFound` if the device has no GID of that address.
pub fn route_to(pd: &Pd, address: Ipv4Addr) -> io::Result<sys::ibv_ah_attr> {
    let (sgid_index, dgid) = pd.context().gid_index(address)?;
    Ok(route(sgid_index, dgid))
}

/// The path from port 1 of the device of `pd`, whose address is `from`, to a multicast group.
///
/// # Errors
///
/// `NotFound` if the device has no GID of that address.
pub fn route_to_group(pd: &Pd, from: Ipv4Addr, group: Ipv4Addr) -> io::Result<sys::ibv_ah_attr> {
    let (sgid_index, _) = pd.context().gid_index(from)?;
    Ok(route(sgid_index, gid_of(group)))
}

/// The GID of an IPv4 address, or group, in RoCEv2.
#[must_use]
pub fn gid_of(address: Ipv4Addr) -> sys::ibv_gid {
    sys::ibv_gid {
        raw: address.to_ipv6_mapped().octets(),
    }
}

fn route(sgid_index: u8, dgid: sys::ibv_gid) -> sys::ibv_ah_attr {
    let grh = sys::ibv_global_route {
        dgid,
        sgid_index,
        hop_limit: 64,
        flow_label: 0,
        traffic_class: 0,
    };
    sys::ibv_ah_attr {
        grh,
        is_global: 1,
        port_num: 1,
        ..Default::default()
    }
}

impl Ah {
    /// Creates an address handle for `address` on the same device.
    ///
    /// # Errors
    ///
    /// As [`route_to`], or the errno of `ibv_create_ah`.
    pub fn create(pd: &Arc<Pd>, address: Ipv4Addr) -> io::Result<Self> {
        Self::by(pd, route_to(pd, address)?)
    }

    /// Creates an address handle for a path.
    ///
    /// # Errors
    ///
    /// The errno of `ibv_create_ah`.
    pub fn by(pd: &Arc<Pd>, mut attributes: sys::ibv_ah_attr) -> io::Result<Self> {
        // SAFETY: the PD is alive, and the attributes are filled in.
        let raw = object(unsafe { sys::ibv_create_ah(pd.raw(), &raw mut attributes) })?;
        Ok(Self {
            raw,
            _pd: Arc::clone(pd),
        })
    }

    /// The object that libibverbs knows.
    #[must_use]
    pub fn raw(&self) -> *mut sys::ibv_ah {
        self.raw.as_ptr()
    }
}

impl Drop for Ah {
    fn drop(&mut self) {
        // SAFETY: the handle is ours.
        destroyed("ibv_destroy_ah", unsafe { sys::ibv_destroy_ah(self.raw()) });
    }
}
