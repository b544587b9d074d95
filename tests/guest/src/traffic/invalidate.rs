// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause

//! Keys that are taken back: SEND_WITH_INV and LOCAL_INV.
//!
//! rxe invalidates a memory window of type 2 (`rxe_invalidate_mr` refuses a region that a user
//! has registered); siw has no windows and invalidates the region itself.

use guest::links::Device;
use guest::pair::{End, Pair};
use guest::suite::{Outcome, Stop, Suite};
use guest::verbs::{Mr, Mw, RecvWr, Remote, SendWr, Transport, Wc, sys};

pub(super) fn add(suite: &mut Suite) {
    suite.case(
        "traffic/rxe/rc/bind_window_and_send_with_inv",
        window_send_with_inv,
    );
    suite.case("traffic/rxe/rc/bind_window_and_local_inv", window_local_inv);
    suite
        .case("traffic/siw/rc/send_with_inv", region_send_with_inv)
        .beyond_stock("SEND_WITH_INV takes the key from wr.rdma.rkey, not from invalidate_rkey");
}

/// Binds a window to all of `mr`; returns its key.
fn bind(end: &End, mw: &Mw, mr: &Mr) -> Result<u32, Stop> {
    let rkey = mw.rkey() ^ 0x5a;
    let bind = SendWr::bind(mw, mr, rkey, sys::IBV_ACCESS_REMOTE_WRITE);
    end.qp.post_send(&[bind.id(9).signaled()])?;
    let wc = end.send_cq.take_one()?.ok();
    assert_eq!((wc.wr_id, wc.opcode), (9, sys::IBV_WC_BIND_MW));
    Ok(rkey)
}

fn write_by(end: &End, from: &Mr, target: Remote) -> Result<Wc, Stop> {
    end.qp
        .post_send(&[SendWr::write(&[from.sge(0, 8)], target).signaled()])?;
    Ok(end.send_cq.take_one()?)
}

fn window_send_with_inv() -> Outcome {
    let pair = Pair::new(Device::Rxe, Transport::Rc)?;
    let (from, to) = (pair.bench.memory(64)?, window_memory(&pair)?);
    let mw = Mw::alloc(&pair.bench.pd)?;
    let rkey = bind(&pair.b, &mw, &to)?;
    let target = Remote {
        rkey,
        ..to.remote(0)
    };
    from.write(0, b"windowed");
    write_by(&pair.a, &from, target)?.ok();
    assert_eq!(to.read(0..8), b"windowed");

    pair.b.qp.post_recv(&[RecvWr::new(1, &[to.sge(32, 8)])])?;
    let send = SendWr::send(&[from.sge(0, 8)])
        .invalidating(rkey)
        .signaled();
    pair.a.qp.post_send(&[send])?;
    assert_eq!(pair.b.recv_cq.take_one()?.ok().invalidated_rkey(), rkey);
    assert_eq!(pair.a.send_cq.take_one()?.ok().opcode, sys::IBV_WC_SEND);

    let refused = write_by(&pair.a, &from, target)?;
    assert_eq!(
        refused.status,
        sys::IBV_WC_REM_ACCESS_ERR,
        "the window still opens: {refused:?}"
    );
    Ok(())
}

fn window_local_inv() -> Outcome {
    let pair = Pair::new(Device::Rxe, Transport::Rc)?;
    let (from, to) = (pair.bench.memory(64)?, window_memory(&pair)?);
    let mw = Mw::alloc(&pair.bench.pd)?;
    let rkey = bind(&pair.b, &mw, &to)?;
    let target = Remote {
        rkey,
        ..to.remote(0)
    };
    write_by(&pair.a, &from, target)?.ok();

    pair.b
        .qp
        .post_send(&[SendWr::local_invalidate(rkey).id(3).signaled()])?;
    let wc = pair.b.send_cq.take_one()?.ok();
    assert_eq!((wc.wr_id, wc.opcode), (3, sys::IBV_WC_LOCAL_INV));
    let refused = write_by(&pair.a, &from, target)?;
    assert_eq!(
        refused.status,
        sys::IBV_WC_REM_ACCESS_ERR,
        "the window still opens: {refused:?}"
    );
    Ok(())
}

fn window_memory(pair: &Pair) -> Result<Mr, Stop> {
    let access =
        sys::IBV_ACCESS_LOCAL_WRITE | sys::IBV_ACCESS_REMOTE_WRITE | sys::IBV_ACCESS_MW_BIND;
    Ok(Mr::register(&pair.bench.pd, 64, access)?)
}

/// siw tells a user process nothing about the invalidation in the completion
/// (`siw_rqe_complete` fills it in for kernel users only), so only its effect is checked.
fn region_send_with_inv() -> Outcome {
    let pair = Pair::new(Device::Siw, Transport::Rc)?;
    let (from, to, region) = (
        pair.bench.memory(64)?,
        pair.bench.memory(64)?,
        pair.bench.memory(64)?,
    );
    from.write(0, b"revoking");
    pair.b.qp.post_recv(&[RecvWr::new(1, &[to.sge(0, 8)])])?;
    let send = SendWr::send(&[from.sge(0, 8)])
        .invalidating(region.rkey())
        .id(2)
        .signaled();
    pair.a.qp.post_send(&[send])?;
    assert_eq!(pair.b.recv_cq.take_one()?.ok().wr_id, 1);
    assert_eq!(to.read(0..8), b"revoking");
    assert_eq!(pair.a.send_cq.take_one()?.ok().wr_id, 2);

    let read = SendWr::read(&[to.sge(0, 8)], region.remote(0))
        .id(3)
        .signaled();
    pair.a.qp.post_send(&[read])?;
    let refused = pair.a.send_cq.take_one()?;
    assert!(!refused.is_success(), "the region still opens: {refused:?}");
    Ok(())
}
