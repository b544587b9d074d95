// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause

//! Requests posted in a state that does not take them.

use guest::links::Device;
use guest::pair::{Bench, End, Pair};
use guest::suite::{Outcome, Suite};
use guest::verbs::{Caps, Qp, RecvWr, SendWr, Transport};

use super::{assert_works, refusal};

pub(super) fn add(suite: &mut Suite) {
    for device in Device::ALL {
        suite
            .on("bad_input", device, "send_before_rts", send_before_rts)
            .beyond_stock("the refused request stays in the ring");
        suite
            .on("bad_input", device, "recv_in_reset", recv_in_reset)
            .beyond_stock(device.pick("bad_wr is null", "the request is accepted"));
    }
}

/// A send before RTS is refused, and it is not remembered either: nothing of it completes or
/// arrives once the QP is connected.
fn send_before_rts(device: Device) -> Outcome {
    let bench = Bench::open(device)?;
    let a = bench.init(Transport::Rc, Caps::default())?;
    let b = bench.init(Transport::Rc, Caps::default())?;
    let memory = bench.memory(64)?;
    let ghosts = [1, 2].map(|id| SendWr::send(&[memory.sge(0, 8)]).id(id).signaled());
    let (qp_a, qp_b) = bench.connect_watched(&a, &b, |qp| {
        assert_eq!(qp.post_send(&ghosts), refusal(libc::EINVAL, 0));
        Ok(())
    })?;
    let pair = Pair {
        bench,
        a: End {
            qp: qp_a,
            send_cq: a.send_cq,
            recv_cq: a.recv_cq,
        },
        b: End {
            qp: qp_b,
            send_cq: b.send_cq,
            recv_cq: b.recv_cq,
        },
    };
    assert_works(&pair)
}

fn recv_in_reset(device: Device) -> Outcome {
    let bench = Bench::open_directly(device)?;
    let init = bench.init(Transport::Rc, Caps::default())?;
    let qp = Qp::create(&bench.pd, &init)?;
    let memory = bench.memory(64)?;
    let recvs = [1, 2].map(|id| RecvWr::new(id, &[memory.sge(0, 8)]));
    assert_eq!(qp.post_recv(&recvs), refusal(libc::EINVAL, 0));
    drop(qp);
    assert_eq!(
        init.recv_cq.poll_one()?.map(|wc| wc.wr_id),
        None,
        "it was flushed"
    );
    Ok(())
}
