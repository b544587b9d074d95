// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause

//! How many QPs a group has room for, and how many groups there are.

use std::net::Ipv4Addr;

use guest::links::Device;
use guest::pair::Bench;
use guest::suite::{Outcome, Stop, Suite};
use guest::verbs::{Caps, Qp, Transport, errno, gid_of};

use super::GROUP;

pub(super) fn add(suite: &mut Suite) {
    suite.case("mcast/rxe/limit/members", members);
    suite.case("mcast/rxe/limit/groups", groups).within(60);
}

/// A small QP.
fn qp(bench: &Bench) -> Result<Qp, Stop> {
    let caps = Caps {
        send_wr: 2,
        recv_wr: 2,
        ..Caps::default()
    };
    let init = bench.init(Transport::Ud, caps)?;
    Ok(Qp::create(&bench.pd, &init)?)
}

/// One more is refused, until another has left.
fn members() -> Outcome {
    let bench = Bench::open_directly(Device::Rxe)?;
    let most = bench.context.limits()?.max_mcast_qp_attach;
    let group = gid_of(GROUP);
    let members = (0..most)
        .map(|_| {
            let member = qp(&bench)?;
            member.attach_mcast(&group, 0)?;
            Ok(member)
        })
        .collect::<Result<Vec<_>, Stop>>()?;
    let late = qp(&bench)?;
    for _ in 0..2 {
        assert_eq!(errno(late.attach_mcast(&group, 0)), Some(libc::ENOMEM));
    }
    members[0].detach_mcast(&group, 0)?;
    late.attach_mcast(&group, 0)?;
    for member in members[1..].iter().chain([&late]) {
        member.detach_mcast(&group, 0)?;
    }
    Ok(())
}

/// The same, of groups.
fn groups() -> Outcome {
    let bench = Bench::open_directly(Device::Rxe)?;
    let most = u32::try_from(bench.context.limits()?.max_mcast_grp)?;
    let member = qp(&bench)?;
    let group = |at: u32| gid_of(Ipv4Addr::from(u32::from(Ipv4Addr::new(239, 0, 0, 0)) + at));
    for at in 0..most {
        member.attach_mcast(&group(at), 0)?;
    }
    let refused = errno(member.attach_mcast(&group(most), 0));
    assert_eq!(refused, Some(libc::ENOMEM));
    member.detach_mcast(&group(0), 0)?;
    member.attach_mcast(&group(most), 0)?;
    for at in 1..=most {
        member.detach_mcast(&group(at), 0)?;
    }
    Ok(())
}
