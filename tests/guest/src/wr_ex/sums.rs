// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause

//! The sum of the bytes that arrive is that of those that were sent, by either API, inline or not, in
//! one piece, in lists, and in lists with empty entries.

use std::env;

use guest::links::Device;
use guest::pair::QKEY;
use guest::payload::message;
use guest::suite::{Outcome, Stop, Suite};
use guest::verbs::{Ah, Caps, RecvWr, SendWr, Sge, Transport};

use super::{case, pair};

/// Bytes in front of a datagram.
const GRH: usize = 40;

/// Lengths of the entries of a message; the first have room inline.
const LISTS: [&[usize]; 12] = [
    &[17],
    &[1],
    &[3, 30],
    &[20, 0, 20],
    &[0, 9],
    &[9, 0],
    &[0, 0, 0],
    &[1, 2, 3, 4],
    &[16, 16, 16, 16],
    &[500],
    &[100, 200, 300],
    &[0, 333, 0, 400],
];
/// How many of the lists can be sent inline.
const INLINE: usize = 9;

pub(super) fn add(suite: &mut Suite) {
    for (device, name, transport) in [
        (Device::Rxe, "rc", Transport::Rc),
        (Device::Rxe, "uc", Transport::Uc),
        (Device::Rxe, "ud", Transport::Ud),
        (Device::Siw, "rc", Transport::Rc),
    ] {
        case(suite, device, &format!("{name}/sums_of_lists"), move |_| {
            sums(device, transport, false)
        })
        .beyond_stock(device.pick(
            Some("wr_set_sge_list counts the first entry's bytes for each"),
            Some(super::NONE),
        ));
        case(suite, device, &format!("{name}/sums_inline"), move |_| {
            sums(device, transport, true)
        })
        .beyond_stock(device.pick(Some(super::FLAGLESS), Some(super::NONE)));
    }
    for device in Device::ALL {
        case(suite, device, "rc/sums_of_limits", limits).beyond_stock(device.pick(
            Some("the setters do nothing, or count the first entry's bytes for each"),
            Some(super::NONE),
        ));
    }
}

fn sum(bytes: &[u8]) -> u64 {
    bytes.iter().map(|byte| u64::from(*byte)).sum()
}

fn sums(device: Device, transport: Transport, inline: bool) -> Outcome {
    if device == Device::Siw && env::var("PROVIDER").as_deref() != Ok("lastwqe") {
        return Err(Stop::skip(
            "libsiw has no extended QP, and the kernel follows a null pointer of the other (siw_tx_hdt)",
        ));
    }
    let pair = pair(device, transport, Caps::default())?;
    let (from, to) = (pair.bench.memory(1024)?, pair.bench.memory(1024 + GRH)?);
    let head = if transport == Transport::Ud { GRH } else { 0 };
    let ah = match transport {
        Transport::Ud => Some(Ah::create(&pair.bench.pd, device.address())?),
        Transport::Rc | Transport::Uc => None,
    };
    let lists = if inline { &LISTS[..INLINE] } else { &LISTS[..] };
    for (number, lengths) in lists.iter().cycle().take(3 * lists.len()).enumerate() {
        for by_draft in [false, true] {
            let len: usize = lengths.iter().sum();
            let sent = message(number as u64, len);
            from.write(0, &sent);
            to.fill(0);
            let sges: Vec<Sge<'_>> = from.sges(0, lengths);
            let mut wr = SendWr::send(&sges).id(number as u64).signaled();
            if let Some(ah) = &ah {
                wr = wr.to(ah, pair.b.qp.number(), QKEY);
            }
            if inline {
                wr = wr.inline();
            }
            pair.b
                .qp
                .post_recv(&[RecvWr::new(1, &[to.sge(0, 1024 + head)])])?;
            if by_draft {
                pair.a.qp.post_draft(&[wr])?;
            } else {
                pair.a.qp.post_send(&[wr])?;
            }
            if inline {
                from.fill(0);
            }
            let received = pair.b.recv_cq.take_one()?.ok();
            assert_eq!(pair.a.send_cq.take_one()?.ok().wr_id, number as u64);
            let what = format!("{lengths:?}, by draft {by_draft}");
            assert_eq!(received.byte_len as usize, head + len, "{what}");
            let arrived = to.read(head..head + 1000);
            assert_eq!(sum(&arrived), sum(&sent), "{what}");
            assert!(arrived[..len] == sent, "{what}: the order changed");
        }
    }
    Ok(())
}

/// As much as a request can have, and a little less: the most elements and the most inline bytes of the
/// device, in one piece and in the most pieces, by either API; what is more is refused.
fn limits(device: Device) -> Outcome {
    let (elements, bytes) = device.pick((32, 512), (6, 80));
    let caps = Caps {
        send_sge: elements,
        recv_sge: elements,
        inline: bytes,
        ..Caps::default()
    };
    let pair = pair(device, Transport::Rc, caps)?;
    let (elements, bytes) = (elements as usize, bytes as usize);
    let (from, to) = (pair.bench.memory(1 << 16)?, pair.bench.memory(1 << 16)?);
    let lists = [
        // Out of line: bytes, short messages, more than a packet, and an odd end.
        (false, vec![1; elements]),
        (false, vec![2000; elements]),
        (false, vec![1024; elements - 1]),
        (false, [vec![1; elements - 1], vec![30_001]].concat()),
        (true, vec![bytes]),
        (true, vec![bytes - 1]),
        (
            true,
            [vec![bytes - elements + 1], vec![1; elements - 1]].concat(),
        ),
        (
            true,
            [vec![1; elements - 1], vec![bytes - elements]].concat(),
        ),
    ];
    for (inline, lengths) in lists {
        for by_draft in [false, true] {
            let sent = message(lengths.len() as u64, lengths.iter().sum());
            from.write(0, &sent);
            to.fill(0);
            let send = SendWr::send(&from.sges(0, &lengths)).id(1).signaled();
            let write = SendWr::write(&from.sges(0, &lengths), to.remote(1 << 15)).id(2);
            let halves = sent.len() <= 1 << 15;
            let list: Vec<_> = [write.signaled(), send]
                .into_iter()
                .skip(usize::from(!halves))
                .map(|wr| if inline { wr.inline() } else { wr })
                .collect();
            let room = if halves { 1 << 15 } else { 1 << 16 };
            pair.b.qp.post_recv(&[RecvWr::new(1, &[to.sge(0, room)])])?;
            if by_draft {
                pair.a.qp.post_draft(&list)?;
            } else {
                pair.a.qp.post_send(&list)?;
            }
            if inline {
                from.fill(0);
            }
            for wc in pair.a.send_cq.take(list.len())? {
                wc.ok();
            }
            let what = format!("{lengths:?}, inline {inline}, by draft {by_draft}");
            let received = pair.b.recv_cq.take_one()?.ok();
            assert_eq!(received.byte_len as usize, sent.len(), "{what}");
            assert!(to.read(0..sent.len()) == sent, "{what}: sent");
            if halves {
                let written = to.read(1 << 15..(1 << 15) + sent.len());
                assert!(written == sent, "{what}: written");
            }
        }
    }
    Ok(())
}
