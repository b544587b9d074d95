// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause

//! A send that cannot finish, so that nothing behind it can succeed.

use crate::links::{Device, Stall};
use crate::scene::Scene;
use crate::suite::Stop;
use crate::verbs::{Mr, SendWr};

/// Bytes that TCP's buffers do not hold.
const HUGE: usize = 8 << 20;

/// The first send of a scene's victim, under way until the victim dies or this is dropped.
///
/// On siw it is a WRITE of more than TCP takes while every packet is lost. rxe needs none: its peer
/// has no receive for the first SEND.
#[derive(Debug)]
pub struct Clog {
    // Packets may pass again before the memory goes.
    _stall: Option<Stall>,
    _memory: Option<[Mr; 2]>,
}

impl Clog {
    /// Posts the send.
    ///
    /// # Errors
    ///
    /// A failure of the verbs, or of `tc`.
    pub fn post(scene: &Scene) -> Result<Self, Stop> {
        if scene.device() == Device::Rxe {
            let send = SendWr::send(&[scene.near.sge(0, 0)]).signaled();
            let list = [scene.roll.send(scene.sends, send)];
            scene.victim.qp.post_send(&list)?;
            return Ok(Self {
                _stall: None,
                _memory: None,
            });
        }
        let memory = [scene.bench.memory(HUGE)?, scene.bench.memory(HUGE)?];
        let stall = Stall::begin()?;
        let write = SendWr::write(&[memory[0].sge(0, HUGE)], memory[1].remote(0)).signaled();
        let list = [scene.roll.send(scene.sends, write)];
        scene.victim.qp.post_send(&list)?;
        Ok(Self {
            _stall: Some(stall),
            _memory: Some(memory),
        })
    }
}
