// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause

//! Theme `srq_ex`: `ibv_create_srq_ex` makes an SRQ that works, or says why it does not.

use std::ptr;

use guest::links::Device;
use guest::pair::{Bench, Pair};
use guest::suite::{Outcome, Suite};
use guest::verbs::{Caps, QpInit, RecvWr, SendWr, Srq, Transport, errno, sys};

/// What libsiw lacks.
const NONE: &str = "libsiw has no ibv_create_srq_ex";

/// What librxe does wrong.
const FOLLOWED: &str = "XRC without its domain is EINVAL, and a PD that is NULL is followed";

/// Adds the cases of this theme.
pub(crate) fn add(suite: &mut Suite) {
    for device in Device::ALL {
        suite.case(format!("srq_ex/{device}/basic"), move || {
            works(device, &[PD, PD | TYPE])
        });
        suite
            .case(format!("srq_ex/{device}/surplus"), move || {
                works(device, &[PD | CQ, PD | TYPE | CQ | TM])
            })
            .beyond_stock(device.pick(Some("librxe forgets srq_context"), Some(NONE)));
        suite
            .on("srq_ex", device, "refused", refused)
            .beyond_stock(device.pick(Some(FOLLOWED), Some(NONE)));
    }
}

const PD: u32 = sys::IBV_SRQ_INIT_ATTR_PD;
const TYPE: u32 = sys::IBV_SRQ_INIT_ATTR_TYPE;
const CQ: u32 = sys::IBV_SRQ_INIT_ATTR_CQ;
const TM: u32 = sys::IBV_SRQ_INIT_ATTR_TM;

/// Attributes of a basic SRQ.
fn attributes(bench: &Bench, comp_mask: u32) -> sys::ibv_srq_init_attr_ex {
    sys::ibv_srq_init_attr_ex {
        srq_context: CONTEXT,
        attr: sys::ibv_srq_attr {
            max_wr: 20,
            max_sge: 2,
            srq_limit: 0,
        },
        comp_mask,
        srq_type: sys::IBV_SRQT_BASIC,
        pd: bench.pd.raw(),
        ..Default::default()
    }
}

/// What the application wants to find again in the SRQ; nobody follows it.
const CONTEXT: *mut std::ffi::c_void = ptr::without_provenance_mut(0xabcd);

/// A QP takes its receives from the SRQ, and as many as the answer says.
fn works(device: Device, masks: &[u32]) -> Outcome {
    for &mask in masks {
        let bench = Bench::open(device)?;
        let mut attributes = attributes(&bench, mask);
        let srq = Srq::create_ex(&bench.pd, &mut attributes)?;
        let (max_wr, max_sge) = (attributes.attr.max_wr, attributes.attr.max_sge);
        assert!(max_wr >= 20 && max_sge >= 2, "{max_wr} WRs, {max_sge} SGEs");
        // SAFETY: the SRQ is alive.
        let (context, pd) = unsafe { ((*srq.raw()).srq_context, (*srq.raw()).pd) };
        assert_eq!((context, pd), (CONTEXT, bench.pd.raw()));
        let (from, to) = (bench.memory(8)?, bench.memory(8)?);
        let recvs = vec![RecvWr::new(7, &[to.sge(0, 4), to.sge(4, 4)]); max_wr as usize];
        srq.post_recv(&recvs)?;
        let (a, b) = (
            bench.init(Transport::Rc, Caps::default())?,
            bench.init(Transport::Rc, Caps::default())?,
        );
        let b = QpInit {
            srq: Some(srq.clone()),
            ..b
        };
        let pair = Pair::of(bench, a, b)?;
        for _ in 0..max_wr {
            let send = SendWr::send(&[from.sge(0, 8)]).signaled();
            pair.a.qp.post_send(&[send])?;
            assert_eq!(pair.b.recv_cq.take_one()?.ok().wr_id, 7);
            pair.a.send_cq.take_one()?.ok();
        }
        assert_eq!(srq.destroy_in_use().raw_os_error(), Some(libc::EBUSY));
    }
    Ok(())
}

/// What is wrong with the attributes, and what the verb must say.
type Wrong = (&'static str, i32, fn(&mut sys::ibv_srq_init_attr_ex));

const WRONG: &[Wrong] = &[
    ("no PD in the mask", libc::EINVAL, |a| a.comp_mask = 0),
    ("only a type", libc::EINVAL, |a| a.comp_mask = TYPE),
    ("XRC", libc::EOPNOTSUPP, |a| {
        a.comp_mask |= TYPE;
        a.srq_type = sys::IBV_SRQT_XRC;
    }),
    ("tag matching", libc::EOPNOTSUPP, |a| {
        a.comp_mask |= TYPE;
        a.srq_type = sys::IBV_SRQT_TM;
    }),
    ("a type of the future", libc::EOPNOTSUPP, |a| {
        a.comp_mask |= TYPE;
        a.srq_type = 77;
    }),
    ("an attribute of the future", libc::EOPNOTSUPP, |a| {
        a.comp_mask |= 1 << 5;
    }),
    ("another", libc::EOPNOTSUPP, |a| a.comp_mask |= 1 << 31),
    ("too many WRs", libc::EINVAL, |a| a.attr.max_wr = u32::MAX),
    ("too many SGEs", libc::EINVAL, |a| a.attr.max_sge = 1 << 20),
    ("the same, with more", libc::EINVAL, |a| {
        a.comp_mask |= CQ;
        a.attr.max_sge = 1 << 20;
    }),
    ("no PD", libc::EINVAL, |a| {
        a.comp_mask |= CQ;
        a.pd = ptr::null_mut();
    }),
];

/// Nothing is left of what is refused: the PD, which it would keep, can be deallocated.
fn refused(device: Device) -> Outcome {
    let bench = Bench::open_directly(device)?;
    for (what, wanted, change) in WRONG {
        let mut attributes = attributes(&bench, PD);
        change(&mut attributes);
        let made = Srq::create_ex(&bench.pd, &mut attributes);
        assert_eq!(errno(made), Some(*wanted), "{what}");
    }
    Ok(())
}
