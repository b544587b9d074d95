// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause

//! What a QP can be attached to, and how often.

use std::env;
use std::net::Ipv4Addr;

use guest::links::Device;
use guest::pair::Bench;
use guest::suite::{Outcome, Stop, Suite};
use guest::verbs::{Caps, Qp, Transport, errno, gid_of, sys};

use super::{GROUP, Hall};

pub(super) fn add(suite: &mut Suite) {
    suite.case("mcast/rxe/twice", twice);
    suite.case("mcast/rxe/two_lids", two_lids);
    suite.case("mcast/rxe/in_use", in_use);
    suite.case("mcast/rxe/refused", refused);
}

/// Attached twice is attached: one copy, and one detachment.
fn twice() -> Outcome {
    let hall = Hall::open()?;
    let (guest, group) = (hall.guest()?, gid_of(GROUP));
    for _ in 0..2 {
        guest.qp.attach_mcast(&group, 0)?;
    }
    hall.say(1)?;
    hall.have_heard(&[(&guest, &[1])])?;
    guest.qp.detach_mcast(&group, 0)?;
    hall.say(2)?;
    hall.have_heard(&[(&guest, &[])])?;
    assert_eq!(
        errno(guest.qp.detach_mcast(&group, 0)),
        Some(libc::EINVAL),
        "detached twice"
    );
    Ok(())
}

/// RoCE has no LIDs: whatever they are, the group is the same.
fn two_lids() -> Outcome {
    if env::var("PROVIDER").as_deref() != Ok("lastwqe") {
        return Err(Stop::skip(
            "with librxe the kernel is left with a QP that it can never destroy",
        ));
    }
    let hall = Hall::open()?;
    let (guest, group) = (hall.guest()?, gid_of(GROUP));
    for lid in [0xc000, 0xc001, 0] {
        guest.qp.attach_mcast(&group, lid)?;
    }
    hall.say(1)?;
    hall.have_heard(&[(&guest, &[1])])?;
    guest.qp.detach_mcast(&group, 0xc002)?;
    hall.say(2)?;
    hall.have_heard(&[(&guest, &[])])?;
    assert_eq!(
        errno(guest.qp.detach_mcast(&group, 0xc000)),
        Some(libc::EINVAL)
    );
    // And the QP can be destroyed.
    Ok(())
}

/// A QP is not destroyed as long as it is attached, and goes on to hear, and to tell of its death.
fn in_use() -> Outcome {
    let hall = Hall::open()?;
    let guest = hall.guest()?;
    hall.with_members(&[&guest], || {
        for number in 0..3 {
            let refused = guest.qp.destroy_in_use();
            assert_eq!(refused.raw_os_error(), Some(libc::EBUSY));
            hall.say(number)?;
            hall.have_heard(&[(&guest, &[number])])?;
        }
        guest.qp.move_to(sys::IBV_QPS_ERR)?;
        let flushed = guest.recv_cq.take_one()?;
        assert_eq!(flushed.status, sys::IBV_WC_WR_FLUSH_ERR);
        Ok(())
    })
}

/// No group, no datagrams, no member.
fn refused() -> Outcome {
    let bench = Bench::open(Device::Rxe)?;
    let qp = |transport| -> Result<Qp, Stop> {
        let init = bench.init(transport, Caps::default())?;
        Ok(Qp::create(&bench.pd, &init)?)
    };
    let ud = qp(Transport::Ud)?;
    let not_groups = [
        [0; 16],
        [0xfe; 16],
        Device::Rxe.address().to_ipv6_mapped().octets(),
        // An IPv4 group that is not mapped.
        {
            let mut raw = [0; 16];
            raw[12..].copy_from_slice(&GROUP.octets());
            raw
        },
    ];
    for raw in not_groups {
        let gid = sys::ibv_gid { raw };
        for refused in [ud.attach_mcast(&gid, 0), ud.detach_mcast(&gid, 0)] {
            assert_eq!(errno(refused), Some(libc::EINVAL), "{raw:x?}");
        }
    }
    for transport in [Transport::Rc, Transport::Uc] {
        let connected = qp(transport)?;
        let attached = errno(connected.attach_mcast(&gid_of(GROUP), 0));
        assert_eq!(attached, Some(libc::EINVAL), "{transport:?}");
    }
    let other = gid_of(Ipv4Addr::new(233, 252, 0, 2));
    ud.attach_mcast(&gid_of(GROUP), 0)?;
    assert_eq!(errno(ud.detach_mcast(&other, 0)), Some(libc::EINVAL));
    ud.detach_mcast(&gid_of(GROUP), 0)?;
    // In IPv6 as well.
    let mut raw = [0; 16];
    raw[..2].copy_from_slice(&[0xff, 0x0e]);
    ud.attach_mcast(&sys::ibv_gid { raw }, 0)?;
    ud.detach_mcast(&sys::ibv_gid { raw }, 0)?;
    Ok(())
}
