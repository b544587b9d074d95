// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause

//! Completions in error: only `wr_id`, `status`, `qp_num` and `vendor_err` are valid then
//! (ibv_poll_cq(3)), and an application lives on the first two.

use guest::links::Device;
use guest::pair::Pair;
use guest::suite::{Outcome, Suite};
use guest::verbs::{RecvWr, Remote, SendWr, Transport, Wc, sys};

pub(super) fn add(suite: &mut Suite) {
    for device in Device::ALL {
        suite.case(format!("wc_fields/{device}/rc/bad_lkey"), move || {
            bad_lkey(device)
        });
        suite.case(format!("wc_fields/{device}/rc/bad_rkey"), move || {
            bad_rkey(device)
        });
        suite.case(
            format!("wc_fields/{device}/rc/recv_flush_order"),
            move || recv_flush_order(device),
        );
    }
    suite.case("wc_fields/rxe/rc/send_flush_order", unreceived_sends);
    suite.case("wc_fields/siw/rc/send_flush_order", undelivered_sends);
    suite
        .case("wc_fields/rxe/rc/recv_flush_opcode", recv_flush_opcode)
        .beyond_stock("a flushed receive says IBV_WC_SEND");
}

/// A receive buffer's identifier, with bits in both halves.
const RECV: u64 = 0xfeed_0000_0000_0000;

/// A key that no region has.
const NO_KEY: u32 = 0x7654_3200;

fn bad_lkey(device: Device) -> Outcome {
    let pair = Pair::new(device, Transport::Rc)?;
    let from = pair.bench.memory(64)?;
    for (end, wr_id) in [(&pair.a, u64::MAX), (&pair.b, 0)] {
        let bad = [from.sge(0, 24).with_lkey(NO_KEY)];
        end.qp.post_send(&[SendWr::send(&bad).id(wr_id)])?;
        let wc = end.send_cq.take_one()?;
        // rxe of 6.12 says FLUSH, since its QP is in the error state before the completer runs.
        assert!(
            [
                sys::IBV_WC_LOC_QP_OP_ERR,
                sys::IBV_WC_LOC_PROT_ERR,
                sys::IBV_WC_WR_FLUSH_ERR
            ]
            .contains(&wc.status),
            "{wc:?}"
        );
        assert_eq!((wc.wr_id, wc.qp_num), (wr_id, end.qp.number()));
        if device == Device::Siw {
            // The peer's QP goes with the connection.
            break;
        }
    }
    Ok(())
}

fn bad_rkey(device: Device) -> Outcome {
    let pair = Pair::new(device, Transport::Rc)?;
    let (from, to) = (pair.bench.memory(64)?, pair.bench.memory(64)?);
    let remote = Remote {
        rkey: NO_KEY,
        ..to.remote(0)
    };
    let read = SendWr::read(&[from.sge(0, 24)], remote).id(0xabcd_0000_0000_0001);
    pair.a.qp.post_send(&[read])?;
    let wc = pair.a.send_cq.take_one()?;
    assert!(!wc.is_success(), "{wc:?}");
    assert_eq!(
        (wc.wr_id, wc.qp_num),
        (0xabcd_0000_0000_0001, pair.a.qp.number())
    );
    if device == Device::Rxe {
        assert_eq!(wc.status, sys::IBV_WC_REM_ACCESS_ERR);
    }
    Ok(())
}

#[track_caller]
fn assert_flushed(flushed: &[Wc], first: u64, qp_num: u32) {
    for (wr_id, wc) in (first..).zip(flushed) {
        let actual = (wc.wr_id, wc.status, wc.qp_num);
        assert_eq!(actual, (wr_id, sys::IBV_WC_WR_FLUSH_ERR, qp_num), "{wc:?}");
    }
}

fn recv_flush_order(device: Device) -> Outcome {
    let pair = Pair::new(device, Transport::Rc)?;
    let to = pair.bench.memory(64)?;
    for end in [&pair.a, &pair.b] {
        let recvs: Vec<_> = (0..40)
            .map(|at| RecvWr::new(RECV + at, &[to.sge(0, 8)]))
            .collect();
        end.qp.post_recv(&recvs)?;
    }
    for end in [&pair.a, &pair.b] {
        end.qp.move_to(sys::IBV_QPS_ERR)?;
        assert_flushed(&end.recv_cq.take(40)?, RECV, end.qp.number());
    }
    Ok(())
}

/// Sends that wait for a receiver which never posts: rxe retries for ever. Nothing was signaled,
/// and all must complete in error.
fn unreceived_sends() -> Outcome {
    let pair = Pair::new(Device::Rxe, Transport::Rc)?;
    let from = pair.bench.memory(64)?;
    let sends: Vec<_> = (0..40)
        .map(|at| SendWr::send(&[from.sge(0, 8)]).id(at))
        .collect();
    pair.a.qp.post_send(&sends)?;
    pair.a.qp.move_to(sys::IBV_QPS_ERR)?;
    assert_flushed(&pair.a.send_cq.take(40)?, 0, pair.a.qp.number());
    Ok(())
}

/// More bytes than TCP takes at once: what has been sent succeeds, what is being sent
/// fails, and all else is flushed.
fn undelivered_sends() -> Outcome {
    let pair = Pair::new(Device::Siw, Transport::Rc)?;
    let memory = pair.bench.memory(1 << 20)?;
    let sge = [memory.sge(0, 1 << 20)];
    let recvs: Vec<_> = (0..40).map(|at| RecvWr::new(at, &sge)).collect();
    pair.b.qp.post_recv(&recvs)?;
    let sends: Vec<_> = (0..40)
        .map(|at| SendWr::send(&sge).id(at).signaled())
        .collect();
    pair.a.qp.post_send(&sends)?;
    pair.a.qp.move_to(sys::IBV_QPS_ERR)?;
    let done = pair.a.send_cq.take(40)?;
    let sent = done.iter().take_while(|wc| wc.is_success()).count();
    assert!(sent < 40, "all were sent before the QP died");
    // The one that siw was sending may have met the closed socket.
    let error = [sys::IBV_WC_WR_FLUSH_ERR, sys::IBV_WC_LOC_QP_OP_ERR];
    assert!(error.contains(&done[sent].status), "{:?}", done[sent]);
    for (wr_id, wc) in (0..).zip(&done[..=sent]) {
        assert_eq!((wc.wr_id, wc.qp_num), (wr_id, pair.a.qp.number()));
    }
    assert_flushed(&done[sent + 1..], sent as u64 + 1, pair.a.qp.number());
    Ok(())
}

/// With one CQ for both queues, the opcode is all that tells a flushed receive from a send.
fn recv_flush_opcode() -> Outcome {
    let pair = Pair::new(Device::Rxe, Transport::Rc)?;
    let to = pair.bench.memory(64)?;
    pair.b.qp.post_recv(&[RecvWr::new(RECV, &[to.sge(0, 8)])])?;
    pair.b.qp.move_to(sys::IBV_QPS_ERR)?;
    let wc = pair.b.recv_cq.take_one()?;
    assert_flushed(&[wc], RECV, pair.b.qp.number());
    assert_eq!(wc.opcode & sys::IBV_WC_RECV, sys::IBV_WC_RECV, "{wc:?}");
    Ok(())
}
