// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause

//! Theme `llp_close`: the connection ends below the queue pair, and an application that does nothing
//! but read asynchronous events is told so, once. It posts, polls and arms nothing until then.
//!
//! The cases are the same with the companion module (`companion/`) and without it. The provider tells by
//! the mark; the stock one needs the module for it.

mod reason;
mod told;

use guest::companion;
use guest::death::Death;
use guest::links::{Cut, Device};
use guest::load::Load;
use guest::scene::Scene;
use guest::suite::{Outcome, Suite};

use reason::Reason;

/// How a connection ends.
#[derive(Debug, Clone, Copy)]
struct End {
    name: &'static str,
    how: How,
    /// What the module makes of it.
    reason: Reason,
}

#[derive(Debug, Clone, Copy)]
enum How {
    Dies(Death),
    /// Every packet is lost, and TCP gives up.
    Cut,
    /// The same, between two network namespaces with a device each.
    CableCut,
}

const ENDS: [End; 9] = [
    End::new("disconnect", Death::Disconnect, Reason::None),
    End::new("peer_disconnects", Death::PeerDisconnects, Reason::Closed),
    End::new("peer_fails", Death::PeerFails, Reason::Closed),
    End::new("peer_destroyed", Death::PeerDestroyed, Reason::Closed),
    End::new("peer_killed", Death::PeerKilled, Reason::Closed),
    End::new("reset", Death::Reset, Reason::Reset),
    End::new("terminate", Death::RemoteKey, Reason::Terminated),
    End {
        name: "cut",
        how: How::Cut,
        reason: Reason::Lost,
    },
    End {
        name: "cable_cut",
        how: How::CableCut,
        reason: Reason::Lost,
    },
];

impl End {
    const fn new(name: &'static str, death: Death, reason: Reason) -> Self {
        Self {
            name,
            how: How::Dies(death),
            reason,
        }
    }

    /// What the victim must have had to do, beside what the load gives it, to notice at all.
    fn needs_send(self) -> bool {
        match self.how {
            How::Dies(death) => death.is_by_send(Device::Siw),
            How::Cut | How::CableCut => true,
        }
    }

    /// Ends the connection, and does not wait.
    fn inflict(self, scene: &Scene) -> Outcome {
        match self.how {
            How::Dies(death) => {
                death.strike(scene)?;
                if death.is_by_send(Device::Siw) {
                    death.post_fatal(scene, 0)?;
                }
                Ok(())
            }
            How::Cut | How::CableCut => scene.post_sends(2),
        }
    }

    /// What the victim has to do, in turn. There is one cable only: while an RDMA device goes, as those of
    /// a cable do for a while, linux makes no network namespace (`core/device.c: rdma_dev_init_net` wants each
    /// device to appear there; measured: ENODEV).
    fn loads(self) -> &'static [Load] {
        match self.how {
            How::Dies(_) => &Load::ALL,
            // TCP takes its time.
            How::Cut => &[Load::Empty, Load::Full],
            How::CableCut => &[Load::Shared],
        }
    }
}

/// Seconds. TCP takes up to ten of them to give up, and a cable takes half a dozen commands to lay.
const DEADLINE: u64 = 60;

/// Adds the cases of this theme.
pub(crate) fn add(suite: &mut Suite) {
    for end in ENDS {
        for &load in end.loads() {
            let name = format!("llp_close/siw/{}/{}", end.name, load.name());
            suite
                .case(name, move || close(end, load))
                .beyond_stock(stock_fault(end, load))
                .within(DEADLINE);
        }
    }
}

/// What the stock provider does wrong without the companion.
fn stock_fault(end: End, load: Load) -> Option<&'static str> {
    match (end.reason, load) {
        (Reason::None, Load::Empty) => None,
        (Reason::None, Load::Full) => Some("CLOSING flushes no send"),
        // SQ_DRAINED tells.
        (_, Load::Full) if !end.needs_send() => None,
        _ => Some("without the companion nobody is told of an end"),
    }
}

fn close(end: End, load: Load) -> Outcome {
    let set = |death| Scene::set(Device::Siw, death, load.plan());
    let (scene, cable) = match end.how {
        How::Dies(death) => (set(death)?, None),
        How::Cut => (set(Death::PeerDestroyed)?, None),
        How::CableCut => {
            let (scene, cable) = Scene::across(load.plan())?;
            (scene, Some(cable))
        }
    };
    if load == Load::Full {
        scene.post_recvs(20)?;
        if !end.needs_send() {
            scene.load_sends()?;
        }
    }
    let reason = match (end.reason, load) {
        // A close with bytes that nobody will read is a reset; a send may even have failed before.
        (Reason::Closed, Load::Full) => Reason::None,
        (reason, _) => reason,
    };
    let before = companion::count(reason.counters())?;
    let cut = match (end.how, &cable) {
        (How::Cut, _) => Some(Cut::begin()?),
        (_, Some(cable)) => {
            cable.cut()?;
            None
        }
        _ => None,
    };
    end.inflict(&scene)?;
    let told = told::listen(&scene, end, load)?;
    drop(cut);
    let siw_told = told::check(&told, end, load);
    if !siw_told && let (Some(before), Some(after)) = (before, companion::count(reason.counters())?)
    {
        assert!(after > before, "the module counts no {reason:?}");
    }
    scene.settle()
}
