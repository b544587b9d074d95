// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause

//! What wakes a waiter, wherever it sleeps and whatever it is armed for.

use guest::death::Death;
use guest::links::Device;
use guest::scene::Scene;
use guest::sleeper::{Bed, Sleeper};
use guest::suite::{Outcome, Stop, Suite};

use super::{IGNORED, LATE, alive, dead};

/// What comes to the CQ.
#[derive(Clone, Copy)]
enum Cause {
    /// Receives that were outstanding when the QP died.
    Recvs,
    /// Sends that were.
    Sends,
    /// Receives posted after that.
    LateRecvs,
    /// Sends posted after that.
    LateSends,
}

impl Cause {
    const ALL: [Self; 4] = [Self::Recvs, Self::Sends, Self::LateRecvs, Self::LateSends];

    fn name(self) -> &'static str {
        match self {
            Self::Recvs => "recvs",
            Self::Sends => "sends",
            Self::LateRecvs => "late_recvs",
            Self::LateSends => "late_sends",
        }
    }

    /// Why the stock provider leaves a waiter asleep.
    fn stock_fault(self, device: Device, solicited_only: bool) -> Option<&'static str> {
        match self {
            Self::LateRecvs => Some(LATE),
            Self::LateSends if device == Device::Siw => Some(IGNORED),
            Self::Recvs if solicited_only => Some(device.pick(
                "6.12: a flushed receive is not solicited",
                "siw takes no receive for solicited",
            )),
            Self::Sends | Self::LateSends if solicited_only => {
                Some("no send is solicited, failed or not")
            }
            _ => None,
        }
    }
}

pub(super) fn add(suite: &mut Suite) {
    for device in Device::ALL {
        for bed in Bed::ALL {
            for cause in [Cause::Recvs, Cause::LateRecvs] {
                let name = format!("{}/{}", bed.name(), cause.name());
                suite
                    .on("waiters", device, &name, move |device| {
                        wakes(device, cause, bed, false)
                    })
                    .beyond_stock(cause.stock_fault(device, false));
            }
        }
        for (arming, solicited_only) in [("any", false), ("solicited", true)] {
            for cause in Cause::ALL {
                let name = format!("{arming}/{}", cause.name());
                suite
                    .on("waiters", device, &name, move |device| {
                        wakes(device, cause, Bed::GetCqEvent, solicited_only)
                    })
                    .beyond_stock(cause.stock_fault(device, solicited_only));
            }
        }
    }
}

fn sleeper(scene: &Scene, bed: Bed, solicited_only: bool) -> Result<Sleeper, Stop> {
    let cqs = [&scene.victim.send_cq, &scene.victim.recv_cq];
    Sleeper::start(&scene.roll, &scene.channel, &cqs, solicited_only, bed)
}

/// A waiter takes all that comes, and sleeps again, three times.
fn wakes(device: Device, cause: Cause, bed: Bed, solicited_only: bool) -> Outcome {
    let scene = match cause {
        Cause::Recvs | Cause::Sends => alive(device)?,
        Cause::LateRecvs | Cause::LateSends => dead(device)?,
    };
    match cause {
        Cause::Recvs => scene.post_recvs(10)?,
        Cause::Sends => scene.load_sends()?,
        Cause::LateRecvs | Cause::LateSends => {}
    }
    let sleeper = sleeper(&scene, bed, solicited_only)?;
    match cause {
        Cause::Recvs | Cause::Sends => Death::ModifyErr.inflict(&scene, 0)?,
        Cause::LateRecvs => scene.post_recvs(1)?,
        Cause::LateSends => scene.post_sends(1)?,
    }
    sleeper.settle()?;
    if matches!(cause, Cause::LateRecvs | Cause::LateSends) {
        for _ in 0..3 {
            match cause {
                Cause::LateSends => scene.post_sends(3)?,
                _ => scene.post_recvs(3)?,
            }
            scene.roll.demand_all(scene.sends);
            sleeper.settle()?;
        }
    }
    Ok(())
}
