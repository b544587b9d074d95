// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause

//! `ibv_create_cq`, `ibv_create_qp` and `ibv_create_srq` whose answer cannot be used.
//!
//! Offsets and values are those of `rdma/rdma_user_rxe.h` and `rdma/siw-abi.h`, in hexadecimal. All
//! queues are asked for with 64 entries.

use std::io;

use guest::links::Device;
use guest::pair::Bench;
use guest::suite::{Outcome, Suite};
use guest::verbs::{Caps, Cq, Qp, QpInit, Srq, Transport};

use super::libfault::{MMAP_ERRNO, case, fails};
use super::{BELIEVES, messages_arrive};

/// Entries asked for of each queue: half of them, in siw's rings, take as many pages, so that the
/// kernel maps those too.
const ENTRIES: u32 = 32;

/// A scribble, and what the verb then says: `EIO` for what the provider itself finds impossible,
/// or what `mmap(2)` says to it.
type Impossible = (&'static str, i32);

/// The object under test.
#[derive(Debug, Clone, Copy)]
struct Object {
    name: &'static str,
    rings: usize,
    /// Creates it; for an object that a QP is made from, the description of such a QP.
    create: fn(&Bench, &QpInit) -> io::Result<QpInit>,
    rxe_answers: &'static [Impossible],
    siw_answers: &'static [Impossible],
}

const CQ: Object = Object {
    name: "cq",
    rings: 1,
    create: |bench, init| {
        Ok(QpInit {
            recv_cq: Cq::create(&bench.context, ENTRIES as usize)?,
            ..init.clone()
        })
    },
    // Offset, size.
    rxe_answers: &[
        ("ones", libc::EOVERFLOW),
        ("zeros", libc::EIO),
        // Below the header, the whole ring, and above it.
        ("8=100", libc::EIO),
        ("8=1000", libc::EIO),
        ("8=100000", libc::EINVAL),
        // Of no ring, and off the page.
        ("0^40000000", libc::EINVAL),
        ("0^1", libc::EINVAL),
    ],
    // CQ number, count, key.
    siw_answers: &[
        ("ones", libc::EIO),
        ("zeros", libc::EIO),
        ("4=3", libc::EIO),
        ("4=10", libc::EINVAL),
        ("4=80000000", libc::EINVAL),
        // Of no ring.
        ("8^40000000", libc::EINVAL),
        ("8=90000", libc::EINVAL),
    ],
};

const QP: Object = Object {
    name: "qp",
    rings: 2,
    create: |bench, init| Qp::create(&bench.pd, init).map(|_| init.clone()),
    // RQ's offset and size, SQ's.
    rxe_answers: &[
        ("ones", libc::EOVERFLOW),
        ("zeros", libc::EIO),
        ("8=100", libc::EIO),
        ("8=1000", libc::EIO),
        ("0^40000000", libc::EINVAL),
        ("0^1", libc::EINVAL),
        ("18=100", libc::EIO),
        ("18=1000", libc::EIO),
        ("10^40000000", libc::EINVAL),
        ("10^1", libc::EINVAL),
    ],
    // QP number, counts of SQ and RQ, their keys.
    siw_answers: &[
        ("ones", libc::EIO),
        ("zeros", libc::EIO),
        ("4=3", libc::EIO),
        ("4=10", libc::EINVAL),
        ("4=80000000", libc::EINVAL),
        ("8=3", libc::EIO),
        ("8=10", libc::EINVAL),
        ("8=0", libc::EIO),
        ("10^40000000", libc::EINVAL),
        ("10=90000", libc::EINVAL),
        ("18^40000000", libc::EINVAL),
        ("18=90000", libc::EINVAL),
    ],
};

const SRQ: Object = Object {
    name: "srq",
    rings: 1,
    create: |bench, init| {
        Ok(QpInit {
            srq: Some(Srq::create(&bench.pd, ENTRIES, 1)?),
            ..init.clone()
        })
    },
    // Offset, size.
    rxe_answers: &[
        ("ones", libc::EOVERFLOW),
        ("zeros", libc::EIO),
        ("8=100", libc::EIO),
        ("8=1000", libc::EIO),
        ("0^40000000", libc::EINVAL),
        ("0^1", libc::EINVAL),
    ],
    // Count, key.
    siw_answers: &[
        ("ones", libc::EIO),
        ("zeros", libc::EIO),
        ("0=3", libc::EIO),
        ("0=10", libc::EIO),
        ("0=80000000", libc::EINVAL),
        ("8^40000000", libc::EINVAL),
        ("8=90000", libc::EINVAL),
    ],
};

/// Scribbles that make the header of an rxe ring impossible: log₂ of the slots' size, index mask.
const HEADERS: [&str; 8] = [
    "ones",
    "zeros",
    // Slots of 8 bytes, of 2^63 and of 2^64.
    "0=3",
    "0=3f",
    "0=40",
    // Three slots, 2^32, and fewer than were asked for.
    "4=2",
    "4=ffffffff",
    "4=f",
];

pub(super) fn add(suite: &mut Suite) {
    for device in Device::ALL {
        for object in [CQ, QP, SRQ] {
            let mut add = |kind, faults: Vec<(String, i32)>, stock_fault: Option<&'static str>| {
                let name = format!("faults/{device}/create_{}/{kind}", object.name);
                case(suite, name, move || create(device, object, &faults))
                    .within(60)
                    .beyond_stock(stock_fault);
            };
            let rings = 1..=object.rings;
            let mmaps = rings
                .clone()
                .map(|ring| (format!("mmap:{ring}"), MMAP_ERRNO));
            add("mmap", mmaps.collect(), None);
            let answers = device.pick(object.rxe_answers, object.siw_answers);
            let answer = |(how, errno): &Impossible| (format!("answer:1:{how}"), *errno);
            add(
                "answer",
                answers.iter().map(answer).collect(),
                Some(BELIEVES),
            );
            if device == Device::Rxe {
                let headers = rings
                    .flat_map(|ring| HEADERS.map(|how| (format!("ring:{ring}:{how}"), libc::EIO)));
                add("header", headers.collect(), Some(BELIEVES));
            }
        }
    }
}

/// The creation succeeds, fails under each fault, and each time succeeds again; the last object
/// works.
fn create(device: Device, object: Object, faults: &[(String, i32)]) -> Outcome {
    let bench = Bench::open(device)?;
    let caps = Caps {
        send_wr: ENTRIES,
        recv_wr: ENTRIES,
        ..Caps::default()
    };
    let init = bench.init(Transport::Rc, caps)?;
    let create = || (object.create)(&bench, &init);
    drop(create()?);
    for (fault, errno) in faults {
        fails(device, fault, *errno, || create().map(drop))?;
        drop(create()?);
    }
    messages_arrive(&bench, &create()?, 0)
}
