// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause

//! The address vector of a datagram.

use crate::layout::assert_layout;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// Network of an address vector (`RXE_NETWORK_TYPE_*`).
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[repr(u8)]
pub enum NetworkType {
    /// RoCE v2 over IPv4.
    Ipv4 = 1,
    /// RoCE v2 over IPv6.
    Ipv6 = 2,
}

/// Global route (`struct rxe_global_route`).
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
#[repr(C, align(8))]
#[derive(FromBytes, Immutable, IntoBytes, KnownLayout)]
pub struct GlobalRoute {
    /// GID of the peer, network order.
    pub dgid: [u8; 16],
    /// Flow label.
    pub flow_label: u32,
    /// Index of the local GID.
    pub sgid_index: u8,
    /// Hop limit.
    pub hop_limit: u8,
    /// Traffic class.
    pub traffic_class: u8,
    /// Padding of the C struct; zero.
    pub pad: u8,
}

assert_layout!(GlobalRoute, size 24, align 8, {
    dgid: 0, flow_label: 16, sgid_index: 20, hop_limit: 21, traffic_class: 22, pad: 23,
});

/// A `struct sockaddr_in` or `struct sockaddr_in6`, padded to the larger.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
#[repr(C, align(4))]
#[derive(FromBytes, Immutable, IntoBytes, KnownLayout)]
pub struct SocketAddress {
    /// `AF_INET` or `AF_INET6`.
    pub family: u16,
    /// Port, network order; the driver does not read it.
    pub port: u16,
    /// IPv4: the address in the first 4 bytes. IPv6: flow information, then the address at 4.
    pub rest: [u8; 24],
}

assert_layout!(SocketAddress, size 28, align 4, { family: 0, port: 2, rest: 4 });

/// Address vector (`struct rxe_av`).
///
/// A provider that knows the number of the address handle leaves it zero: the kernel reads it only
/// if [`UdWr::ah_num`](super::UdWr::ah_num) is zero (linux 6.1
/// `drivers/infiniband/sw/rxe/rxe_av.c`: `rxe_get_av`).
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
#[repr(C)]
#[derive(FromBytes, Immutable, IntoBytes, KnownLayout)]
pub struct Av {
    /// Local port.
    pub port_num: u8,
    /// A [`NetworkType`].
    pub network_type: u8,
    /// Ethernet address of the next hop.
    pub dmac: [u8; 6],
    /// Global route.
    pub grh: GlobalRoute,
    /// Source address.
    pub sgid_addr: SocketAddress,
    /// Destination address.
    pub dgid_addr: SocketAddress,
}

assert_layout!(Av, size 88, align 8, {
    port_num: 0, network_type: 1, dmac: 2, grh: 8, sgid_addr: 32, dgid_addr: 60,
});
