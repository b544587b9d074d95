// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause

//! A domain that is in use is not deallocated, and goes on to be of use.

use std::any::Any;
use std::sync::Arc;

use guest::links::Device;
use guest::pair::Bench;
use guest::suite::{Outcome, Stop, Suite};
use guest::verbs::{
    Ah, Caps, Cq, Mr, Mw, Pd, Qp, QpInit, REMOTE_ACCESS, Srq, Td, Transport, attributes_ex,
    send_ops,
};

use super::{case, works};

pub(super) fn add(suite: &mut Suite) {
    for device in Device::ALL {
        case(suite, device, "in_use", in_use);
    }
}

/// Makes something with a domain.
type Make = fn(&Bench, &Arc<Pd>) -> Result<Box<dyn Any>, Stop>;

const EVERYWHERE: &[(&str, Make)] = &[
    ("an MR", |_, pd| {
        Ok(Box::new(Mr::register(pd, 64, REMOTE_ACCESS)?))
    }),
    ("a QP", |bench, pd| {
        let init = bench.init(Transport::Rc, Caps::default())?;
        Ok(Box::new(Qp::create(pd, &init)?))
    }),
    ("an extended QP", |bench, pd| {
        let init = QpInit {
            send_ops: Some(send_ops(bench.device, Transport::Rc)),
            ..bench.init(Transport::Rc, Caps::default())?
        };
        Ok(Box::new(Qp::create(pd, &init)?))
    }),
    ("an SRQ", |_, pd| Ok(Box::new(Srq::create(pd, 8, 1)?))),
    ("a CQ", |_, pd| {
        Ok(Box::new(Cq::create_in(pd, None, attributes_ex(8, 0))?))
    }),
    ("a parent domain", |_, pd| {
        Ok(Box::new(Pd::parent(pd, None)?))
    }),
];

const ON_RXE: &[(&str, Make)] = &[
    ("an AH", |bench, pd| {
        Ok(Box::new(Ah::create(pd, bench.device.address())?))
    }),
    ("a memory window", |_, pd| Ok(Box::new(Mw::alloc(pd)?))),
];

/// Whatever is made with a parent domain keeps it, its PD and its thread domain, and nothing else does.
fn in_use(device: Device) -> Outcome {
    let bench = Bench::open(device)?;
    let busy = |error: std::io::Error| error.raw_os_error() == Some(libc::EBUSY);
    for (what, make) in EVERYWHERE.iter().chain(device.pick(ON_RXE, &[])) {
        let pd = Pd::alloc(&bench.context)?;
        let td = Td::alloc(&bench.context, 0)?;
        let parent = Pd::parent(&pd, Some(&td))?;
        assert!(busy(pd.dealloc_in_use()), "the PD of a parent domain");
        assert!(busy(td.dealloc_in_use()), "the thread domain of one");
        let object = make(&bench, &parent)?;
        for _ in 0..2 {
            assert!(busy(parent.dealloc_in_use()), "the domain of {what}");
            assert!(busy(pd.dealloc_in_use()), "the PD of the domain of {what}");
            assert!(busy(td.dealloc_in_use()), "its thread domain");
        }
        works(device, &parent, &pd)?;
        drop(object);
        // Each is dropped here, which fails if it is still in use.
        drop((parent, td));
        let object = make(&bench, &pd)?;
        assert!(busy(pd.dealloc_in_use()), "the PD of {what}");
        drop(object);
    }
    Ok(())
}
