// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause

//! `ibv_modify_qp`: a move or an attribute that is refused changes nothing.

use guest::links::Device;
use guest::pair::{Bench, Pair, Retry};
use guest::suite::{Outcome, Stop, Suite};
use guest::verbs::{Caps, Qp, QpInit, RecvWr, SendWr, Transport, route_to, sys};

use super::pair_works;
use super::table::{Row, Said, Table};

pub(super) fn add(suite: &mut Suite, device: Device) {
    Table {
        verb: "modify_qp",
        device,
        stage: Stage::set,
        rows,
        works: Stage::works,
    }
    .add(suite);
}

/// QPs in several states.
struct Stage {
    pair: Pair,
    fresh: Qp,
    /// On siw as fresh as the other.
    in_init: Qp,
    init: QpInit,
}

impl Stage {
    fn set(device: Device) -> Result<Self, Stop> {
        let pair = Pair::new(device, Transport::Rc)?;
        let init = pair.bench.init(Transport::Rc, Caps::default())?;
        let create = || Qp::create(&pair.bench.pd, &init);
        let (fresh, in_init) = (create()?, create()?);
        if device == Device::Rxe {
            pair.bench.to_init(&in_init)?;
        }
        Ok(Self {
            pair,
            fresh,
            in_init,
            init,
        })
    }

    fn bench(&self) -> &Bench {
        &self.pair.bench
    }

    /// All of them can be used.
    fn works(&self) -> Outcome {
        pair_works(&self.pair)?;
        if self.bench().device == Device::Siw {
            return Ok(());
        }
        let (a, b) = (&self.fresh, &self.in_init);
        self.bench().bring_up(a, b.number(), Retry::PATIENT)?;
        self.bench().to_rtr(b, a.number())?;
        self.bench().to_rts(b, Retry::PATIENT)?;
        let memory = self.bench().memory(16)?;
        b.post_recv(&[RecvWr::new(1, &[memory.sge(0, 8)])])?;
        a.post_send(&[SendWr::send(&[memory.sge(8, 8)]).id(2).signaled()])?;
        assert_eq!(self.init.recv_cq.take_one()?.ok().wr_id, 1);
        assert_eq!(self.init.send_cq.take_one()?.ok().wr_id, 2);
        Ok(())
    }
}

/// Which of the QPs, and what is asked of it.
type Ask = fn(&Stage) -> (&Qp, sys::ibv_qp_attr, u32);

/// Its states are afterwards what they were.
fn modify(stage: &Stage, ask: Ask) -> Said {
    let (qp, mut attributes, mask) = ask(stage);
    // A query renews what is cached.
    let states = |qp: &Qp| (qp.query_state().ok(), qp.cached_state());
    let before = states(qp);
    // SAFETY: the QP is alive, and the attributes are filled in.
    let said = Said::returned(unsafe {
        sys::ibv_modify_qp(qp.raw(), &raw mut attributes, mask.cast_signed())
    });
    assert_eq!(states(qp), before, "queried, cached: {said:?}");
    said
}

fn refused(what: &'static str, errno: i32, ask: Ask) -> Row<Stage> {
    Row::refused(what, errno, move |stage: &Stage| modify(stage, ask))
}

fn to(state: sys::ibv_qp_state) -> sys::ibv_qp_attr {
    sys::ibv_qp_attr {
        qp_state: state,
        ..Default::default()
    }
}

/// What takes an RC QP to INIT.
const INIT: u32 =
    sys::IBV_QP_STATE | sys::IBV_QP_PKEY_INDEX | sys::IBV_QP_PORT | sys::IBV_QP_ACCESS_FLAGS;

/// What takes one to RTR.
const RTR: u32 = sys::IBV_QP_STATE
    | sys::IBV_QP_AV
    | sys::IBV_QP_PATH_MTU
    | sys::IBV_QP_DEST_QPN
    | sys::IBV_QP_RQ_PSN
    | sys::IBV_QP_MAX_DEST_RD_ATOMIC
    | sys::IBV_QP_MIN_RNR_TIMER;

fn at_port(port: u8) -> sys::ibv_qp_attr {
    sys::ibv_qp_attr {
        port_num: port,
        ..to(sys::IBV_QPS_INIT)
    }
}

/// Good attributes of RTR, to be spoilt.
fn to_rtr(stage: &Stage) -> sys::ibv_qp_attr {
    let Ok(route) = route_to(&stage.bench().pd, stage.bench().device.address()) else {
        panic!("no route")
    };
    sys::ibv_qp_attr {
        path_mtu: sys::IBV_MTU_1024,
        dest_qp_num: stage.fresh.number(),
        ah_attr: route,
        max_dest_rd_atomic: 1,
        min_rnr_timer: 1,
        ..to(sys::IBV_QPS_RTR)
    }
}

fn rows(device: Device) -> Vec<Row<Stage>> {
    let mut rows = vec![
        Row::done("nothing", |stage: &Stage| {
            modify(stage, |s| (&s.fresh, to(0), 0))
        }),
        refused("an unknown state", libc::EINVAL, |s| {
            (&s.fresh, to(99), sys::IBV_QP_STATE)
        }),
        refused("an unknown state, connected", libc::EINVAL, |s| {
            (&s.pair.a.qp, to(99), sys::IBV_QP_STATE)
        }),
        refused("from an unknown state", libc::EINVAL, |s| {
            let attributes = sys::ibv_qp_attr {
                cur_qp_state: 99,
                ..to(sys::IBV_QPS_RTS)
            };
            (
                &s.pair.a.qp,
                attributes,
                sys::IBV_QP_STATE | sys::IBV_QP_CUR_STATE,
            )
        }),
        refused("an unknown attribute", libc::EOPNOTSUPP, |s| {
            (&s.fresh, at_port(1), INIT | 1 << 26)
        }),
        refused("a rate limit", libc::EOPNOTSUPP, |s| {
            (&s.pair.a.qp, to(0), sys::IBV_QP_RATE_LIMIT)
        }),
        refused("port 0", libc::EINVAL, |s| (&s.fresh, at_port(0), INIT)),
        refused("port 2", libc::EINVAL, |s| (&s.fresh, at_port(2), INIT)),
        refused("RESET to RTS", libc::EINVAL, |s| {
            (&s.fresh, to(sys::IBV_QPS_RTS), sys::IBV_QP_STATE)
        }),
    ];
    if device == Device::Rxe {
        rows.extend(moves());
        rows.extend(attributes());
    }
    rows
}

/// Moves that are not in the table of the states.
fn moves() -> [Row<Stage>; 9] {
    const STATE: u32 = sys::IBV_QP_STATE;
    [
        refused("RESET to RTR", libc::EINVAL, |s| (&s.fresh, to_rtr(s), RTR)),
        refused("RESET to SQD", libc::EINVAL, |s| {
            (&s.fresh, to(sys::IBV_QPS_SQD), STATE)
        }),
        refused("RESET to ERR", libc::EINVAL, |s| {
            (&s.fresh, to(sys::IBV_QPS_ERR), STATE)
        }),
        refused("INIT to RTS", libc::EINVAL, |s| {
            (&s.in_init, to(sys::IBV_QPS_RTS), STATE)
        }),
        refused("INIT to SQD", libc::EINVAL, |s| {
            (&s.in_init, to(sys::IBV_QPS_SQD), STATE)
        }),
        refused("RTS to INIT", libc::EINVAL, |s| {
            (&s.pair.a.qp, at_port(1), INIT)
        }),
        refused("RTS to RTR", libc::EINVAL, |s| {
            (&s.pair.a.qp, to_rtr(s), RTR)
        }),
        refused("RTS to ERR, with a port", libc::EINVAL, |s| {
            let attributes = sys::ibv_qp_attr {
                port_num: 1,
                ..to(sys::IBV_QPS_ERR)
            };
            (&s.pair.a.qp, attributes, STATE | sys::IBV_QP_PORT)
        }),
        refused("RTS to RESET, with a port", libc::EINVAL, |s| {
            let attributes = sys::ibv_qp_attr {
                port_num: 1,
                ..to(sys::IBV_QPS_RESET)
            };
            (&s.pair.a.qp, attributes, STATE | sys::IBV_QP_PORT)
        }),
    ]
}

/// Moves without an attribute that they need, with one too many, and with a bad one.
fn attributes() -> [Row<Stage>; 8] {
    [
        refused("INIT without a port", libc::EINVAL, |s| {
            (&s.fresh, at_port(1), INIT & !sys::IBV_QP_PORT)
        }),
        refused("INIT with a path", libc::EINVAL, |s| {
            let attributes = sys::ibv_qp_attr {
                port_num: 1,
                qp_state: sys::IBV_QPS_INIT,
                ..to_rtr(s)
            };
            (&s.fresh, attributes, INIT | sys::IBV_QP_AV)
        }),
        refused("RTR without a path", libc::EINVAL, |s| {
            (&s.in_init, to_rtr(s), RTR & !sys::IBV_QP_AV)
        }),
        refused("RTR with an empty GID", libc::ENODATA, |s| {
            let mut attributes = to_rtr(s);
            attributes.ah_attr.grh.sgid_index = 200;
            (&s.in_init, attributes, RTR)
        }),
        refused("RTR with a local path", libc::EINVAL, |s| {
            let mut attributes = to_rtr(s);
            attributes.ah_attr.is_global = 0;
            (&s.in_init, attributes, RTR)
        }),
        refused("RTR with a path by port 2", libc::EINVAL, |s| {
            let mut attributes = to_rtr(s);
            attributes.ah_attr.port_num = 2;
            (&s.in_init, attributes, RTR)
        }),
        refused("RTR with too large an MTU", libc::EINVAL, |s| {
            let attributes = sys::ibv_qp_attr {
                path_mtu: 77,
                ..to_rtr(s)
            };
            (&s.in_init, attributes, RTR)
        }),
        refused("RTS with a timeout beyond 31", libc::EINVAL, |s| {
            let attributes = sys::ibv_qp_attr {
                timeout: 32,
                ..to(sys::IBV_QPS_RTS)
            };
            (
                &s.pair.a.qp,
                attributes,
                sys::IBV_QP_STATE | sys::IBV_QP_TIMEOUT,
            )
        }),
    ]
}
