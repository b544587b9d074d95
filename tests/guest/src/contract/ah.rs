// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause

//! `ibv_create_ah`.

use guest::links::Device;
use guest::pair::Bench;
use guest::suite::Suite;
use guest::verbs::{route_to, sys};

use super::table::{Row, Said, Table};
use super::works;

pub(super) fn add(suite: &mut Suite, device: Device) {
    Table {
        verb: "create_ah",
        device,
        stage: Bench::open,
        rows: match device {
            Device::Rxe => on_rxe,
            Device::Siw => |_| {
                vec![Row::refused("any", libc::EOPNOTSUPP, |bench: &Bench| {
                    create(bench, |_| {})
                })]
            },
        },
        works,
    }
    .add(suite);
}

/// Creates an AH to the device itself, but for what `change` changes.
fn create(bench: &Bench, change: fn(&mut sys::ibv_ah_attr)) -> Said {
    let mut attributes = match bench.device {
        Device::Rxe => match route_to(&bench.pd, bench.device.address()) {
            Ok(route) => route,
            Err(error) => panic!("no route: {error}"),
        },
        Device::Siw => sys::ibv_ah_attr {
            port_num: 1,
            ..Default::default()
        },
    };
    change(&mut attributes);
    Said::made(
        // SAFETY: the PD is alive, and the attributes are filled in.
        || unsafe { sys::ibv_create_ah(bench.pd.raw(), &raw mut attributes) },
        sys::ibv_destroy_ah,
    )
}

fn on_rxe(_: Device) -> Vec<Row<Bench>> {
    let refused_by = |what, errno, change: fn(&mut sys::ibv_ah_attr)| {
        Row::refused(what, errno, move |bench: &Bench| create(bench, change))
    };
    let refused = |what, change| refused_by(what, libc::EINVAL, change);
    vec![
        Row::done("to the device itself", |bench: &Bench| {
            create(bench, |_| {})
        }),
        refused("by port 0", |ah| ah.port_num = 0),
        refused("by port 2", |ah| ah.port_num = 2),
        refused("by port 255", |ah| ah.port_num = 255),
        refused_by("from an empty GID", libc::ENODATA, |ah| {
            ah.grh.sgid_index = 100
        }),
        refused_by("from GID 255", libc::ENODATA, |ah| ah.grh.sgid_index = 255),
        refused("on a local path", |ah| ah.is_global = 0),
    ]
}
