// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause

//! `ibv_create_srq`, `ibv_modify_srq`, `ibv_query_srq`, `ibv_destroy_srq`.

use std::ffi::c_int;
use std::ptr;
use std::sync::Arc;

use guest::links::Device;
use guest::pair::Bench;
use guest::suite::{Outcome, Stop, Suite};
use guest::verbs::{Caps, Qp, QpInit, RecvWr, SendWr, Srq, Transport, sys};

use super::table::{Row, Said, Table};
use super::works;

/// Entries that the SRQ is asked for.
const ENTRIES: u32 = 16;

pub(super) fn add(suite: &mut Suite, device: Device) {
    let no_query = device.pick(None, Some("libsiw has no ibv_query_srq"));
    Table {
        verb: "create_srq",
        device,
        stage: Bench::open,
        rows: create_rows,
        works,
    }
    .add(suite);
    Table {
        verb: "modify_srq",
        device,
        stage: Stage::set,
        rows: modify_rows,
        works: Stage::works,
    }
    .add_beyond(suite, no_query);
    Table {
        verb: "query_srq",
        device,
        stage: Stage::set,
        rows: query_rows,
        works: Stage::works,
    }
    .add_beyond(suite, no_query);
    Table {
        verb: "destroy_srq",
        device,
        stage: Stage::set,
        rows: |_| {
            vec![Row::refused("of a QP", libc::EBUSY, |stage: &Stage| {
                Said::failed(&stage.srq.destroy_in_use())
            })]
        },
        works: Stage::works,
    }
    .add_beyond(suite, no_query);
}

type Limit = fn(&sys::ibv_device_attr) -> c_int;

/// Creates an SRQ of so many entries, or more than the device's most, and so many elements.
fn create(bench: &Bench, max_wr: u32, max_sge: u32) -> Said {
    let mut init = sys::ibv_srq_init_attr {
        srq_context: ptr::null_mut(),
        attr: sys::ibv_srq_attr {
            max_wr,
            max_sge,
            srq_limit: 0,
        },
    };
    let said = Said::made(
        // SAFETY: the PD is alive, and the attributes are filled in.
        || unsafe { sys::ibv_create_srq(bench.pd.raw(), &raw mut init) },
        sys::ibv_destroy_srq,
    );
    if said == Said::Done {
        let has = init.attr;
        assert!(has.max_wr >= max_wr && has.max_sge >= max_sge, "{has:?}");
    }
    said
}

fn limit(bench: &Bench, of: Limit) -> u32 {
    let Ok(limits) = bench.context.limits() else {
        panic!("no limits")
    };
    of(&limits).unsigned_abs()
}

fn create_rows(_: Device) -> Vec<Row<Bench>> {
    vec![
        Row::done("one entry, one element", |bench: &Bench| {
            create(bench, 1, 1)
        }),
        Row::done("no elements", |bench: &Bench| create(bench, 16, 0)),
        Row::done("most elements", |bench: &Bench| {
            create(bench, 16, limit(bench, |has| has.max_srq_sge))
        }),
        Row::refused("no entries", libc::EINVAL, |bench: &Bench| {
            create(bench, 0, 1)
        }),
        Row::refused("too many entries", libc::EINVAL, |bench: &Bench| {
            create(bench, limit(bench, |has| has.max_srq_wr) + 1, 1)
        }),
        Row::refused("most entries there are", libc::EINVAL, |bench: &Bench| {
            create(bench, u32::MAX, 1)
        }),
        Row::refused("too many elements", libc::EINVAL, |bench: &Bench| {
            create(bench, 16, limit(bench, |has| has.max_srq_sge) + 1)
        }),
        Row::refused("most elements there are", libc::EINVAL, |bench: &Bench| {
            create(bench, 16, u32::MAX)
        }),
    ]
}

/// An SRQ whose answer is known, and a QP on it.
struct Stage {
    bench: Bench,
    srq: Arc<Srq>,
    init: QpInit,
    sender: Qp,
    _receiver: Qp,
}

impl Stage {
    fn set(device: Device) -> Result<Self, Stop> {
        let bench = Bench::open(device)?;
        let srq = Srq::create(&bench.pd, ENTRIES, 1)?;
        let init = QpInit {
            srq: Some(Arc::clone(&srq)),
            ..bench.init(Transport::Rc, Caps::default())?
        };
        let (sender, receiver) = bench.connect(&init, &init)?;
        Ok(Self {
            bench,
            srq,
            init,
            sender,
            _receiver: receiver,
        })
    }

    fn modify(&self, attr: sys::ibv_srq_attr, mask: u32) -> Said {
        let (mut attr, mask) = (attr, mask.cast_signed());
        // SAFETY: the SRQ is alive, and the attributes are filled in.
        Said::returned(unsafe { sys::ibv_modify_srq(self.srq.raw(), &raw mut attr, mask) })
    }

    fn query(&self) -> sys::ibv_srq_attr {
        let mut attr = sys::ibv_srq_attr::default();
        // SAFETY: the SRQ is alive, and `attr` is a valid place.
        let returned = unsafe { sys::ibv_query_srq(self.srq.raw(), &raw mut attr) };
        assert_eq!(returned, 0, "ibv_query_srq");
        attr
    }

    /// As many receives fit as it says, no more, and each takes a message.
    fn works(&self) -> Outcome {
        let has = self.query();
        assert!(has.max_wr >= ENTRIES, "{has:?}");
        let memory = self.bench.memory(64)?;
        let recvs: Vec<_> = (0..u64::from(has.max_wr))
            .map(|id| RecvWr::new(id, &vec![memory.sge(0, 1); has.max_sge as usize]))
            .collect();
        self.srq.post_recv(&recvs)?;
        let one_more = self.srq.post_recv(&recvs[..1]).map_err(|no| no.returned);
        assert_eq!(one_more, Err(libc::ENOMEM), "one more than {has:?}");
        for wr_id in 0..u64::from(has.max_wr) {
            let send = SendWr::send(&[memory.sge(0, 1)]).signaled();
            self.sender.post_send(&[send])?;
            self.init.send_cq.take_one()?.ok();
            assert_eq!(self.init.recv_cq.take_one()?.ok().wr_id, wr_id);
        }
        Ok(())
    }
}

fn modify_rows(device: Device) -> Vec<Row<Stage>> {
    let limit = |limit| sys::ibv_srq_attr {
        srq_limit: limit,
        ..Default::default()
    };
    let entries = |max_wr| sys::ibv_srq_attr {
        max_wr,
        ..Default::default()
    };
    let (by_limit, by_size) = (sys::IBV_SRQ_LIMIT, sys::IBV_SRQ_MAX_WR);
    let unsized_errno = device.pick(libc::EINVAL, libc::EOPNOTSUPP);
    let mut rows = vec![
        Row::done("nothing", move |stage: &Stage| stage.modify(limit(1), 0)),
        Row::done("a limit", move |stage: &Stage| {
            let said = stage.modify(limit(7), by_limit);
            assert_eq!(stage.query().srq_limit, 7);
            said
        }),
        Row::done("no limit", move |stage: &Stage| {
            let said = stage.modify(limit(0), by_limit);
            assert_eq!(stage.query().srq_limit, 0);
            said
        }),
        Row::refused(
            "a limit above the size",
            libc::EINVAL,
            move |stage: &Stage| stage.modify(limit(stage.query().max_wr + 1), by_limit),
        ),
        Row::refused("the largest limit", libc::EINVAL, move |stage: &Stage| {
            stage.modify(limit(u32::MAX), by_limit)
        }),
        Row::refused("no entries", unsized_errno, move |stage: &Stage| {
            stage.modify(entries(0), by_size)
        }),
        Row::refused("too many entries", unsized_errno, move |stage: &Stage| {
            stage.modify(entries(u32::MAX), by_size)
        }),
    ];
    if device == Device::Rxe {
        rows.push(Row::done(
            "more entries, and as many again",
            move |stage: &Stage| {
                let before = stage.query().max_wr;
                let said = stage.modify(entries(4 * before), by_size);
                assert!(stage.query().max_wr >= 4 * before);
                assert_eq!(stage.modify(entries(before), by_size), Said::Done);
                said
            },
        ));
    } else {
        rows.push(Row::refused(
            "more entries",
            libc::EOPNOTSUPP,
            move |stage: &Stage| stage.modify(entries(4 * ENTRIES), by_size),
        ));
    }
    rows
}

fn query_rows(device: Device) -> Vec<Row<Stage>> {
    vec![
        Row::done("what it was created with", |stage: &Stage| {
            let mut init = sys::ibv_srq_init_attr {
                srq_context: ptr::null_mut(),
                attr: sys::ibv_srq_attr {
                    max_wr: 20,
                    max_sge: 2,
                    srq_limit: 0,
                },
            };
            let mut attr = sys::ibv_srq_attr::default();
            // SAFETY: the PD is alive, the attributes are filled in, and the SRQ is destroyed at once.
            unsafe {
                let srq = sys::ibv_create_srq(stage.bench.pd.raw(), &raw mut init);
                assert!(!srq.is_null());
                let returned = sys::ibv_query_srq(srq, &raw mut attr);
                assert_eq!(sys::ibv_destroy_srq(srq), 0);
                let (has, said) = (init.attr, attr);
                assert_eq!((said.max_wr, said.max_sge), (has.max_wr, has.max_sge));
                Said::returned(returned)
            }
        })
        .beyond_stock(device.pick(
            "6.1 does not tell of rounding",
            "libsiw has no ibv_query_srq",
        )),
    ]
}
