// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause

//! Scatter/gather lists of every length the device allows.

use std::env;

use guest::links::Device;
use guest::pair::Pair;
use guest::payload::{Random, cut, message};
use guest::suite::{Outcome, Stop, Suite};
use guest::verbs::{Caps, Mr, RecvWr, SendWr, Sge, Transport};

/// Bytes of the longest message.
const LONGEST: usize = 3000;

/// Fills the gaps between the pieces.
const BLANK: u8 = 0xee;

pub(super) fn add(suite: &mut Suite) {
    for device in Device::ALL {
        suite.case(format!("traffic/{device}/rc/sge_lists"), move || {
            sends(device)
        });
        suite.case(format!("traffic/{device}/rc/sge_lists_rdma"), move || {
            writes_and_reads(device)
        });
        suite.case(format!("traffic/{device}/rc/empty_sges"), move || {
            empty_elements(device)
        });
    }
}

/// Pieces of an MR with gaps between them.
struct Pieces<'m> {
    mr: &'m Mr,
    places: Vec<(usize, usize)>,
}

impl<'m> Pieces<'m> {
    fn lay_out(random: &mut Random, mr: &'m Mr, lengths: &[usize]) -> Self {
        mr.fill(BLANK);
        let mut next = 0;
        let places = lengths.iter().map(|&len| {
            let from = next + random.between(1, 9);
            next = from + len;
            (from, len)
        });
        Self {
            mr,
            places: places.collect(),
        }
    }

    fn sges(&self) -> Vec<Sge<'m>> {
        self.places
            .iter()
            .map(|&(from, len)| self.mr.sge(from, len))
            .collect()
    }

    fn write(&self, bytes: &[u8]) {
        let mut rest = bytes;
        for &(from, len) in &self.places {
            let (piece, others) = rest.split_at(len);
            self.mr.write(from, piece);
            rest = others;
        }
    }

    /// The contents of the pieces; the gaps must be as they were.
    fn read(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        let mut gap = 0;
        for &(from, len) in &self.places {
            assert!(
                self.mr.read(gap..from).iter().all(|&byte| byte == BLANK),
                "a gap was written"
            );
            bytes.extend(self.mr.read(from..from + len));
            gap = from + len;
        }
        assert!(
            self.mr.read(gap..gap + 9).iter().all(|&byte| byte == BLANK),
            "the end was passed"
        );
        bytes
    }
}

fn limit(device: Device) -> (Caps, usize) {
    let sges = device.pick(32, 6);
    (
        Caps {
            send_sge: sges,
            recv_sge: sges,
            ..Caps::default()
        },
        sges as usize,
    )
}

fn sends(device: Device) -> Outcome {
    let (caps, limit) = limit(device);
    let mut random = Random::replayable();
    let pair = Pair::with(device, Transport::Rc, caps)?;
    let room = LONGEST + 10 * limit + 10;
    let (from, to) = (pair.bench.memory(room)?, pair.bench.memory(room)?);
    for count in 1..=limit {
        let sent = message(count as u64, random.between(limit, LONGEST));
        let lengths = cut(&mut random, sent.len(), count);
        let source = Pieces::lay_out(&mut random, &from, &lengths);
        let lengths = cut(&mut random, sent.len(), limit + 1 - count);
        let sink = Pieces::lay_out(&mut random, &to, &lengths);
        source.write(&sent);
        pair.b.qp.post_recv(&[RecvWr::new(1, &sink.sges())])?;
        pair.a
            .qp
            .post_send(&[SendWr::send(&source.sges()).signaled()])?;
        assert_eq!(
            pair.b.recv_cq.take_one()?.ok().byte_len as usize,
            sent.len()
        );
        assert!(sink.read() == sent, "{count} elements arrived changed");
        pair.a.send_cq.take_one()?.ok();
    }
    Ok(())
}

fn writes_and_reads(device: Device) -> Outcome {
    let (caps, limit) = limit(device);
    let mut random = Random::replayable();
    let pair = Pair::with(device, Transport::Rc, caps)?;
    let room = LONGEST + 10 * limit + 10;
    let (local, far) = (pair.bench.memory(room)?, pair.bench.memory(room)?);
    for count in 1..=limit {
        let sent = message(count as u64, random.between(limit, LONGEST));
        let lengths = cut(&mut random, sent.len(), count);
        let pieces = Pieces::lay_out(&mut random, &local, &lengths);
        pieces.write(&sent);
        pair.a
            .qp
            .post_send(&[SendWr::write(&pieces.sges(), far.remote(0)).signaled()])?;
        pair.a.send_cq.take_one()?.ok();
        // Read back into as many pieces. iWARP reads into one (siw: max_sge_rd is 1). A READ
        // is executed after the WRITEs before it.
        let count = if device == Device::Siw { 1 } else { count };
        let lengths = cut(&mut random, sent.len(), count);
        let pieces = Pieces::lay_out(&mut random, &local, &lengths);
        pair.a
            .qp
            .post_send(&[SendWr::read(&pieces.sges(), far.remote(0)).signaled()])?;
        pair.a.send_cq.take_one()?.ok();
        assert!(pieces.read() == sent, "{count} elements came back changed");
    }
    Ok(())
}

/// Elements without bytes, anywhere in the lists of both sides, change nothing.
fn empty_elements(device: Device) -> Outcome {
    if device == Device::Siw && env::var("PROVIDER").as_deref() != Ok("lastwqe") {
        return Err(Stop::skip(
            "the kernel follows a null pointer (siw_tx_hdt) and the guest is gone",
        ));
    }
    let (caps, _) = limit(device);
    let pair = Pair::with(device, Transport::Rc, caps)?;
    let (from, to) = (pair.bench.memory(64)?, pair.bench.memory(64)?);
    for (number, lengths) in [[0, 0, 5], [0, 5, 0], [5, 0, 7], [0, 0, 0]]
        .into_iter()
        .enumerate()
    {
        let mut random = Random::replayable();
        let sent = message(number as u64, lengths.iter().sum());
        let source = Pieces::lay_out(&mut random, &from, &lengths);
        let sink = Pieces::lay_out(&mut random, &to, &lengths);
        source.write(&sent);
        pair.b.qp.post_recv(&[RecvWr::new(1, &sink.sges())])?;
        let send = SendWr::send(&source.sges()).signaled();
        pair.a.qp.post_send(&[send])?;
        let wc = pair.b.recv_cq.take_one()?.ok();
        assert_eq!(wc.byte_len as usize, sent.len(), "{lengths:?}");
        assert!(sink.read() == sent, "{lengths:?} arrived changed");
        pair.a.send_cq.take_one()?.ok();
    }
    Ok(())
}
