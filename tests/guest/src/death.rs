// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause

//! The ways in which a connected queue pair dies.

use std::path::Path;
use std::thread;
use std::time::Duration;

use crate::links::{self, Device};
use crate::pair::{Retry, owner};
use crate::scene::{LARGE, Other, SMALL, Scene};
use crate::suite::{Outcome, Stop};
use crate::verbs::{Remote, SendWr, sys};

/// A key that no region has.
pub const NO_KEY: u32 = 0x7654_3200;

/// What the kernel still does after it has said that a connection is closed, or has refused a
/// packet, takes microseconds, and nothing in user space shows its end.
const AFTERWARDS: Duration = Duration::from_millis(50);

/// A way to die.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Death {
    /// The application moves the QP to ERR.
    ModifyErr,
    /// The application moves the QP to SQD, which ends an iWARP connection.
    ModifySqd,
    /// The application closes the connection: `rdma_disconnect`.
    Disconnect,
    /// The peer closes the connection.
    PeerDisconnects,
    /// The peer moves its QP to ERR.
    PeerFails,
    /// The peer destroys its QP.
    PeerDestroyed,
    /// The peer's process is killed.
    PeerKilled,
    /// The TCP connection is reset.
    Reset,
    /// A send names local memory that is none.
    LocalKey,
    /// A send names remote memory that is none, and the peer refuses it.
    RemoteKey,
    /// The peer writes beyond the end of the victim's memory.
    Violated,
    /// The peer sends a longer message than the receive has room for.
    LongMessage,
    /// The peer never has a receive.
    NoReceive,
}

/// Deaths of an rxe QP.
const RXE: &[Death] = &[
    Death::ModifyErr,
    Death::PeerDestroyed,
    Death::PeerKilled,
    Death::LocalKey,
    Death::RemoteKey,
    Death::Violated,
    Death::LongMessage,
    Death::NoReceive,
];

/// Deaths of a siw QP.
const SIW: &[Death] = &[
    Death::ModifyErr,
    Death::ModifySqd,
    Death::Disconnect,
    Death::PeerDisconnects,
    Death::PeerFails,
    Death::PeerDestroyed,
    Death::PeerKilled,
    Death::Reset,
    Death::LocalKey,
    Death::RemoteKey,
    Death::Violated,
    Death::LongMessage,
];

impl Death {
    /// All deaths of a QP on `device`.
    #[must_use]
    pub fn all(device: Device) -> &'static [Self] {
        device.pick(RXE, SIW)
    }

    /// What cases call it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::ModifyErr => "modify_err",
            Self::ModifySqd => "modify_sqd",
            Self::Disconnect => "disconnect",
            Self::PeerDisconnects => "peer_disconnects",
            Self::PeerFails => "peer_fails",
            Self::PeerDestroyed => "peer_destroyed",
            Self::PeerKilled => "peer_killed",
            Self::Reset => "connection_reset",
            Self::LocalKey => "local_key",
            Self::RemoteKey => "remote_key",
            Self::Violated => "violated",
            Self::LongMessage => "long_message",
            Self::NoReceive => "no_receive",
        }
    }

    /// Whether the peer must be in a process of its own.
    #[must_use]
    pub fn needs_process(self) -> bool {
        self == Self::PeerKilled
    }

    /// How often an rxe victim tries again.
    #[must_use]
    pub fn retry(self) -> Retry {
        match self {
            Self::PeerDestroyed | Self::PeerKilled | Self::NoReceive => Retry::BRIEF,
            _ => Retry::PATIENT,
        }
    }

    /// Whether a QP on `device` dies of a send of its own, or would not notice otherwise.
    #[must_use]
    pub fn is_by_send(self, device: Device) -> bool {
        match self {
            Self::LocalKey | Self::RemoteKey | Self::NoReceive => true,
            Self::PeerDestroyed | Self::PeerKilled => device == Device::Rxe,
            _ => false,
        }
    }

    /// Whether siw may raise QP_FATAL besides, as if the send had failed that the peer refuses. It does if the
    /// peer's answer has been worked on before that send's last segment has returned from TCP (linux 6.1, 6.12
    /// `siw_qp_tx.c: siw_qp_sq_proc_tx`, which finds `tx_suspend` and says ECONNABORTED).
    #[must_use]
    pub fn may_be_catastrophic(self, device: Device) -> bool {
        device == Device::Siw && self == Self::RemoteKey
    }

    /// Whether the application of the victim knows, because it was told by a verb.
    #[must_use]
    pub fn is_announced(self) -> bool {
        matches!(self, Self::ModifyErr | Self::ModifySqd)
    }

    /// Kills the victim, and returns when it is dead.
    ///
    /// If it takes a send of its own to die, `behind` others stand behind that one in its list.
    ///
    /// # Errors
    ///
    /// A failure of any verb, or that the victim lives on.
    pub fn inflict(self, scene: &Scene, behind: usize) -> Outcome {
        self.strike(scene)?;
        if self.is_by_send(scene.device()) {
            self.post_fatal(scene, behind)?;
        }
        self.await_end(scene)
    }

    /// Does what kills the victim, unless it takes a send of its own to die, and does not wait.
    ///
    /// # Errors
    ///
    /// A failure of any verb.
    pub fn strike(self, scene: &Scene) -> Outcome {
        match self {
            Self::ModifyErr => scene.victim.qp.move_to(sys::IBV_QPS_ERR)?,
            Self::ModifySqd => scene.victim.qp.move_to(sys::IBV_QPS_SQD)?,
            Self::Disconnect => owner(&scene.victim.qp)?.disconnect()?,
            Self::PeerDisconnects => owner(&scene.peer().qp)?.disconnect()?,
            Self::PeerFails => scene.peer().qp.move_to(sys::IBV_QPS_ERR)?,
            Self::PeerDestroyed => drop(scene.take_other()),
            Self::PeerKilled => kill_peer(scene)?,
            Self::Reset => reset(scene.device())?,
            Self::Violated => violate(scene)?,
            Self::LongMessage => overflow(scene)?,
            Self::LocalKey | Self::RemoteKey | Self::NoReceive => {}
        }
        Ok(())
    }

    /// Posts the send that is the victim's last, and `behind` more.
    ///
    /// # Errors
    ///
    /// A failure of the verb.
    pub fn post_fatal(self, scene: &Scene, behind: usize) -> Outcome {
        let sge = scene.near.sge(0, SMALL);
        let fatal = match self {
            Self::LocalKey => SendWr::send(&[sge.with_lkey(NO_KEY)]),
            Self::RemoteKey => SendWr::write(&[sge], no_remote(scene.far)),
            _ => SendWr::send(&[sge]),
        };
        let mut list = vec![scene.roll.send(scene.sends, fatal.signaled())];
        let others = SendWr::write(&[sge], scene.far);
        list.extend(scene.roll.alternating(scene.sends, behind, &others));
        Ok(scene.victim.qp.post_send(&list)?)
    }

    /// Waits until the kernel has done what it does when the victim dies.
    fn await_end(self, scene: &Scene) -> Outcome {
        match scene.device() {
            Device::Siw if self.is_announced() => return Ok(()),
            Device::Siw => {
                let channel = owner(&scene.victim.qp)?.channel();
                drop(channel.expect(sys::RDMA_CM_EVENT_DISCONNECTED)?);
            }
            Device::Rxe => {
                if matches!(self, Self::Violated | Self::LongMessage) {
                    let refused = scene.peer().send_cq.take_one()?;
                    if refused.is_success() {
                        return Err(Stop::Fail(format!("the victim accepts {refused:?}")));
                    }
                }
            }
        }
        thread::sleep(AFTERWARDS);
        Ok(())
    }
}

/// The same place under a key that no region has.
#[must_use]
pub fn no_remote(remote: Remote) -> Remote {
    Remote {
        rkey: NO_KEY,
        ..remote
    }
}

fn kill_peer(scene: &Scene) -> Outcome {
    match scene.take_other() {
        Other::There(peer) => Ok(peer.kill()?),
        other => Err(Stop::Fail(format!("no process to kill: {other:?}"))),
    }
}

/// Resets every TCP connection of the device, as a firewall or a rebooted peer does.
fn reset(device: Device) -> Outcome {
    if !Path::new("/sys/module/tcp_diag").exists() {
        return Err(Stop::skip("without tcp_diag nobody can reset a connection"));
    }
    let command = format!("ss --no-header --kill --tcp dst {}", device.address());
    Ok(links::run(&command).map(drop)?)
}

/// Writes over the end of the victim's memory. siw reports it as an access error; of a key that
/// nobody has it only informs the peer.
fn violate(scene: &Scene) -> Outcome {
    let beyond = scene.near.remote(LARGE - SMALL / 2);
    let write = SendWr::write(&[scene.near.sge(0, SMALL)], beyond);
    Ok(scene.peer().qp.post_send(&[write.signaled()])?)
}

/// The receive is posted here, so that there is one, however many there were before.
fn overflow(scene: &Scene) -> Outcome {
    scene.post_recvs(1)?;
    let long = SendWr::send(&[scene.near.sge(0, 2 * SMALL)]);
    Ok(scene.peer().qp.post_send(&[long.signaled()])?)
}
