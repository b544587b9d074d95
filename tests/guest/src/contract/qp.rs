// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause

//! `ibv_query_qp`.

use std::ptr;

use guest::links::Device;
use guest::pair::Bench;
use guest::suite::{Stop, Suite};
use guest::verbs::{Caps, Qp, QpInit, Srq, Transport, sys};

use super::table::{Row, Said, Table};
use super::works;

pub(super) fn add(suite: &mut Suite, device: Device) {
    Table {
        verb: "query_qp",
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
    qp: Qp,
}

impl Stage {
    fn set(device: Device) -> Result<Self, Stop> {
        let bench = Bench::open(device)?;
        let init = bench.init(Transport::Rc, Caps::default())?;
        let qp = Qp::create(&bench.pd, &init)?;
        Ok(Self { bench, init, qp })
    }

    /// Queries a new QP by `mask`, and shows what it answered at its creation beside what it says now.
    fn query(
        &self,
        init: &QpInit,
        mask: u32,
        judge: impl Fn(&sys::ibv_qp_init_attr, &sys::ibv_qp_attr, &sys::ibv_qp_init_attr),
    ) -> Said {
        let mut made = init.attributes();
        made.qp_context = ptr::from_ref(self).cast_mut().cast();
        let mut attributes = sys::ibv_qp_attr::default();
        let mut says = sys::ibv_qp_init_attr::default();
        // SAFETY: PD, CQs and SRQ are alive; the places are valid; the QP is destroyed at once.
        let returned = unsafe {
            let qp = sys::ibv_create_qp(self.bench.pd.raw(), &raw mut made);
            assert!(!qp.is_null(), "no QP");
            let returned =
                sys::ibv_query_qp(qp, &raw mut attributes, mask.cast_signed(), &raw mut says);
            assert_eq!(sys::ibv_destroy_qp(qp), 0, "ibv_destroy_qp");
            returned
        };
        if returned == 0 {
            judge(&made, &attributes, &says);
        }
        Said::returned(returned)
    }
}

/// The sizes, as numbers.
pub(super) fn sizes(cap: &sys::ibv_qp_cap) -> [u32; 5] {
    [
        cap.max_send_wr,
        cap.max_recv_wr,
        cap.max_send_sge,
        cap.max_recv_sge,
        cap.max_inline_data,
    ]
}

fn rows(device: Device) -> Vec<Row<Stage>> {
    let mut rows = vec![
        Row::done("nothing", |stage: &Stage| {
            stage.query(&stage.init, 0, |_, _, _| {})
        }),
        Row::done("all that there is", |stage: &Stage| {
            stage.query(&stage.init, 2 * sys::IBV_QP_DEST_QPN - 1, |_, _, _| {})
        }),
        Row::refused("an unknown attribute", libc::EOPNOTSUPP, |stage: &Stage| {
            let (mut attributes, mut init) = Default::default();
            // SAFETY: the QP is alive, and the places are valid.
            Said::returned(unsafe {
                sys::ibv_query_qp(stage.qp.raw(), &raw mut attributes, 1 << 26, &raw mut init)
            })
        }),
        Row::done("what it was created from", |stage: &Stage| {
            stage.query(&stage.init, sys::IBV_QP_STATE, |made, _, says| {
                assert_eq!(
                    (says.send_cq, says.recv_cq, says.srq, says.qp_context),
                    (made.send_cq, made.recv_cq, made.srq, made.qp_context)
                );
                assert_eq!(says.qp_type, made.qp_type, "type");
            })
        }),
        Row::done("the sizes that it was created with", |stage: &Stage| {
            for caps in [(1, 1, 1, 1, 0), (5, 9, 2, 3, 17), (64, 33, 6, 6, 64)] {
                let (send_wr, recv_wr, send_sge, recv_sge, inline) = caps;
                let init = QpInit {
                    caps: Caps {
                        send_wr,
                        recv_wr,
                        send_sge,
                        recv_sge,
                        inline,
                    },
                    ..stage.init.clone()
                };
                let said = stage.query(&init, sys::IBV_QP_CAP, |made, now, says| {
                    assert_eq!(sizes(&says.cap), sizes(&made.cap), "{caps:?}");
                    assert_eq!(sizes(&now.cap), sizes(&made.cap), "{caps:?}");
                });
                assert_eq!(said, Said::Done);
            }
            Said::Done
        })
        .beyond_stock(device.pick(
            "6.1 does not tell of rounding",
            "the kernel tells no elements",
        )),
        Row::done("whether each send is signaled", |stage: &Stage| {
            for signal_all in [false, true] {
                let init = QpInit {
                    signal_all,
                    ..stage.init.clone()
                };
                let said = stage.query(&init, sys::IBV_QP_STATE, |_, _, says| {
                    assert_eq!(says.sq_sig_all != 0, signal_all, "sq_sig_all");
                });
                assert_eq!(said, Said::Done);
            }
            Said::Done
        })
        .beyond_stock(device.pick(None, Some("the kernel says so of each QP (siw_query_qp)"))),
    ];
    rows.push(Row::done("its SRQ", |stage: &Stage| {
        let Ok(srq) = Srq::create(&stage.bench.pd, 16, 1) else {
            panic!("no SRQ")
        };
        let init = QpInit {
            srq: Some(srq),
            ..stage.init.clone()
        };
        stage.query(&init, sys::IBV_QP_STATE, |made, _, says| {
            assert_eq!(says.srq, made.srq, "srq");
        })
    }));
    rows
}
