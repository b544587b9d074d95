// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause

//! Theme `contract`: what each verb says, and what it leaves behind when it does nothing.
//!
//! A [`table::Table`] for each verb: the calls, and the errno that each must return, or set beside
//! NULL. A call that is refused leaves nothing in the kernel, the process or on the heap, and the
//! object that it was made on works afterwards. `tests/README.md` says where the verbs are tested that
//! have no table here.

mod ah;
mod capacity;
mod cq;
mod create_qp;
mod modify_qp;
mod mr;
mod mw;
mod pd;
mod qp;
mod srq;
mod table;

use guest::links::Device;
use guest::pair::{Bench, Pair};
use guest::suite::{Outcome, Suite};
use guest::verbs::{Caps, RecvWr, SendWr, Transport};

/// Adds the cases of this theme.
pub(crate) fn add(suite: &mut Suite) {
    for device in Device::ALL {
        pd::add(suite, device);
        mr::add(suite, device);
        cq::add(suite, device);
        srq::add(suite, device);
        create_qp::add(suite, device);
        modify_qp::add(suite, device);
        qp::add(suite, device);
        capacity::add(suite, device);
        mw::add(suite, device);
        ah::add(suite, device);
    }
}

/// A message arrives, once: the device, and what `bench` has, works.
fn works(bench: &Bench) -> Outcome {
    let init = bench.init(Transport::Rc, Caps::default())?;
    let other = bench.init(Transport::Rc, Caps::default())?;
    let (sender, receiver) = bench.connect(&init, &other)?;
    let memory = bench.memory(16)?;
    memory.write(0, b"contract");
    receiver.post_recv(&[RecvWr::new(1, &[memory.sge(8, 8)])])?;
    sender.post_send(&[SendWr::send(&[memory.sge(0, 8)]).id(2).signaled()])?;
    assert_eq!(other.recv_cq.take_one()?.ok().wr_id, 1);
    assert_eq!(init.send_cq.take_one()?.ok().wr_id, 2);
    assert_eq!(memory.read(8..16), b"contract");
    Ok(())
}

/// Messages arrive in both directions, each once.
fn pair_works(pair: &Pair) -> Outcome {
    let memory = pair.bench.memory(16)?;
    for (sender, receiver) in pair.directions() {
        receiver
            .qp
            .post_recv(&[RecvWr::new(1, &[memory.sge(8, 8)])])?;
        let send = SendWr::send(&[memory.sge(0, 8)]).id(2).signaled();
        sender.qp.post_send(&[send])?;
        assert_eq!(receiver.recv_cq.take_one()?.ok().wr_id, 1);
        assert_eq!(sender.send_cq.take_one()?.ok().wr_id, 2);
    }
    Ok(())
}
