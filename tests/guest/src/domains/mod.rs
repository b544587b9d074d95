// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause

//! Theme `domains`: what is made with a parent domain is as if made with its PD, also in a thread
//! domain, and keeps both.

mod death;
mod in_use;
mod refused;

use std::sync::Arc;

use guest::links::Device;
use guest::pair::{Bench, Pair};
use guest::payload::message;
use guest::suite::{Case, Outcome, Suite};
use guest::verbs::{
    Caps, Cq, Mr, Pd, QpInit, REMOTE_ACCESS, RecvWr, SendWr, Td, Transport, attributes_ex,
    send_ops, sys,
};

/// What both stock providers lack.
const NONE: &str = "the stock providers have neither domain";

/// Adds the cases of this theme.
pub(crate) fn add(suite: &mut Suite) {
    for device in Device::ALL {
        case(suite, device, "interchangeable", interchangeable);
        case(suite, device, "nested", nested);
    }
    in_use::add(suite);
    refused::add(suite);
    death::add(suite);
}

fn case<'s>(
    suite: &'s mut Suite,
    device: Device,
    name: &str,
    run: fn(Device) -> Outcome,
) -> &'s mut Case {
    suite.on("domains", device, name, run).beyond_stock(NONE)
}

/// QPs and memory of a PD and of its parent domains go together, whichever is of which.
fn interchangeable(device: Device) -> Outcome {
    let bench = Bench::open(device)?;
    let td = Td::alloc(&bench.context, 0)?;
    let domains = [
        bench.pd.clone(),
        Pd::parent(&bench.pd, None)?,
        Pd::parent(&bench.pd, Some(&td))?,
        Pd::parent(&bench.pd, Some(&td))?,
    ];
    drop((bench, td));
    for of_qps in &domains {
        for of_memory in &domains {
            works(device, of_qps, of_memory)?;
        }
    }
    Ok(())
}

/// A parent domain of a parent domain is one of the PD.
fn nested(device: Device) -> Outcome {
    let bench = Bench::open(device)?;
    let td = Td::alloc(&bench.context, 0)?;
    let parent = Pd::parent(&bench.pd, Some(&td))?;
    let grandparent = Pd::parent(&parent, None)?;
    assert_eq!(parent.dealloc_in_use().raw_os_error(), Some(libc::EBUSY));
    works(device, &grandparent, &parent)?;
    works(device, &bench.pd, &grandparent)
}

/// Messages arrive at QPs of one domain, from and in memory of the other: by either API, into CQs of either kind.
fn works(device: Device, of_qps: &Arc<Pd>, of_memory: &Arc<Pd>) -> Outcome {
    let bench = Bench {
        device,
        context: of_qps.context().clone(),
        pd: of_qps.clone(),
    };
    let memory = |len| Mr::register(of_memory, len, REMOTE_ACCESS);
    let (from, to) = (memory(8)?, memory(8)?);
    let in_domain = || Cq::create_in(of_qps, None, attributes_ex(64, sys::IBV_WC_STANDARD_FLAGS));
    let plain = bench.init(Transport::Rc, Caps::default())?;
    let extended = QpInit {
        send_cq: in_domain()?,
        recv_cq: in_domain()?,
        send_ops: Some(send_ops(device, Transport::Rc)),
        ..plain.clone()
    };
    let pair = Pair::of(bench, plain, extended)?;
    for number in 0..10 {
        for (sender, receiver) in pair.directions() {
            let sent = message(number, 8);
            from.write(0, &sent);
            receiver
                .qp
                .post_recv(&[RecvWr::new(number, &[to.sge(0, 8)])])?;
            let send = [SendWr::send(&[from.sge(0, 8)]).id(number).signaled()];
            if sender.qp.has_drafts() {
                sender.qp.post_draft(&send)?;
            } else {
                sender.qp.post_send(&send)?;
            }
            assert_eq!(receiver.recv_cq.take_one()?.ok().wr_id, number);
            assert_eq!(sender.send_cq.take_one()?.ok().wr_id, number);
            assert_eq!(to.read(0..8), sent);
        }
    }
    Ok(())
}
