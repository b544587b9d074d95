// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause

//! Theme `waiters`: whoever sleeps until a completion comes is woken, also by a completion that no
//! kernel has made, and as often as it has asked for and no more.

mod arming;
mod race;
mod wake;

use guest::death::Death;
use guest::links::Device;
use guest::scene::{Plan, Scene};
use guest::suite::{Stop, Suite};

/// Why stock providers leave a waiter asleep that posts to a dead QP.
const LATE: &str = "a receive that is posted to a dead QP never completes";

/// Why stock siw does so with sends too.
const IGNORED: &str = "a send that is posted to a dead QP never completes";

/// Adds the cases of this theme.
pub(crate) fn add(suite: &mut Suite) {
    wake::add(suite);
    arming::add(suite);
    race::add(suite);
}

/// A QP that lives, with nothing to do.
fn alive(device: Device) -> Result<Scene, Stop> {
    Scene::set(device, Death::ModifyErr, Plan::PLAIN)
}

/// A QP that was connected, had nothing to do, and is dead.
fn dead(device: Device) -> Result<Scene, Stop> {
    let scene = alive(device)?;
    Death::ModifyErr.inflict(&scene, 0)?;
    Ok(scene)
}
