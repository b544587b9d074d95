// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause

//! `ibv_create_qp`; `ibv_create_qp_ex` has its own cases in `wr_ex`.

use std::ptr;
use std::sync::Arc;

use guest::links::Device;
use guest::pair::Bench;
use guest::suite::{Stop, Suite};
use guest::verbs::{Caps, Context, Cq, Pd, QpInit, Srq, Transport, sys};

use super::qp::sizes;
use super::table::{Row, Said, Table};
use super::works;

pub(super) fn add(suite: &mut Suite, device: Device) {
    Table {
        verb: "create_qp",
        device,
        stage: Stage::set,
        rows,
        works: |stage: &Stage| works(&stage.bench),
    }
    .add(suite);
}

struct Stage {
    bench: Bench,
    init: QpInit,
    srq: Arc<Srq>,
    limits: sys::ibv_device_attr,
    /// Of another open file of the device.
    foreign: Foreign,
}

struct Foreign {
    pd: Arc<Pd>,
    cq: Arc<Cq>,
    srq: Arc<Srq>,
}

impl Stage {
    fn set(device: Device) -> Result<Self, Stop> {
        let bench = Bench::open(device)?;
        let init = bench.init(Transport::Rc, Caps::default())?;
        let context = Context::open(device.ibdev())?;
        let pd = Pd::alloc(&context)?;
        // Handles are small numbers, given out by each file: the PD and the CQ have those of the bench's.
        Ok(Self {
            limits: bench.context.limits()?,
            foreign: Foreign {
                cq: Cq::create(&context, 4)?,
                srq: Srq::create(&pd, 4, 1)?,
                pd,
            },
            srq: Srq::create(&bench.pd, 4, 1)?,
            bench,
            init,
        })
    }

    /// Creates a QP of attributes that `change` has changed.
    fn create(&self, change: impl Fn(&mut sys::ibv_qp_init_attr)) -> Said {
        self.create_in(&self.bench.pd, change)
    }

    fn create_in(&self, pd: &Pd, change: impl Fn(&mut sys::ibv_qp_init_attr)) -> Said {
        let mut attributes = self.init.attributes();
        change(&mut attributes);
        let asked = attributes.cap;
        let said = Said::made(
            // SAFETY: PD and CQs are alive, or NULL, and the attributes are filled in.
            || unsafe { sys::ibv_create_qp(pd.raw(), &raw mut attributes) },
            sys::ibv_destroy_qp,
        );
        let (asked, has) = (sizes(&asked), sizes(&attributes.cap));
        match said {
            Said::Refused(_) => assert_eq!(has, asked, "an answer without a QP"),
            // A QP on an SRQ has no receives of its own.
            Said::Done if !attributes.srq.is_null() => {}
            Said::Done => assert!(
                has.iter().zip(asked).all(|(has, asked)| *has >= asked),
                "asked for {asked:?}, has {has:?}"
            ),
        }
        said
    }
}

/// A row whose attributes are `change`d.
fn refused(
    what: &'static str,
    errno: i32,
    change: fn(&mut sys::ibv_qp_init_attr, &sys::ibv_device_attr),
) -> Row<Stage> {
    Row::refused(what, errno, move |stage: &Stage| {
        stage.create(|attributes| change(attributes, &stage.limits))
    })
}

fn done(
    what: &'static str,
    change: fn(&mut sys::ibv_qp_init_attr, &sys::ibv_device_attr),
) -> Row<Stage> {
    Row::done(what, move |stage: &Stage| {
        stage.create(|attributes| change(attributes, &stage.limits))
    })
}

fn rows(device: Device) -> Vec<Row<Stage>> {
    let mut rows = vec![
        done("as it is", |_, _| {}),
        done("the least", |a, _| {
            a.cap = sys::ibv_qp_cap {
                max_send_wr: 1,
                max_recv_wr: 1,
                max_send_sge: 1,
                max_recv_sge: 1,
                max_inline_data: 0,
            };
        }),
        done("no elements", |a, _| {
            a.cap.max_send_sge = 0;
            a.cap.max_recv_sge = 0;
        }),
        done("most elements", |a, has| {
            a.cap.max_send_sge = has.max_sge.unsigned_abs();
            a.cap.max_recv_sge = has.max_sge.unsigned_abs();
        }),
        done("no receives", |a, _| a.cap.max_recv_wr = 0)
            .beyond_stock(device.pick(None, Some("libsiw cannot map a queue that is not there"))),
        refused("too many sends", libc::EINVAL, |a, has| {
            a.cap.max_send_wr = has.max_qp_wr.unsigned_abs() + 1;
        }),
        refused("most sends there are", libc::EINVAL, |a, _| {
            a.cap.max_send_wr = u32::MAX;
        }),
        refused("too many receives", libc::EINVAL, |a, has| {
            a.cap.max_recv_wr = has.max_qp_wr.unsigned_abs() + 1;
        }),
        refused("most receives there are", libc::EINVAL, |a, _| {
            a.cap.max_recv_wr = u32::MAX;
        }),
        refused("too many elements to send", libc::EINVAL, |a, has| {
            a.cap.max_send_sge = has.max_sge.unsigned_abs() + 1;
        }),
        refused("too many elements to receive", libc::EINVAL, |a, has| {
            a.cap.max_recv_sge = has.max_sge.unsigned_abs() + 1;
        }),
        refused("most elements there are", libc::EINVAL, |a, _| {
            a.cap.max_send_sge = u32::MAX;
        }),
        refused("too much inline data", libc::EINVAL, |a, _| {
            a.cap.max_inline_data = 10_000;
        }),
        refused("most inline data there is", libc::EINVAL, |a, _| {
            a.cap.max_inline_data = u32::MAX;
        }),
        refused("an unknown type", libc::EINVAL, |a, _| a.qp_type = 77),
        refused("a raw QP", libc::EOPNOTSUPP, |a, _| {
            a.qp_type = sys::IBV_QPT_RAW_PACKET;
        }),
        refused("no send CQ", libc::EINVAL, |a, _| {
            a.send_cq = ptr::null_mut();
        })
        .beyond_stock(FOLLOWED),
        refused("no receive CQ", libc::EINVAL, |a, _| {
            a.recv_cq = ptr::null_mut();
        })
        .beyond_stock(FOLLOWED),
        Row::refused(
            "a send CQ of another context",
            libc::EINVAL,
            |stage: &Stage| stage.create(|a| a.send_cq = stage.foreign.cq.raw()),
        )
        .beyond_stock(HANDLE),
        Row::refused(
            "a receive CQ of another context",
            libc::EINVAL,
            |stage: &Stage| stage.create(|a| a.recv_cq = stage.foreign.cq.raw()),
        )
        .beyond_stock(HANDLE),
        Row::refused(
            "an SRQ of another context",
            libc::EINVAL,
            |stage: &Stage| stage.create(|a| a.srq = stage.foreign.srq.raw()),
        )
        .beyond_stock(HANDLE),
        Row::refused("a PD of another context", libc::EINVAL, |stage: &Stage| {
            stage.create_in(&stage.foreign.pd, |_| {})
        })
        .beyond_stock(HANDLE),
    ];
    rows.push(Row::done("on an SRQ", |stage: &Stage| {
        stage.create(|a| a.srq = stage.srq.raw())
    }));
    if device == Device::Rxe {
        rows.push(Row::done("UD on an SRQ", |stage: &Stage| {
            stage.create(|a| {
                a.srq = stage.srq.raw();
                a.qp_type = sys::IBV_QPT_UD;
            })
        }));
    }
    for (what, qp_type) in [("UC", sys::IBV_QPT_UC), ("UD", sys::IBV_QPT_UD)] {
        let create = move |stage: &Stage| stage.create(|a| a.qp_type = qp_type);
        rows.push(match device {
            Device::Rxe => Row::done(what, create),
            Device::Siw => Row::refused(what, libc::EOPNOTSUPP, create),
        });
    }
    rows
}

/// A fault of stock.
const FOLLOWED: &str = "a CQ that is NULL is followed";

/// Another.
const HANDLE: &str = "its handle is taken for that of an object of the PD's context";
