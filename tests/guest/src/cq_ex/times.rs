// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause

//! Timestamps of completions, and the clock that they are read from.

use std::thread;
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use guest::links::Device;
use guest::pair::Bench;
use guest::suite::{Outcome, Stop, Suite};
use guest::verbs::{Batch, PATIENCE, RecvWr, SendWr, Transport, sys};

use super::{case, pair};

const BOTH: u32 =
    sys::IBV_WC_EX_WITH_COMPLETION_TIMESTAMP | sys::IBV_WC_EX_WITH_COMPLETION_TIMESTAMP_WALLCLOCK;

const NONE: &str = "no stock software provider has timestamps";

pub(super) fn add(suite: &mut Suite) {
    for device in Device::ALL {
        case(suite, device, "times/clock", clock, Some(NONE));
        case(
            suite,
            device,
            "times/of_completions",
            of_completions,
            Some(NONE),
        );
        case(suite, device, "times/of_flushed", of_flushed, Some(NONE));
    }
}

/// Now, on the device's clock and on the wall, in nanoseconds.
fn now(bench: &Bench) -> Result<(u64, u64), Stop> {
    let values = bench.context.rt_values(sys::IBV_VALUES_MASK_RAW_CLOCK)?;
    assert_eq!(values.comp_mask, sys::IBV_VALUES_MASK_RAW_CLOCK);
    assert_eq!(values.raw_clock.tv_sec, 0);
    let wall = u64::try_from(SystemTime::now().duration_since(UNIX_EPOCH)?.as_nanos())?;
    Ok((u64::try_from(values.raw_clock.tv_nsec)?, wall))
}

/// The clock is as fast as the device says, and what is not there is not answered.
fn clock(device: Device) -> Outcome {
    let bench = Bench::open(device)?;
    let attributes = bench.context.attributes()?;
    assert_eq!(attributes.completion_timestamp_mask, u64::MAX);
    let (before, start) = (now(&bench)?.0, Instant::now());
    thread::sleep(std::time::Duration::from_millis(100));
    let (passed, after) = (start.elapsed(), now(&bench)?.0);
    // In kHz; the two clocks are read one after the other.
    let ticks = u128::from(attributes.hca_core_clock) * passed.as_nanos() / 1_000_000;
    let measured = u128::from(after - before);
    assert!(
        measured >= ticks && measured < ticks * 2,
        "{measured} ticks in {passed:?}, at {} kHz",
        attributes.hca_core_clock
    );
    let values = bench.context.rt_values(1 << 5)?;
    assert_eq!(values.comp_mask, 0, "an unknown value");
    Ok(())
}

/// A completion's time is behind its post and before now, and later ones are later.
fn of_completions(device: Device) -> Outcome {
    let pair = pair(device, Transport::Rc, BOTH)?;
    let memory = pair.bench.memory(16)?;
    let mut last = now(&pair.bench)?;
    for _ in 0..10 {
        let write = SendWr::write(&[memory.sge(0, 8)], memory.remote(8)).signaled();
        pair.a.qp.post_send(&[write])?;
        let start = Instant::now();
        let stamp = loop {
            match Batch::start(&pair.a.send_cq)? {
                Some(batch) => {
                    batch.wc().ok();
                    break batch.times();
                }
                None if start.elapsed() < PATIENCE => thread::yield_now(),
                None => return Err(Stop::Fail("no completion".to_owned())),
            }
        };
        check(last, stamp);
        last = now(&pair.bench)?;
        check(stamp, last);
    }
    Ok(())
}

/// The library's own completions have one too.
fn of_flushed(device: Device) -> Outcome {
    let pair = pair(device, Transport::Rc, BOTH)?;
    let memory = pair.bench.memory(8)?;
    pair.a.qp.move_to(sys::IBV_QPS_ERR)?;
    let recvs: Vec<_> = (0..5)
        .map(|id| RecvWr::new(id, &[memory.sge(0, 8)]))
        .collect();
    let mut last = now(&pair.bench)?;
    pair.a.qp.post_recv(&recvs)?;
    let Some(mut batch) = Batch::start(&pair.a.recv_cq)? else {
        return Err(Stop::Fail("no completion".to_owned()));
    };
    for id in 0..5 {
        assert_eq!(batch.wc().wr_id, id);
        check(last, batch.times());
        last = batch.times();
        assert_eq!(batch.go_on()?, id < 4);
    }
    drop(batch);
    check(last, now(&pair.bench)?);
    Ok(())
}

#[track_caller]
fn check(earlier: (u64, u64), later: (u64, u64)) {
    assert!(earlier.0 <= later.0, "clock: {earlier:?}, then {later:?}");
    assert!(earlier.1 <= later.1, "wall: {earlier:?}, then {later:?}");
}
