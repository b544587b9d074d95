// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause

//! Small rings that wrap around many times, fed with lists of random length.

use std::ops::RangeInclusive;
use std::thread;
use std::time::Instant;

use guest::links::Device;
use guest::pair::Pair;
use guest::payload::{Random, message};
use guest::suite::{Outcome, Suite};
use guest::verbs::{Caps, PATIENCE, RecvWr, SendWr, Transport};

/// Entries of each queue.
const DEPTH: u32 = 8;

/// Messages, enough for several hundred rounds of each ring.
const MESSAGES: u64 = 5000;

/// Bytes of the messages.
const SMALL: RangeInclusive<usize> = 0..=48;

/// Bytes of messages that siw does not copy into the header of the packet (`MAX_HDR_INLINE` is 32).
const TOO_LONG_FOR_HEADER: RangeInclusive<usize> = 40..=88;

pub(super) fn add(suite: &mut Suite) {
    suite.case("traffic/rxe/rc/ring_wrap", || {
        wrap(Device::Rxe, Transport::Rc, SMALL)
    });
    suite.case("traffic/rxe/uc/ring_wrap", || {
        wrap(Device::Rxe, Transport::Uc, SMALL)
    });
    suite.case("traffic/siw/rc/ring_wrap", || {
        wrap(Device::Siw, Transport::Rc, TOO_LONG_FOR_HEADER)
    });
    // siw hands its send queue to a kernel thread after every 99 packets. If that thread is quick,
    // it finds `in_syscall` still set and reads the next small message with copy_from_user, which
    // it cannot (linux 6.1 and 6.12 siw_qp_tx.c: siw_try_1seg, siw_verbs.c: siw_post_send).
    suite
        .case("traffic/siw/rc/ring_wrap_small", || {
            wrap(Device::Siw, Transport::Rc, SMALL)
        })
        .beyond_stock("sometimes the kernel's transmit thread cannot read a small message");
}

/// How far the messages have come; they are numbered from 0 on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
struct Progress {
    prepared: u64,
    sent: u64,
    acknowledged: u64,
    received: u64,
}

/// Where message `number` lies in a buffer with one place per ring entry.
fn place(number: u64, lengths: &RangeInclusive<usize>) -> usize {
    usize::try_from(number % u64::from(DEPTH)).unwrap_or(0) * lengths.end()
}

/// The contents of message `number`.
fn contents(number: u64, lengths: &RangeInclusive<usize>) -> Vec<u8> {
    let spread = lengths.end() - lengths.start() + 1;
    message(
        number,
        lengths.start() + message(!number, 1)[0] as usize % spread,
    )
}

/// From none to all of `room`.
fn some_of(random: &mut Random, room: u64) -> u64 {
    random.between(0, usize::try_from(room).unwrap_or(0)) as u64
}

fn wrap(device: Device, transport: Transport, lengths: RangeInclusive<usize>) -> Outcome {
    let caps = Caps {
        send_wr: DEPTH,
        recv_wr: DEPTH,
        ..Caps::default()
    };
    let mut random = Random::replayable();
    let pair = Pair::with(device, transport, caps)?;
    let (depth, place) = (u64::from(DEPTH), |number| place(number, &lengths));
    let room = DEPTH as usize * lengths.end();
    let (from, to) = (pair.bench.memory(room)?, pair.bench.memory(room)?);
    let mut progress = Progress::default();
    let mut idle_since = Instant::now();
    while progress.received < MESSAGES || progress.acknowledged < MESSAGES {
        let before = progress;

        let first = progress.prepared;
        let room = (depth - (first - progress.received)).min(MESSAGES - first);
        let recvs: Vec<_> = (first..first + some_of(&mut random, room))
            .map(|number| RecvWr::new(number, &[to.sge(place(number), *lengths.end())]))
            .collect();
        if !recvs.is_empty() {
            pair.b.qp.post_recv(&recvs)?;
            progress.prepared += recvs.len() as u64;
        }

        let first = progress.sent;
        let room = (depth - (first - progress.acknowledged)).min(progress.prepared - first);
        let sends: Vec<_> = (first..first + some_of(&mut random, room))
            .map(|number| {
                let bytes = contents(number, &lengths);
                from.write(place(number), &bytes);
                let sge = from.sge(place(number), bytes.len());
                SendWr::send(&[sge]).id(number).signaled()
            })
            .collect();
        if !sends.is_empty() {
            pair.a.qp.post_send(&sends)?;
            progress.sent += sends.len() as u64;
        }

        while let Some(wc) = pair.a.send_cq.poll_one()? {
            assert_eq!(
                wc.ok().wr_id,
                progress.acknowledged,
                "send completions out of order"
            );
            progress.acknowledged += 1;
        }
        while let Some(wc) = pair.b.recv_cq.poll_one()? {
            let number = progress.received;
            assert_eq!(wc.ok().wr_id, number, "receive completions out of order");
            let (at, expected) = (place(number), contents(number, &lengths));
            assert_eq!(wc.byte_len as usize, expected.len());
            assert!(
                to.read(at..at + expected.len()) == expected,
                "message {number} changed"
            );
            progress.received += 1;
        }

        if before == progress {
            assert!(idle_since.elapsed() < PATIENCE, "stalled: {progress:?}");
            thread::yield_now();
        } else {
            idle_since = Instant::now();
        }
    }
    Ok(())
}
