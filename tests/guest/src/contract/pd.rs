// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause

//! `ibv_alloc_pd`, `ibv_dealloc_pd`, `ibv_query_port` and what else needs no more than a device.

use std::any::Any;
use std::io;
use std::sync::Arc;

use guest::links::Device;
use guest::pair::Bench;
use guest::suite::{Outcome, Stop, Suite};
use guest::verbs::{Ah, Caps, Mr, Mw, Pd, Qp, Srq, Transport, sys};

use super::table::{Row, Said, Table};
use super::works;

pub(super) fn add(suite: &mut Suite, device: Device) {
    Table {
        verb: "alloc_pd",
        device,
        stage: Bench::open,
        rows: |_| vec![Row::done("a PD", alloc)],
        works,
    }
    .add(suite);
    Table {
        verb: "dealloc_pd",
        device,
        stage: Busy::set,
        rows: dealloc_rows,
        works: Busy::works,
    }
    .add(suite);
    Table {
        verb: "query_port",
        device,
        stage: Bench::open,
        rows: |_| {
            vec![
                Row::done("port 1", |bench: &Bench| port(bench, 1)),
                Row::refused("port 0", libc::EINVAL, |bench: &Bench| port(bench, 0)),
                Row::refused("port 2", libc::EINVAL, |bench: &Bench| port(bench, 2)),
                Row::refused("port 255", libc::EINVAL, |bench: &Bench| port(bench, 255)),
            ]
        },
        works,
    }
    .add(suite);
}

fn alloc(bench: &Bench) -> Said {
    // SAFETY: the context is open.
    Said::made(
        || unsafe { sys::ibv_alloc_pd(bench.context.raw()) },
        sys::ibv_dealloc_pd,
    )
}

fn port(bench: &Bench, port: u8) -> Said {
    let mut attributes = sys::ibv_port_attr::default();
    // SAFETY: the context is open.
    let returned = unsafe { sys::inline::query_port(bench.context.raw(), port, &mut attributes) };
    Said::returned(returned)
}

/// PDs, each with something on it.
struct Busy {
    bench: Bench,
    pds: Vec<User>,
}

/// What it is, the PD that it is on, and itself, which goes first.
struct User {
    what: &'static str,
    _itself: Box<dyn Any>,
    pd: Arc<Pd>,
}

impl Busy {
    fn set(device: Device) -> Result<Self, Stop> {
        let mut busy = Self {
            bench: Bench::open(device)?,
            pds: Vec::new(),
        };
        let local = sys::IBV_ACCESS_LOCAL_WRITE;
        busy.put("an MR", |pd| Mr::register(pd, 64, local))?;
        busy.put("an SRQ", |pd| Srq::create(pd, 16, 1))?;
        let init = busy.bench.init(Transport::Rc, Caps::default())?;
        busy.put("a QP", |pd| Qp::create(pd, &init))?;
        if device == Device::Rxe {
            busy.put("an AH", |pd| Ah::create(pd, device.address()))?;
            busy.put("a window", Mw::alloc)?;
        }
        Ok(busy)
    }

    fn put<T: 'static>(
        &mut self,
        what: &'static str,
        make: impl FnOnce(&Arc<Pd>) -> io::Result<T>,
    ) -> Outcome {
        let pd = Pd::alloc(&self.bench.context)?;
        self.pds.push(User {
            what,
            _itself: Box::new(make(&pd)?),
            pd,
        });
        Ok(())
    }

    /// Asks for the destruction of the PD that has `what`.
    fn dealloc(&self, what: &str) -> Said {
        let Some(user) = self.pds.iter().find(|user| user.what == what) else {
            panic!("no PD with {what}")
        };
        // SAFETY: the PD is alive. If it goes all the same, the process does not go on.
        let said = Said::returned(unsafe { sys::ibv_dealloc_pd(user.pd.raw()) });
        assert_ne!(said, Said::Done, "a PD in use is gone");
        said
    }

    /// All of them can be used; they go when what is on them has gone.
    fn works(&self) -> Outcome {
        for user in &self.pds {
            drop(Mr::register(&user.pd, 64, sys::IBV_ACCESS_LOCAL_WRITE)?);
        }
        works(&self.bench)
    }
}

fn dealloc_rows(device: Device) -> Vec<Row<Busy>> {
    let users: &[_] = match device {
        Device::Rxe => &["an MR", "an SRQ", "a QP", "an AH", "a window"],
        Device::Siw => &["an MR", "an SRQ", "a QP"],
    };
    let row = |&what| Row::refused(what, libc::EBUSY, move |busy: &Busy| busy.dealloc(what));
    users.iter().map(row).collect()
}
