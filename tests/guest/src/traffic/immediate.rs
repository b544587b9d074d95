// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause

//! Immediate data, which rxe carries and iWARP does not know.

use guest::links::Device;
use guest::pair::Pair;
use guest::payload::message;
use guest::suite::{Outcome, Suite};
use guest::verbs::{RecvWr, SendWr, Transport, sys};

pub(super) fn add(suite: &mut Suite) {
    for (name, transport) in [("rc", Transport::Rc), ("uc", Transport::Uc)] {
        suite.case(format!("traffic/rxe/{name}/send_with_imm"), move || {
            send(transport)
        });
        suite.case(format!("traffic/rxe/{name}/write_with_imm"), move || {
            write(transport)
        });
    }
}

/// Bytes of the messages: nothing, one packet, three packets.
const SIZES: [usize; 3] = [0, 100, 2500];

fn send(transport: Transport) -> Outcome {
    let pair = Pair::new(Device::Rxe, transport)?;
    let (from, to) = (pair.bench.memory(4096)?, pair.bench.memory(4096)?);
    for (number, len) in (0x8000_0001_u32..).zip(SIZES) {
        let sent = message(number.into(), len);
        from.write(0, &sent);
        pair.b.qp.post_recv(&[RecvWr::new(1, &[to.sge(0, len)])])?;
        pair.a
            .qp
            .post_send(&[SendWr::send(&[from.sge(0, len)]).imm(number).signaled()])?;
        let received = pair.b.recv_cq.take_one()?.ok();
        assert_eq!(received.opcode, sys::IBV_WC_RECV);
        assert_eq!(
            received.wc_flags & sys::IBV_WC_WITH_IMM,
            sys::IBV_WC_WITH_IMM
        );
        assert_eq!((received.imm(), received.byte_len as usize), (number, len));
        assert!(to.read(0..len) == sent, "{len} bytes arrived changed");
        assert_eq!(pair.a.send_cq.take_one()?.ok().opcode, sys::IBV_WC_SEND);
    }
    Ok(())
}

fn write(transport: Transport) -> Outcome {
    let pair = Pair::new(Device::Rxe, transport)?;
    let (from, to) = (pair.bench.memory(4096)?, pair.bench.memory(4096)?);
    for (number, len) in (0x8000_0001_u32..).zip(SIZES) {
        let sent = message(number.into(), len);
        from.write(0, &sent);
        pair.b.qp.post_recv(&[RecvWr::new(1, &[])])?;
        let write = SendWr::write(&[from.sge(0, len)], to.remote(0))
            .imm(number)
            .signaled();
        pair.a.qp.post_send(&[write])?;
        let received = pair.b.recv_cq.take_one()?.ok();
        assert_eq!(received.opcode, sys::IBV_WC_RECV_RDMA_WITH_IMM);
        assert_eq!(
            received.wc_flags & sys::IBV_WC_WITH_IMM,
            sys::IBV_WC_WITH_IMM
        );
        assert_eq!((received.imm(), received.byte_len as usize), (number, len));
        assert!(to.read(0..len) == sent, "{len} bytes arrived changed");
        assert_eq!(
            pair.a.send_cq.take_one()?.ok().opcode,
            sys::IBV_WC_RDMA_WRITE
        );
    }
    Ok(())
}
