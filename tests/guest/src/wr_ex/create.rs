// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause

//! `ibv_create_qp_ex`: what can be had, and what is refused with which errno.

use std::ptr;

use guest::links::Device;
use guest::pair::Bench;
use guest::suite::{Outcome, Stop, Suite};
use guest::verbs::{Caps, Qp, QpInit, Transport, send_ops, sys};

use super::case;

pub(super) fn add(suite: &mut Suite) {
    for device in Device::ALL {
        case(suite, device, "create", create);
        case(suite, device, "create_refused", refused).beyond_stock(device.pick(
            Some("a PD or CQ that is NULL is followed"),
            Some(super::NONE),
        ));
    }
}

fn bench_and_init(device: Device, transport: Transport) -> Result<(Bench, QpInit), Stop> {
    let bench = Bench::open_directly(device)?;
    let init = bench.init(transport, Caps::default())?;
    Ok((bench, init))
}

/// The operations that a QP of each type has, all and none; the answer is what its queues hold.
fn create(device: Device) -> Outcome {
    let types: &[_] = match device {
        Device::Rxe => &[Transport::Rc, Transport::Uc, Transport::Ud],
        Device::Siw => &[Transport::Rc],
    };
    for &transport in types {
        let (bench, init) = bench_and_init(device, transport)?;
        for ops in [0, send_ops(device, transport)] {
            let init = QpInit {
                send_ops: Some(ops),
                ..init.clone()
            };
            let qp = Qp::create(&bench.pd, &init)?;
            assert!(qp.has_drafts(), "{transport:?} {ops:#x} has no view");
        }
        let plain = Qp::create(&bench.pd, &init)?;
        assert!(!plain.has_drafts(), "a plain QP has an extended view");
        let mut attributes = init.extended(&bench.pd, 0);
        attributes.comp_mask = sys::IBV_QP_INIT_ATTR_PD | sys::IBV_QP_INIT_ATTR_CREATE_FLAGS;
        drop(Qp::create_extended(&bench.pd, &init, attributes)?);
        attributes.comp_mask = sys::IBV_QP_INIT_ATTR_PD;
        drop(Qp::create_extended(&bench.pd, &init, attributes)?);
    }
    Ok(())
}

/// What is wrong with the attributes, and what the verb must say.
type Wrong = (&'static str, i32, fn(&mut sys::ibv_qp_init_attr_ex));

const WRONG: &[Wrong] = &[
    ("an XRC domain", libc::EOPNOTSUPP, |attr| {
        attr.comp_mask |= sys::IBV_QP_INIT_ATTR_XRCD;
    }),
    ("a TSO header", libc::EOPNOTSUPP, |attr| {
        attr.comp_mask |= sys::IBV_QP_INIT_ATTR_MAX_TSO_HEADER;
    }),
    ("an indirection table", libc::EOPNOTSUPP, |attr| {
        attr.comp_mask |= sys::IBV_QP_INIT_ATTR_IND_TABLE;
    }),
    ("a hash", libc::EOPNOTSUPP, |attr| {
        attr.comp_mask |= sys::IBV_QP_INIT_ATTR_RX_HASH;
    }),
    ("an attribute of the future", libc::EOPNOTSUPP, |attr| {
        attr.comp_mask |= 1 << 20;
    }),
    ("a flag", libc::EOPNOTSUPP, |attr| {
        attr.comp_mask |= sys::IBV_QP_INIT_ATTR_CREATE_FLAGS;
        attr.create_flags = sys::IBV_QP_CREATE_BLOCK_SELF_MCAST_LB;
    }),
    ("TSO", libc::EOPNOTSUPP, |attr| {
        attr.send_ops_flags |= u64::from(sys::IBV_QP_EX_WITH_TSO);
    }),
    ("an operation of the future", libc::EOPNOTSUPP, |attr| {
        attr.send_ops_flags |= 1 << 40;
    }),
    ("a raw QP", libc::EOPNOTSUPP, |attr| {
        attr.qp_type = sys::IBV_QPT_RAW_PACKET;
    }),
    ("no PD in the mask", libc::EINVAL, |attr| {
        attr.comp_mask &= !sys::IBV_QP_INIT_ATTR_PD;
    }),
    ("no PD", libc::EINVAL, |attr| attr.pd = ptr::null_mut()),
    ("no send CQ", libc::EINVAL, |attr| {
        attr.send_cq = ptr::null_mut();
    }),
];

/// Of siw, what no iWARP driver can have.
const NOT_IWARP: u32 = sys::IBV_QP_EX_WITH_SEND_WITH_IMM
    | sys::IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM
    | sys::IBV_QP_EX_WITH_ATOMIC_CMP_AND_SWP
    | sys::IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD
    | sys::IBV_QP_EX_WITH_BIND_MW
    | sys::IBV_QP_EX_WITH_ATOMIC_WRITE;

fn refused(device: Device) -> Outcome {
    let (bench, init) = bench_and_init(device, Transport::Rc)?;
    let ops = send_ops(device, Transport::Rc);
    let try_it = |what: &str, errno, change: &dyn Fn(&mut sys::ibv_qp_init_attr_ex)| {
        let mut attributes = init.extended(&bench.pd, ops);
        change(&mut attributes);
        let made = Qp::create_extended(&bench.pd, &init, attributes);
        let said = made.map(drop).map_err(|error| error.raw_os_error());
        assert_eq!(said, Err(Some(errno)), "{what}");
    };
    for (what, errno, change) in WRONG {
        try_it(what, *errno, change);
    }
    let mut each = 1;
    while device == Device::Siw && each < NOT_IWARP {
        if NOT_IWARP & each != 0 {
            try_it(&format!("{each:#x}"), libc::EOPNOTSUPP, &|attr| {
                attr.send_ops_flags = u64::from(each);
            });
        }
        each <<= 1;
    }
    if device == Device::Rxe {
        for (qp_type, ops) in [
            (sys::IBV_QPT_UC, sys::IBV_QP_EX_WITH_RDMA_READ),
            (sys::IBV_QPT_UC, sys::IBV_QP_EX_WITH_LOCAL_INV),
            (sys::IBV_QPT_UD, sys::IBV_QP_EX_WITH_RDMA_WRITE),
        ] {
            try_it("an operation of RC", libc::EOPNOTSUPP, &|attr| {
                attr.qp_type = qp_type;
                attr.send_ops_flags = u64::from(ops);
            });
        }
    }
    // Nothing is left of any: the PD and the CQs, which they would keep, can be destroyed.
    Ok(())
}
