// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause

//! Which domains cannot be had, and why.

use std::ffi::c_void;
use std::ptr;

use guest::links::Device;
use guest::pair::Bench;
use guest::suite::{Outcome, Suite};
use guest::verbs::{Cq, Pd, Td, attributes_ex, errno, sys};

use super::case;

pub(super) fn add(suite: &mut Suite) {
    for device in Device::ALL {
        case(suite, device, "refused", refused);
    }
}

type Attributes = sys::ibv_parent_domain_init_attr;

/// Domains of another device, as the parts of a parent domain.
struct Foreign {
    pd: *mut sys::ibv_pd,
    td: *mut sys::ibv_td,
}

/// What is wrong with the attributes, and what the verb must say.
type Wrong = (&'static str, i32, fn(&mut Attributes, &Foreign));

const WRONG: &[Wrong] = &[
    ("no PD", libc::EINVAL, |a, _| a.pd = ptr::null_mut()),
    ("another device's PD", libc::EINVAL, |a, other| {
        a.pd = other.pd;
    }),
    (
        "another device's thread domain",
        libc::EINVAL,
        |a, other| {
            a.td = other.td;
        },
    ),
    ("allocators", libc::EOPNOTSUPP, |a, _| {
        a.comp_mask = sys::IBV_PARENT_DOMAIN_INIT_ATTR_ALLOCATORS;
        a.alloc = Some(alloc);
        a.free = Some(free);
    }),
    ("allocators that are not there", libc::EOPNOTSUPP, |a, _| {
        a.comp_mask = sys::IBV_PARENT_DOMAIN_INIT_ATTR_ALLOCATORS;
    }),
    ("an attribute of the future", libc::EOPNOTSUPP, |a, _| {
        a.comp_mask = 1 << 2;
    }),
];

unsafe extern "C" fn alloc(
    _: *mut sys::ibv_pd,
    _: *mut c_void,
    _: usize,
    _: usize,
    _: u64,
) -> *mut c_void {
    panic!("asked for memory by what was refused")
}

unsafe extern "C" fn free(_: *mut sys::ibv_pd, _: *mut c_void, _: *mut c_void, _: u64) {}

/// Nothing is left of what is refused: the domains, which it would keep, can be deallocated.
fn refused(device: Device) -> Outcome {
    let (bench, others) = (
        Bench::open_directly(device)?,
        Bench::open_directly(device.pick(Device::Siw, Device::Rxe))?,
    );
    let other = Td::alloc(&others.context, 0)?;
    let foreign = Foreign {
        pd: others.pd.raw(),
        td: other.raw(),
    };
    let td = Td::alloc(&bench.context, 0)?;
    for (what, wanted, change) in WRONG {
        let mut attributes = Attributes {
            pd: bench.pd.raw(),
            td: td.raw(),
            ..Default::default()
        };
        change(&mut attributes, &foreign);
        let made = Pd::parent_by(&bench.pd, Some(&td), attributes);
        assert_eq!(errno(made), Some(*wanted), "{what}");
    }
    for mask in [1, 1 << 31] {
        let made = errno(Td::alloc(&bench.context, mask));
        assert_eq!(made, Some(libc::EOPNOTSUPP), "{mask:#x}");
    }
    for parent_domain in [ptr::null_mut(), foreign.pd] {
        let mut attributes = attributes_ex(8, 0);
        attributes.comp_mask = sys::IBV_CQ_INIT_ATTR_MASK_PD;
        attributes.parent_domain = parent_domain;
        let made = Cq::create_ex(&bench.context, None, attributes);
        assert_eq!(errno(made), Some(libc::EINVAL), "a CQ");
    }
    // What only allocators would look at does no harm.
    let attributes = Attributes {
        pd: bench.pd.raw(),
        comp_mask: sys::IBV_PARENT_DOMAIN_INIT_ATTR_PD_CONTEXT,
        pd_context: ptr::without_provenance_mut(0xabcd),
        ..Default::default()
    };
    drop(Pd::parent_by(&bench.pd, None, attributes)?);
    Ok(())
}
