// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause

//! Every object, created and destroyed a thousand times.

use std::io;

use guest::links::Device;
use guest::pair::Bench;
use guest::suite::{Case, Outcome, Stop, Suite};
use guest::verbs::{
    Ah, Caps, CompChannel, Context, Cq, Mr, Mw, Pd, Qp, QpInit, RecvWr, SendWr, Srq, Td, Transport,
};

use super::usage::{Usage, returns_resources};

/// Creations and destructions of an object.
const CYCLES: usize = 1000;

/// The same of what takes long, a context for instance, whose end waits for an RCU grace period,
/// or says little new.
const FEWER: usize = 200;

/// Creations and destructions before the first look: what is allocated once is there then.
const WARM_UP: usize = 20;

pub(super) fn add(suite: &mut Suite) {
    for device in Device::ALL {
        let mut object = Objects {
            suite,
            device,
            cycles: CYCLES,
        };
        object.cycles = FEWER;
        object.case("context", |bench, _| Context::open(bench.device.ibdev()));
        object.cycles = CYCLES;
        object.case("pd", |bench, _| Pd::alloc(&bench.context));
        object
            .case("domains", |bench, _| {
                Pd::parent(&bench.pd, Some(&Td::alloc(&bench.context, 0)?))
            })
            .beyond_stock("the stock providers have neither parent nor thread domains");
        object.case("mr", |bench, _| bench.memory(10_000));
        object.case("comp_channel", |bench, _| {
            CompChannel::create(&bench.context)
        });
        object.case("cq", |bench, _| bench.cq(100));
        object.case("cq_on_channel", |bench, _| {
            let cq = Cq::on_channel(&CompChannel::create(&bench.context)?, 100)?;
            cq.arm(false).map(|()| cq)
        });
        object.case("srq", |bench, _| Srq::create(&bench.pd, 100, 2));
        object.case("qp_rc", |bench, init| Qp::create(&bench.pd, init));
        object.case("qp_rc_on_srq", |bench, init| {
            let srq = Some(Srq::create(&bench.pd, 16, 1)?);
            Qp::create(
                &bench.pd,
                &QpInit {
                    srq,
                    ..init.clone()
                },
            )
        });
        if device == Device::Rxe {
            object.cycles = FEWER;
            object.case("qp_uc", |bench, init| qp(bench, init, Transport::Uc));
            object.case("qp_ud", |bench, init| qp(bench, init, Transport::Ud));
            object.cycles = CYCLES;
            object.case("ah", |bench, _| {
                Ah::create(&bench.pd, bench.device.address())
            });
            object.case("mw", |bench, _| Mw::alloc(&bench.pd));
        }
        suite.case(format!("leaks/{device}/connected_pair"), move || {
            connected_pairs(device)
        });
    }
}

fn qp(bench: &Bench, init: &QpInit, transport: Transport) -> io::Result<Qp> {
    Qp::create(
        &bench.pd,
        &QpInit {
            transport,
            ..init.clone()
        },
    )
}

/// The cases of one device.
struct Objects<'s> {
    suite: &'s mut Suite,
    device: Device,
    cycles: usize,
}

impl Objects<'_> {
    /// Adds the case of an object that `create` makes and that goes when it is dropped. It gets
    /// a description of a QP whose CQs stay.
    fn case<T: 'static, E: Into<Stop> + 'static>(
        &mut self,
        name: &str,
        create: fn(&Bench, &QpInit) -> Result<T, E>,
    ) -> &mut Case {
        let (device, cycles) = (self.device, self.cycles);
        self.suite.case(format!("leaks/{device}/{name}"), move || {
            returns_resources(device, || {
                let bench = Bench::open_directly(device)?;
                let init = bench.init(Transport::Rc, Caps::default())?;
                let cycle = || create(&bench, &init).map(drop).map_err(Into::into);
                many(cycles, cycle)
            })
        })
    }
}

/// Runs `cycle` a few times, looks, runs it `cycles` times and looks again.
fn many(cycles: usize, cycle: impl Fn() -> Outcome) -> Outcome {
    for _ in 0..WARM_UP {
        cycle()?;
    }
    let before = Usage::now()?;
    for _ in 0..cycles {
        cycle()?;
    }
    before.assert_flat(&Usage::now()?);
    Ok(())
}

/// Pairs that go in the middle of their work: receives posted, completions not polled.
fn connected_pairs(device: Device) -> Outcome {
    let bench = Bench::open(device)?;
    let memory = bench.memory(64)?;
    returns_resources(device, || many(FEWER, || used_pair(&bench, &memory)))
}

fn used_pair(bench: &Bench, memory: &Mr) -> Outcome {
    let init = bench.init(Transport::Rc, Caps::default())?;
    let (sender, receiver) = bench.connect(&init, &init)?;
    let recvs: Vec<_> = (0..8)
        .map(|at| RecvWr::new(at, &[memory.sge(0, 8)]))
        .collect();
    receiver.post_recv(&recvs)?;
    let send = SendWr::send(&[memory.sge(8, 8)]).signaled();
    sender.post_send(&[send.clone(), send.clone(), send])?;
    init.recv_cq.take_one()?.ok();
    Ok(())
}
