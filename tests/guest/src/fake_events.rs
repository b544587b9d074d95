// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause

//! Theme `fake_events`: events that no software driver raises today, or not at will, written into a
//! pipe in the place of the context's file. Each that tells of a death flushes.

use std::io::{self, Write};
use std::mem;
use std::os::fd::AsRawFd;

use guest::death::Death;
use guest::links::Device;
use guest::roll::patience;
use guest::scene::{Plan, Scene};
use guest::suite::{Outcome, Stop, Suite};
use guest::verbs::sys;

/// What an event names.
#[derive(Debug, Clone, Copy)]
enum Named {
    Qp,
    /// One with an SRQ.
    SharedQp,
    RecvCq,
    Srq,
    Nothing,
}

/// Events after which the QP is dead.
const DEADLY: [(&str, sys::ibv_event_type, Named); 7] = [
    ("qp_fatal", sys::IBV_EVENT_QP_FATAL, Named::Qp),
    ("qp_req_err", sys::IBV_EVENT_QP_REQ_ERR, Named::Qp),
    ("qp_access_err", sys::IBV_EVENT_QP_ACCESS_ERR, Named::Qp),
    ("path_mig_err", sys::IBV_EVENT_PATH_MIG_ERR, Named::Qp),
    ("cq_err", sys::IBV_EVENT_CQ_ERR, Named::RecvCq),
    ("srq_err", sys::IBV_EVENT_SRQ_ERR, Named::Srq),
    ("device_fatal", sys::IBV_EVENT_DEVICE_FATAL, Named::Nothing),
];

/// Events that leave the QP as it is.
const HARMLESS: [(&str, sys::ibv_event_type, Named); 5] = [
    ("comm_est", sys::IBV_EVENT_COMM_EST, Named::Qp),
    ("path_mig", sys::IBV_EVENT_PATH_MIG, Named::Qp),
    ("wq_fatal", sys::IBV_EVENT_WQ_FATAL, Named::Nothing),
    ("gid_change", sys::IBV_EVENT_GID_CHANGE, Named::Nothing),
    ("sm_change", sys::IBV_EVENT_SM_CHANGE, Named::Nothing),
];

/// Adds the cases of this theme.
pub(crate) fn add(suite: &mut Suite) {
    for device in Device::ALL {
        for (name, event, named) in DEADLY {
            suite
                .case(format!("fake_events/{device}/{name}"), move || {
                    deadly(device, event, named)
                })
                .beyond_stock("no event makes it flush");
        }
        for (name, event, named) in HARMLESS {
            suite.case(format!("fake_events/{device}/{name}"), move || {
                harmless(device, event, named)
            });
        }
    }
    // The companion's word for the end of a connection. rxe repeats it, and is asked first.
    let (event, named) = (sys::IBV_EVENT_QP_LAST_WQE_REACHED, Named::SharedQp);
    suite
        .case("fake_events/siw/last_wqe_reached", move || {
            deadly(Device::Siw, event, named)
        })
        .beyond_stock("no event makes it flush");
}

/// Has the application get an event that the kernel has not raised.
#[expect(clippy::mem_forget, reason = "dropping the event acknowledges it")]
fn deliver(scene: &Scene, event: sys::ibv_event_type, named: Named) -> Outcome {
    let (from, mut to) = io::pipe()?;
    let context = scene.context();
    // The kernel's file is gone for the rest of this process, whose events it would be.
    // SAFETY: both are open, and nobody reads the file meanwhile.
    if unsafe { libc::dup2(from.as_raw_fd(), context.async_fd()) } < 0 {
        return Err(io::Error::last_os_error().into());
    }
    let element = match named {
        Named::Qp | Named::SharedQp => scene.victim.qp.raw() as u64,
        Named::RecvCq => scene.victim.recv_cq.raw() as u64,
        Named::Srq => scene.srq.as_ref().map_or(0, |srq| srq.raw() as u64),
        Named::Nothing => 1,
    };
    let mut raw = [0_u8; 16];
    raw[..8].copy_from_slice(&element.to_le_bytes());
    raw[8..12].copy_from_slice(&event.to_le_bytes());
    to.write_all(&raw)?;
    let got = context
        .next_event(patience())?
        .ok_or_else(|| Stop::Fail("the event is not delivered".to_owned()))?;
    assert_eq!(got.kind(), event, "{got:?}");
    // The kernel has not counted it, so an acknowledgement would be one too many.
    mem::forget(got);
    Ok(())
}

fn deadly(device: Device, event: sys::ibv_event_type, named: Named) -> Outcome {
    let shared = matches!(named, Named::Srq | Named::SharedQp);
    let plan = if shared { Plan::SHARED } else { Plan::PLAIN };
    let scene = Scene::set(device, Death::ModifyErr, plan)?;
    scene.post_recvs(4)?;
    deliver(&scene, event, named)?;
    assert_eq!(scene.victim.qp.query_state()?, sys::IBV_QPS_ERR);
    scene.post_sends(4)?;
    if !shared {
        scene.post_recvs(4)?;
    }
    scene.settle()?;
    scene.roll.assert_flushed(scene.sends);
    if !shared {
        scene.roll.assert_flushed(scene.recvs);
    }
    Ok(())
}

fn harmless(device: Device, event: sys::ibv_event_type, named: Named) -> Outcome {
    let scene = Scene::set(device, Death::ModifyErr, Plan::PLAIN)?;
    scene.post_recvs(4)?;
    deliver(&scene, event, named)?;
    for cq in scene.cqs() {
        scene.roll.poll(cq)?;
    }
    assert_eq!(scene.roll.answered(scene.recvs), 0, "flushed");
    let state = scene.victim.qp.query_state()?;
    assert_ne!(state, sys::IBV_QPS_ERR);
    Ok(())
}
