// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause

//! The readers.

use std::thread;
use std::time::Instant;

use guest::links::Device;
use guest::pair::Pair;
use guest::suite::{Outcome, Stop, Suite};
use guest::verbs::{Batch, Cq, PATIENCE, RecvWr, SendWr, Transport, Wc, sys};

use super::{case, pair};
use crate::wc_fields::{datagram, each_opcode, operations, with_inv};

const ALL: u32 = sys::IBV_WC_STANDARD_FLAGS;

pub(super) fn add(suite: &mut Suite) {
    for device in Device::ALL {
        let rc =
            move |run: fn(&Pair) -> Outcome| move |device| run(&pair(device, Transport::Rc, ALL)?);
        case(suite, device, "fields/each_opcode", rc(each_opcode), None);
        case(suite, device, "fields/as_plain", rc(as_plain), None);
        case(suite, device, "fields/of_errors", rc(of_errors), None);
        case(suite, device, "fields/only_wanted", only_wanted, None);
    }
    let ud = |device| datagram(&pair(device, Transport::Ud, ALL)?);
    case(suite, Device::Rxe, "fields/datagram", ud, None);
    let inv = |device| with_inv(&pair(device, Transport::Rc, ALL)?);
    let kernels = "the kernel's IB_WC_WITH_INVALIDATE (4) arrives as IBV_WC_IP_CSUM_OK";
    case(suite, Device::Rxe, "fields/with_inv", inv, Some(kernels));
}

/// Waits for one completion and takes it by `ibv_poll_cq`.
fn take_plainly(cq: &Cq) -> Result<Wc, Stop> {
    let start = Instant::now();
    // What siw leaves alone, readers say is 0.
    let mut room = [Wc(sys::ibv_wc::default())];
    while cq.poll_plainly(&mut room)? == 0 {
        if start.elapsed() > PATIENCE {
            return Err(Stop::Fail("no completion".to_owned()));
        }
        thread::yield_now();
    }
    Ok(room[0])
}

#[track_caller]
fn assert_equal(what: &str, plain: Wc, read: Wc) {
    assert_eq!(format!("{read:?}"), format!("{plain:?}"), "{what}");
}

/// Each operation twice: polled plainly, and in a batch.
fn as_plain(pair: &Pair) -> Outcome {
    let (from, to) = (pair.bench.memory(64)?, pair.bench.memory(64)?);
    for operation in operations(pair.bench.device, &from, &to) {
        let mut polled = Vec::new();
        for take in [take_plainly, |cq: &Cq| Ok(cq.take_one()?)] {
            if operation.received.is_some() {
                pair.b.qp.post_recv(&[RecvWr::new(7, &[to.sge(0, 64)])])?;
            }
            pair.a
                .qp
                .post_send(&[operation.wr.clone().id(8).signaled()])?;
            let sent = take(&pair.a.send_cq)?.ok();
            let received = match operation.received {
                Some(_) => Some(take(&pair.b.recv_cq)?.ok()),
                None => None,
            };
            polled.push((sent, received));
        }
        assert_equal(operation.name, polled[0].0, polled[1].0);
        if let (Some(plain), Some(read)) = (polled[0].1, polled[1].1) {
            assert_equal(operation.name, plain, read);
        }
    }
    Ok(())
}

/// A failed send, and those behind it: the first half is polled plainly, the other in batches.
fn of_errors(pair: &Pair) -> Outcome {
    let memory = pair.bench.memory(8)?;
    let write = SendWr::write(&[memory.sge(0, 8)], memory.remote(0)).signaled();
    let list: Vec<_> = (0..8).map(|id| write.clone().id(id)).collect();
    pair.a.qp.move_to(sys::IBV_QPS_ERR)?;
    pair.a.qp.post_send(&list)?;
    for (id, take) in [take_plainly, |cq: &Cq| Ok(cq.take_one()?)]
        .into_iter()
        .cycle()
        .take(8)
        .enumerate()
    {
        let wc = take(&pair.a.send_cq)?;
        assert_eq!(
            (wc.wr_id, wc.status, wc.qp_num),
            (id as u64, sys::IBV_WC_WR_FLUSH_ERR, pair.a.qp.number())
        );
    }
    Ok(())
}

/// Only what was asked for can be read; opcode, vendor_err and wc_flags always.
fn only_wanted(device: Device) -> Outcome {
    for wanted in [
        0,
        sys::IBV_WC_EX_WITH_QP_NUM,
        sys::IBV_WC_EX_WITH_IMM | sys::IBV_WC_EX_WITH_SL,
    ] {
        let pair = pair(device, Transport::Rc, wanted)?;
        let memory = pair.bench.memory(8)?;
        let write = SendWr::write(&[memory.sge(0, 8)], memory.remote(0));
        pair.a.qp.post_send(&[write.id(9).signaled()])?;
        let cq = &pair.a.send_cq;
        let start = Instant::now();
        let batch = loop {
            match Batch::start(cq)? {
                Some(batch) => break batch,
                None if start.elapsed() < PATIENCE => thread::yield_now(),
                None => return Err(Stop::Fail("no completion".to_owned())),
            }
        };
        let wc = batch.wc().ok();
        let fixed = (wc.wr_id, wc.opcode, wc.vendor_err, wc.wc_flags);
        assert_eq!(fixed, (9, sys::IBV_WC_RDMA_WRITE, 0, 0));
        let can_read = batch.readable();
        assert_eq!(can_read, wanted, "what can be read");
    }
    Ok(())
}
