// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause

//! Theme `mcast`: what is sent to a group arrives once at each QP that is attached to it, and at no other.

mod limits;
mod membership;
mod traffic;

use std::net::{Ipv4Addr, UdpSocket};
use std::sync::Arc;

use guest::links::Device;
use guest::pair::{Bench, QKEY, Retry};
use guest::payload::message;
use guest::suite::{Outcome, Stop, Suite};
use guest::verbs::{
    Ah, Caps, Cq, Mr, Qp, QpInit, RecvWr, SendWr, Transport, errno, gid_of, route_to_group, sys,
};

/// The group, from MCAST-TEST-NET (RFC 6676).
const GROUP: Ipv4Addr = Ipv4Addr::new(233, 252, 0, 1);

/// The QP number of all multicast packets.
const EVERY_MEMBER: u32 = 0x00ff_ffff;

/// Bytes of a message.
const LEN: usize = 8;

/// Bytes in front of each datagram: a GRH, or the IPv4 header in its last 20 bytes.
const GRH: usize = 40;

/// Adds the cases of this theme.
pub(crate) fn add(suite: &mut Suite) {
    traffic::add(suite);
    membership::add(suite);
    limits::add(suite);
    suite.case("mcast/siw/refused", refused_by_siw);
}

/// iWARP has no datagrams.
fn refused_by_siw() -> Outcome {
    let bench = Bench::open_directly(Device::Siw)?;
    let qp = Qp::create(&bench.pd, &bench.init(Transport::Rc, Caps::default())?)?;
    for done in [
        qp.attach_mcast(&gid_of(GROUP), 0),
        qp.detach_mcast(&gid_of(GROUP), 0),
    ] {
        assert_eq!(errno(done), Some(libc::EOPNOTSUPP));
    }
    Ok(())
}

/// A device that has joined [`GROUP`], so that its network gives it the group's packets, and a QP that
/// sends.
struct Hall {
    bench: Bench,
    group: Ah,
    sender: Guest,
    from: Mr,
    _joined: UdpSocket,
}

/// A QP that may hear what is said to the group.
struct Guest {
    qp: Qp,
    send_cq: Arc<Cq>,
    recv_cq: Arc<Cq>,
    to: Mr,
}

impl Hall {
    fn open() -> Result<Self, Stop> {
        let device = Device::Rxe;
        let joined = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0))?;
        joined.join_multicast_v4(&GROUP, &device.address())?;
        let bench = Bench::open(device)?;
        let route = route_to_group(&bench.pd, device.address(), GROUP)?;
        Ok(Self {
            group: Ah::by(&bench.pd, route)?,
            sender: Guest::of(&bench)?,
            from: bench.memory(LEN)?,
            bench,
            _joined: joined,
        })
    }

    fn guest(&self) -> Result<Guest, Stop> {
        Guest::of(&self.bench)
    }

    /// Attaches guests to the group, and detaches them at the end, whatever that is: as long as they
    /// are attached they cannot be destroyed.
    fn with_members(&self, guests: &[&Guest], act: impl FnOnce() -> Outcome) -> Outcome {
        for guest in guests {
            guest.qp.attach_mcast(&gid_of(GROUP), 0)?;
        }
        let outcome = act();
        for guest in guests {
            guest.qp.detach_mcast(&gid_of(GROUP), 0)?;
        }
        outcome
    }

    /// Sends a message of a number to the group, and waits until it is sent.
    fn say(&self, number: u64) -> Outcome {
        self.send(number, &self.group, EVERY_MEMBER)
    }

    /// Sends a message to one of the guests.
    fn whisper(&self, number: u64, to: &Guest) -> Outcome {
        let ah = Ah::create(&self.bench.pd, self.bench.device.address())?;
        self.send(number, &ah, to.qp.number())
    }

    fn send(&self, number: u64, ah: &Ah, qpn: u32) -> Outcome {
        self.from.write(0, &message(number, LEN));
        let send = SendWr::send(&[self.from.sge(0, LEN)]).to(ah, qpn, QKEY);
        let qp = &self.sender.qp;
        qp.post_send(&[send.id(number).signaled()])?;
        assert_eq!(self.sender.send_cq.take_one()?.ok().wr_id, number);
        Ok(())
    }

    /// Each guest hears these messages next, each once, and no others: what is whispered to it
    /// afterwards would come behind them.
    fn have_heard(&self, guests: &[(&Guest, &[u64])]) -> Outcome {
        const MARKER: u64 = 0xffff;
        for (guest, numbers) in guests {
            for number in *numbers {
                self.heard(guest, *number)?;
            }
        }
        for (guest, _) in guests {
            self.whisper(MARKER, guest)?;
            self.heard(guest, MARKER)?;
        }
        Ok(())
    }

    fn heard(&self, guest: &Guest, number: u64) -> Outcome {
        let received = guest.recv_cq.take_one()?.ok();
        assert_eq!(guest.to.read(GRH..GRH + LEN), message(number, LEN));
        assert_eq!(received.byte_len as usize, GRH + LEN);
        assert_eq!(received.src_qp, self.sender.qp.number());
        assert_eq!(received.qp_num, guest.qp.number());
        assert_eq!(received.wc_flags & sys::IBV_WC_GRH, sys::IBV_WC_GRH);
        guest.listen(1)
    }
}

impl Guest {
    /// Opens one that is in RTS and has a receive posted.
    fn of(bench: &Bench) -> Result<Self, Stop> {
        let caps = Caps {
            send_wr: 4,
            recv_wr: 4,
            ..Caps::default()
        };
        let init = bench.init(Transport::Ud, caps)?;
        let QpInit {
            send_cq, recv_cq, ..
        } = init.clone();
        let guest = Self {
            qp: Qp::create(&bench.pd, &init)?,
            send_cq,
            recv_cq,
            to: bench.memory(GRH + LEN)?,
        };
        bench.bring_up(&guest.qp, 0, Retry::PATIENT)?;
        guest.listen(1)?;
        Ok(guest)
    }

    /// Posts receives, all for the same place.
    fn listen(&self, count: u64) -> Outcome {
        let recvs: Vec<_> = (0..count)
            .map(|at| RecvWr::new(at, &[self.to.sge(0, GRH + LEN)]))
            .collect();
        Ok(self.qp.post_recv(&recvs)?)
    }
}
