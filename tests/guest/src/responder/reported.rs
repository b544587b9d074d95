// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause

//! What a responder refuses with a receive in its hands, which completes with the error.

use guest::death::{NO_KEY, no_remote};
use guest::scene::{SMALL, Scene};
use guest::suite::Outcome;
use guest::verbs::SendWr;

/// What is wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Reported {
    /// The message is longer than the receive.
    LongSend,
    /// The receive names memory that is none.
    BadReceive,
    /// An RDMA WRITE with immediate data, of one packet, has a key that no region has.
    WriteWithImm,
    /// The message is to invalidate a key that no region has.
    Invalidation,
}

impl Reported {
    pub(super) const ALL: [Self; 4] = [
        Self::LongSend,
        Self::BadReceive,
        Self::WriteWithImm,
        Self::Invalidation,
    ];

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::LongSend => "long_send",
            Self::BadReceive => "bad_receive",
            Self::WriteWithImm => "write_with_imm_without_key",
            Self::Invalidation => "invalidation_without_key",
        }
    }

    /// Gives the victim receives, and has its peer do it; returns when the peer knows how that went.
    pub(super) fn provoke(self, scene: &Scene) -> Outcome {
        let sge = scene.near.sge(0, SMALL);
        let receive = match self {
            Self::BadReceive => sge.with_lkey(NO_KEY),
            Self::LongSend | Self::WriteWithImm | Self::Invalidation => sge,
        };
        let list = scene.roll.recvs(scene.recvs, 4, receive);
        match &scene.srq {
            Some(srq) => srq.post_recv(&list)?,
            None => scene.victim.qp.post_recv(&list)?,
        }
        let request = match self {
            Self::LongSend => SendWr::send(&[scene.near.sge(0, 2 * SMALL)]),
            Self::BadReceive => SendWr::send(&[sge]),
            Self::WriteWithImm => SendWr::write(&[sge], no_remote(scene.near.remote(0))).imm(7),
            Self::Invalidation => SendWr::send(&[sge]).invalidating(NO_KEY),
        };
        let peer = scene.peer();
        peer.qp.post_send(&[request.signaled()])?;
        // An invalidation fails behind the answer.
        peer.send_cq.take_one()?;
        Ok(())
    }
}
