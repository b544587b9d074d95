// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause

//! `ibv_alloc_mw`, `ibv_bind_mw`, `ibv_dealloc_mw`, and `ibv_dereg_mr` of a region with a window.

use std::ptr;

use guest::links::Device;
use guest::pair::{Bench, Pair};
use guest::suite::{Outcome, Stop, Suite};
use guest::verbs::{Caps, Mr, Mw, Qp, Remote, SendWr, Transport, sys};

use super::table::{Row, Said, Table};
use super::works;

pub(super) fn add(suite: &mut Suite, device: Device) {
    Table {
        verb: "alloc_mw",
        device,
        stage: Bench::open,
        rows: alloc_rows,
        works,
    }
    .add(suite);
    if device == Device::Rxe {
        Table {
            verb: "bind_mw",
            device,
            stage: Stage::set,
            rows: bind_rows,
            works: Stage::works,
        }
        .add(suite);
        suite
            .case(
                "contract/rxe/bind_mw/unbound_by_nothing",
                unbound_by_nothing,
            )
            .beyond_stock("a region that is NULL is followed");
    }
}

fn alloc(bench: &Bench, mw_type: sys::ibv_mw_type) -> Said {
    // SAFETY: the context is open; its operations do not change.
    let ops = unsafe { (*bench.context.raw()).ops };
    let (Some(alloc_mw), Some(dealloc_mw)) = (ops.alloc_mw, ops.dealloc_mw) else {
        panic!("libibverbs has an operation in each place")
    };
    // SAFETY: the PD is alive.
    Said::made(|| unsafe { alloc_mw(bench.pd.raw(), mw_type) }, dealloc_mw)
}

fn alloc_rows(device: Device) -> Vec<Row<Bench>> {
    let types = |what, mw_type, on_rxe| {
        let call = move |bench: &Bench| alloc(bench, mw_type);
        match device.pick(on_rxe, libc::EOPNOTSUPP) {
            0 => Row::done(what, call),
            errno => Row::refused(what, errno, call),
        }
    };
    vec![
        types("type 1", sys::IBV_MW_TYPE_1, 0),
        types("type 2", sys::IBV_MW_TYPE_2, 0),
        types("type 0", 0, libc::EINVAL),
        types("type 3", 3, libc::EINVAL),
    ]
}

/// A window of type 1, bound to a region.
struct Stage {
    pair: Pair,
    datagrams: Qp,
    mw: Mw,
    region: Mr,
}

impl Stage {
    fn set(device: Device) -> Result<Self, Stop> {
        let pair = Pair::new(device, Transport::Rc)?;
        let init = pair.bench.init(Transport::Ud, Caps::default())?;
        let stage = Self {
            datagrams: Qp::create(&pair.bench.pd, &init)?,
            region: region(&pair.bench)?,
            mw: Mw::of_type(&pair.bench.pd, sys::IBV_MW_TYPE_1)?,
            pair,
        };
        assert_eq!(stage.bind(&stage.pair.b.qp, |_| {}), Said::Done);
        stage.pair.b.send_cq.take_one()?.ok();
        Ok(stage)
    }

    /// Binds the window to the first half of the region, but for what `change` changes.
    fn bind(&self, qp: &Qp, change: impl Fn(&mut sys::ibv_mw_bind)) -> Said {
        let mut bind = sys::ibv_mw_bind {
            wr_id: 7,
            send_flags: sys::IBV_SEND_SIGNALED,
            bind_info: sys::ibv_mw_bind_info {
                mr: self.region.raw(),
                addr: self.region.remote(0).address,
                length: 32,
                mw_access_flags: sys::IBV_ACCESS_REMOTE_WRITE,
            },
        };
        change(&mut bind);
        let key = self.mw.rkey();
        let said = Said::returned(self.mw.bind(qp, bind));
        assert_eq!(
            self.mw.rkey() == key,
            said != Said::Done,
            "the key: {said:?}"
        );
        said
    }

    /// Writes through the window, and says how that completes.
    fn write(&self) -> Result<sys::ibv_wc_status, Stop> {
        let memory = self.pair.bench.memory(8)?;
        let target = Remote {
            rkey: self.mw.rkey(),
            ..self.region.remote(0)
        };
        let write = SendWr::write(&[memory.sge(0, 8)], target).signaled();
        self.pair.a.qp.post_send(&[write])?;
        Ok(self.pair.a.send_cq.take_one()?.status)
    }

    /// The window is bound as before, and nothing of what was refused has completed.
    fn works(&self) -> Outcome {
        assert!(self.pair.b.send_cq.poll_one()?.is_none());
        assert_eq!(self.write()?, sys::IBV_WC_SUCCESS);
        Ok(())
    }
}

/// A region that a window can be bound to.
fn region(bench: &Bench) -> Result<Mr, Stop> {
    let access =
        sys::IBV_ACCESS_LOCAL_WRITE | sys::IBV_ACCESS_REMOTE_WRITE | sys::IBV_ACCESS_MW_BIND;
    Ok(Mr::register(&bench.pd, 64, access)?)
}

fn bind_rows(_: Device) -> Vec<Row<Stage>> {
    vec![
        Row::refused("from zero on", libc::EINVAL, |stage: &Stage| {
            stage.bind(&stage.pair.b.qp, |bind| {
                bind.bind_info.mw_access_flags |= sys::IBV_ACCESS_ZERO_BASED;
            })
        }),
        Row::refused("bytes of no region", libc::EINVAL, |stage: &Stage| {
            stage.bind(&stage.pair.b.qp, |bind| {
                bind.bind_info.mr = ptr::null_mut();
            })
        })
        .beyond_stock("a region that is NULL is followed"),
        Row::refused("by datagrams", libc::EINVAL, |stage: &Stage| {
            stage.bind(&stage.datagrams, |_| {})
        }),
        Row::refused(
            "deregistration of the region",
            libc::EINVAL,
            |stage: &Stage| {
                // SAFETY: the MR is alive. If it goes all the same, the process does not go on.
                let said = Said::returned(unsafe { sys::ibv_dereg_mr(stage.region.raw()) });
                assert_ne!(said, Said::Done, "a region with a window is gone");
                said
            },
        ),
    ]
}

/// ibv_alloc_mw(3): a bind of no bytes takes a window of type 1 back; then there need be no region.
fn unbound_by_nothing() -> Outcome {
    let stage = Stage::set(Device::Rxe)?;
    stage.works()?;
    let said = stage.bind(&stage.pair.b.qp, |bind| {
        bind.bind_info.mr = ptr::null_mut();
        bind.bind_info.addr = 0;
        bind.bind_info.length = 0;
    });
    assert_eq!(said, Said::Done);
    let wc = stage.pair.b.send_cq.take_one()?.ok();
    assert_eq!((wc.wr_id, wc.opcode), (7, sys::IBV_WC_BIND_MW));
    assert_eq!(stage.write()?, sys::IBV_WC_REM_ACCESS_ERR, "it still opens");
    // The region has no window any more.
    drop(stage.region);
    Ok(())
}
