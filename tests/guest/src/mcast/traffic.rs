// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause

//! Who hears what.

use guest::pair::Retry;
use guest::suite::{Outcome, Suite};
use guest::verbs::{Wc, gid_of, sys};

use super::{GRH, GROUP, Hall};

pub(super) fn add(suite: &mut Suite) {
    suite.case("mcast/rxe/members", members);
    suite.case("mcast/rxe/sender", sender);
    suite.case("mcast/rxe/header", header);
    suite
        .case("mcast/rxe/death", death)
        .beyond_stock("a receive that is posted to a dead QP never completes");
}

/// Those that are attached, each once and in order, as long as they are.
fn members() -> Outcome {
    let hall = Hall::open()?;
    let (a, b, stranger) = (hall.guest()?, hall.guest()?, hall.guest()?);
    let group = gid_of(GROUP);
    a.qp.attach_mcast(&group, 0)?;
    for number in 0..20 {
        hall.say(number)?;
        hall.have_heard(&[(&a, &[number]), (&b, &[]), (&stranger, &[])])?;
    }
    b.qp.attach_mcast(&group, 0)?;
    for number in 20..40 {
        hall.say(number)?;
        hall.have_heard(&[(&a, &[number]), (&b, &[number]), (&stranger, &[])])?;
    }
    a.qp.detach_mcast(&group, 0)?;
    hall.say(40)?;
    hall.have_heard(&[(&a, &[]), (&b, &[40]), (&stranger, &[])])?;
    b.qp.detach_mcast(&group, 0)?;
    hall.say(41)?;
    hall.have_heard(&[(&a, &[]), (&b, &[]), (&stranger, &[])])
}

/// A sender that is attached hears itself.
fn sender() -> Outcome {
    let hall = Hall::open()?;
    let sender = &hall.sender;
    hall.with_members(&[sender], || {
        for number in 0..3 {
            hall.say(number)?;
            hall.have_heard(&[(sender, &[number])])?;
        }
        Ok(())
    })?;
    hall.say(3)?;
    hall.have_heard(&[(sender, &[])])
}

/// What stands in front of a message says that it was for the group.
fn header() -> Outcome {
    let hall = Hall::open()?;
    let guest = hall.guest()?;
    hall.with_members(&[&guest], || {
        hall.say(1)?;
        hall.heard(&guest, 1)
    })?;
    let addresses = guest.to.read(GRH - 8..GRH);
    let own = hall.bench.device.address().octets();
    assert_eq!(addresses, [own, GROUP.octets()].concat());
    Ok(())
}

/// A member that dies has its receives flushed, once, and hears nothing; it is one still when it lives again.
fn death() -> Outcome {
    let hall = Hall::open()?;
    let (mortal, other) = (hall.guest()?, hall.guest()?);
    hall.with_members(&[&mortal, &other], || {
        mortal.listen(2)?;
        mortal.qp.move_to(sys::IBV_QPS_ERR)?;
        mortal.listen(1)?;
        hall.say(1)?;
        hall.heard(&other, 1)?;
        let flushed = mortal.recv_cq.take(4)?;
        let is_flushed = |wc: &Wc| wc.status == sys::IBV_WC_WR_FLUSH_ERR;
        assert!(flushed.iter().all(is_flushed), "{flushed:?}");
        assert!(mortal.recv_cq.poll_one()?.is_none(), "one too many");
        mortal.qp.move_to(sys::IBV_QPS_RESET)?;
        hall.bench.bring_up(&mortal.qp, 0, Retry::PATIENT)?;
        mortal.listen(1)?;
        hall.say(2)?;
        hall.have_heard(&[(&mortal, &[2]), (&other, &[2])])
    })
}
