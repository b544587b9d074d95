// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause

//! The program that is measured for flushes: a QP with receives outstanding is moved to ERR, beside others on
//! the same CQ that have nothing to do with it.

use std::thread;
use std::time::{Duration, Instant};

use guest::links::Device;
use guest::pair::Bench;
use guest::suite::Stop;
use guest::verbs::sys::{IBV_QPS_ERR, IBV_QPS_INIT, ibv_wc};
use guest::verbs::{Caps, Cq, Qp, QpInit, RecvWr, Transport};

use crate::measured::measured_flush;

/// Completions that a poll asks for.
const ROOM: i32 = 16;

/// Flushes `wrs` receives of one of `qps` QPs; how long that took, if it was polled for all the time. With
/// `is_counted`, polls begin when the kernel has long finished, so that as few as possible find nothing.
///
/// # Errors
///
/// A failure of any verb.
pub(crate) fn run(device: Device, wrs: u32, qps: u32, is_counted: bool) -> Result<Duration, Stop> {
    let bench = Bench::open_directly(device)?;
    let cq = Cq::create(&bench.context, wrs.max(64) as usize)?;
    let init = |recv_wr| QpInit {
        transport: Transport::Rc,
        send_cq: cq.clone(),
        recv_cq: cq.clone(),
        srq: None,
        caps: Caps {
            send_wr: 4,
            recv_wr,
            send_sge: 1,
            recv_sge: 1,
            inline: 0,
        },
        signal_all: false,
        send_ops: None,
    };
    let ready = |init: &QpInit| -> Result<Qp, Stop> {
        let qp = Qp::create(&bench.pd, init)?;
        match device {
            Device::Rxe => bench.to_init(&qp)?,
            // Which the kernel ignores, and libibverbs remembers.
            Device::Siw => qp.move_to(IBV_QPS_INIT)?,
        }
        Ok(qp)
    };
    let others = (1..qps)
        .map(|_| ready(&init(4)))
        .collect::<Result<Vec<_>, _>>()?;
    let victim = ready(&init(wrs))?;
    let memory = bench.memory(64)?;
    // Of an entry each: libsiw takes no receive without one.
    let list: Vec<_> = (0..64)
        .map(|id| RecvWr::new(id, &[memory.sge(0, 64)]))
        .collect();
    let mut left = wrs as usize;
    while left > 0 {
        let some = left.min(list.len());
        victim.post_recv(&list[..some])?;
        left -= some;
    }
    // The code of a flush is a library's own, and comes from a file when it is first run: that is not meant.
    let first = ready(&init(4))?;
    first.post_recv(&list[..1])?;
    first.move_to(IBV_QPS_ERR)?;
    cq.take_one()?;
    drop(first);
    let begun = Instant::now();
    victim.move_to(IBV_QPS_ERR)?;
    if is_counted {
        thread::sleep(Duration::from_millis(100) + Duration::from_micros(50) * wrs);
    }
    let mut wcs = [ibv_wc::default(); ROOM as usize];
    let mut done = 0;
    while done < wrs {
        // SAFETY: a CQ that is alive, and room for as many.
        let got = unsafe { measured_flush(cq.raw(), ROOM, wcs.as_mut_ptr()) };
        done += u32::try_from(got).map_err(|_| Stop::Fail(format!("a poll returned {got}")))?;
    }
    let took = begun.elapsed();
    drop(victim);
    drop(others);
    Ok(took)
}
