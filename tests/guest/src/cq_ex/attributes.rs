// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause

//! What an extended CQ can be created from, and what not.

use guest::links::Device;
use guest::pair::Bench;
use guest::suite::{Outcome, Suite};
use guest::verbs::{Batch, Cq, attributes_ex, errno, sys};

use super::case;

pub(super) fn add(suite: &mut Suite) {
    for device in Device::ALL {
        case(suite, device, "attributes/refused", refused, None);
        case(
            suite,
            device,
            "attributes/poll",
            poll_attributes,
            Some("librxe ignores them"),
        );
        case(suite, device, "attributes/accepted", accepted, None);
    }
}

type Change = fn(&mut sys::ibv_cq_init_attr_ex);

fn refused(device: Device) -> Outcome {
    let bench = Bench::open(device)?;
    let max = u32::try_from(bench.context.limits()?.max_cqe)?;
    let bad: [(&str, i32, Change); 8] = [
        ("a VLAN", libc::EOPNOTSUPP, |a| {
            a.wc_flags |= u64::from(sys::IBV_WC_EX_WITH_CVLAN)
        }),
        ("a flow tag", libc::EOPNOTSUPP, |a| {
            a.wc_flags |= u64::from(sys::IBV_WC_EX_WITH_FLOW_TAG)
        }),
        ("a matched tag", libc::EOPNOTSUPP, |a| {
            a.wc_flags |= u64::from(sys::IBV_WC_EX_WITH_TM_INFO)
        }),
        ("an unknown field", libc::EOPNOTSUPP, |a| {
            a.wc_flags |= 1 << 40
        }),
        ("an unknown attribute", libc::EOPNOTSUPP, |a| {
            a.comp_mask |= 1 << 9
        }),
        ("overruns ignored", libc::EOPNOTSUPP, |a| {
            a.comp_mask |= sys::IBV_CQ_INIT_ATTR_MASK_FLAGS;
            a.flags |= sys::IBV_CREATE_CQ_ATTR_IGNORE_OVERRUN;
        }),
        ("no entries", libc::EINVAL, |a| a.cqe = 0),
        ("a completion vector beyond all", libc::EINVAL, |a| {
            a.comp_vector = 1 << 20
        }),
    ];
    for (what, wanted, change) in bad {
        let mut attributes = attributes_ex(64, sys::IBV_WC_STANDARD_FLAGS);
        change(&mut attributes);
        let made = Cq::create_ex(&bench.context, None, attributes);
        assert_eq!(errno(made), Some(wanted), "{what}");
    }
    for entries in [max + 1, u32::MAX, 1 << 31] {
        let made = Cq::create_ex(&bench.context, None, attributes_ex(entries, 0));
        assert_eq!(errno(made), Some(libc::EINVAL), "{entries} entries");
    }
    Ok(())
}

/// `ibv_poll_cq_attr` has no attributes yet. A poll that fails leaves nothing to be ended.
fn poll_attributes(device: Device) -> Outcome {
    let bench = Bench::open(device)?;
    let cq = Cq::create_ex(&bench.context, None, attributes_ex(64, 0))?;
    for _ in 0..2 {
        assert_eq!(Batch::start_with_unknown(&cq), libc::EINVAL);
        assert!(Batch::start(&cq)?.is_none());
    }
    Ok(())
}

/// For one thread, or in a domain: a CQ as any other.
fn accepted(device: Device) -> Outcome {
    let bench = Bench::open(device)?;
    let flags: [Change; 4] = [
        |_| {},
        |a| a.flags = u32::MAX,
        |a| a.comp_mask |= sys::IBV_CQ_INIT_ATTR_MASK_FLAGS,
        |a| {
            a.comp_mask |= sys::IBV_CQ_INIT_ATTR_MASK_FLAGS;
            a.flags |= sys::IBV_CREATE_CQ_ATTR_SINGLE_THREADED;
        },
    ];
    for change in flags {
        let mut attributes = attributes_ex(64, sys::IBV_WC_STANDARD_FLAGS);
        change(&mut attributes);
        let cq = Cq::create_ex(&bench.context, None, attributes)?;
        assert!(cq.entries() >= 64);
        for _ in 0..3 {
            assert!(Batch::start(&cq)?.is_none());
        }
    }
    Ok(())
}
