// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause

//! Messages of every size, in both directions.

use guest::links::Device;
use guest::pair::{End, Pair};
use guest::payload::message;
use guest::suite::{Outcome, Suite};
use guest::verbs::{Mr, RecvWr, SendWr, Transport};

/// Bytes: nothing, the borders of words, packets and pages with their neighbours, and 1 MiB.
const SIZES: [usize; 12] = [
    0,
    1,
    2,
    7,
    64,
    1023,
    1024,
    1025,
    4096,
    65_537,
    1 << 18,
    LARGEST,
];

const LARGEST: usize = 1 << 20;

/// Fills the memory around a message, so that a byte too many shows.
const BLANK: u8 = 0xee;

pub(super) fn add(suite: &mut Suite) {
    for device in Device::ALL {
        suite.case(format!("traffic/{device}/rc/send_sizes"), move || {
            in_all_sizes(device, Transport::Rc, send)
        });
        suite.case(format!("traffic/{device}/rc/write_sizes"), move || {
            in_all_sizes(device, Transport::Rc, write)
        });
        suite.case(format!("traffic/{device}/rc/read_sizes"), move || {
            in_all_sizes(device, Transport::Rc, read)
        });
    }
    suite.case("traffic/rxe/uc/send_sizes", || {
        in_all_sizes(Device::Rxe, Transport::Uc, send)
    });
    suite.case("traffic/rxe/uc/write_sizes", || {
        in_all_sizes(Device::Rxe, Transport::Uc, write)
    });
}

/// A transfer of the first `len` bytes from one MR to the other, by the first end or by the
/// second, until the receiver has it.
type Transfer = fn(&End, &End, &Mr, &Mr, usize) -> Outcome;

fn in_all_sizes(device: Device, transport: Transport, transfer: Transfer) -> Outcome {
    let pair = Pair::new(device, transport)?;
    let (from, to) = (
        pair.bench.memory(LARGEST + 1)?,
        pair.bench.memory(LARGEST + 1)?,
    );
    for (number, len) in (1..).zip(SIZES) {
        for (sender, receiver) in pair.directions() {
            let sent = message(number, len);
            from.write(0, &sent);
            to.fill(BLANK);
            transfer(sender, receiver, &from, &to, len)?;
            assert!(to.read(0..len) == sent, "{len} bytes arrived changed");
            assert_eq!(
                to.read(len..len + 1),
                [BLANK],
                "{len} bytes overran their buffer"
            );
        }
    }
    Ok(())
}

fn send(sender: &End, receiver: &End, from: &Mr, to: &Mr, len: usize) -> Outcome {
    receiver
        .qp
        .post_recv(&[RecvWr::new(1, &[to.sge(0, len)])])?;
    sender
        .qp
        .post_send(&[SendWr::send(&[from.sge(0, len)]).id(2).signaled()])?;
    let received = receiver.recv_cq.take_one()?.ok();
    assert_eq!((received.wr_id, received.byte_len as usize), (1, len));
    assert_eq!(sender.send_cq.take_one()?.ok().wr_id, 2);
    Ok(())
}

/// Only the SEND behind it tells that a WRITE has arrived: on siw, and on UC, its completion
/// means no more than that it is on its way.
fn write(sender: &End, receiver: &End, from: &Mr, to: &Mr, len: usize) -> Outcome {
    receiver
        .qp
        .post_recv(&[RecvWr::new(1, &[to.sge(LARGEST, 1)])])?;
    from.write(LARGEST, &[BLANK]);
    sender.qp.post_send(&[
        SendWr::write(&[from.sge(0, len)], to.remote(0))
            .id(2)
            .signaled(),
        SendWr::send(&[from.sge(LARGEST, 1)]).id(3).signaled(),
    ])?;
    assert_eq!(receiver.recv_cq.take_one()?.ok().wr_id, 1);
    let done = sender.send_cq.take(2)?;
    assert_eq!((done[0].ok().wr_id, done[1].ok().wr_id), (2, 3));
    Ok(())
}

/// The receiver pulls.
fn read(_sender: &End, receiver: &End, from: &Mr, to: &Mr, len: usize) -> Outcome {
    let read = SendWr::read(&[to.sge(0, len)], from.remote(0))
        .id(4)
        .signaled();
    receiver.qp.post_send(&[read])?;
    assert_eq!(receiver.send_cq.take_one()?.ok().wr_id, 4);
    Ok(())
}
