// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause

//! `ibv_resize_cq`, whose new ring cannot be used: rxe has moved to it. The CQ is as it was, and so is what
//! was to be read from it.

use std::io;

use guest::links::Device;
use guest::pair::Pair;
use guest::suite::{Outcome, Suite};
use guest::verbs::{Caps, RecvWr, SendWr, Transport, Wc};

use super::BELIEVES;
use super::libfault::{MMAP_ERRNO, case, fails};

/// A size and another, of as many pages in the kernel, so that neither fits where the other was.
const SIZES: [i32; 2] = [100, 1000];

/// Messages before the resize, and as many after it.
const MESSAGES: usize = 20;

pub(super) fn add(suite: &mut Suite) {
    for (kind, stock_fault, faults) in [
        (
            "mmap",
            "the CQ is left without a ring",
            [("mmap:1", MMAP_ERRNO), ("mmap:1-2", MMAP_ERRNO)].as_slice(),
        ),
        (
            "answer",
            BELIEVES,
            &[
                ("answer:1:ones", libc::EOVERFLOW),
                ("answer:1:zeros", libc::EIO),
                ("answer:1:8=1000", libc::EIO),
                ("answer:1:0^1", libc::EINVAL),
            ],
        ),
        (
            "header",
            BELIEVES,
            &[
                ("ring:1:0=3f", libc::EIO),
                ("ring:1:4=2", libc::EIO),
                ("ring:1:4=f", libc::EIO),
            ],
        ),
    ] {
        for (way, [size, other]) in [("grow", SIZES), ("shrink", [SIZES[1], SIZES[0]])] {
            let name = format!("faults/rxe/resize_cq/{kind}/{way}");
            case(suite, name, move || {
                faults
                    .iter()
                    .try_for_each(|&(fault, errno)| resize(fault, errno, size, other))
            })
            .beyond_stock(stock_fault);
        }
    }
}

/// A resize fails under the fault. What was unread before, and what completes later, is read in
/// order, and the next resize succeeds.
fn resize(fault: &str, errno: i32, size: i32, other: i32) -> Outcome {
    let caps = Caps {
        recv_wr: size.unsigned_abs(),
        ..Caps::default()
    };
    let pair = Pair::with(Device::Rxe, Transport::Rc, caps)?;
    let cq = &pair.b.recv_cq;
    let memory = pair.bench.memory(16)?;
    let arrive = |from: usize| -> Outcome {
        for at in from..from + MESSAGES {
            let recv = RecvWr::new(at as u64, &[memory.sge(8, 8)]);
            pair.b.qp.post_recv(&[recv])?;
            let send = SendWr::send(&[memory.sge(0, 8)]).signaled();
            pair.a.qp.post_send(&[send])?;
            pair.a.send_cq.take_one()?.ok();
        }
        Ok(())
    };
    arrive(0)?;
    let entries = cq.entries();
    fails(Device::Rxe, fault, errno, || cq.resize(other))?;
    assert_eq!(cq.entries(), entries, "{fault}: entries of the CQ");
    arrive(MESSAGES)?;
    in_order(cq.take(2 * MESSAGES), 0)?;

    cq.resize(other)?;
    arrive(2 * MESSAGES)?;
    in_order(cq.take(MESSAGES), 2 * MESSAGES)?;
    assert!(cq.poll_one()?.is_none(), "{fault}: one completion too many");
    Ok(())
}

fn in_order(taken: io::Result<Vec<Wc>>, from: usize) -> Outcome {
    for (at, wc) in (from..).zip(taken?) {
        assert_eq!(wc.ok().wr_id, at as u64);
    }
    Ok(())
}
