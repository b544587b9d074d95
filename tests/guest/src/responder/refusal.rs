// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause

//! What a responder refuses while it holds no receive.

use guest::death::no_remote;
use guest::pair::PATH_MTU;
use guest::scene::{LARGE, SMALL, Scene};
use guest::suite::{Outcome, Stop};
use guest::verbs::{Mr, REMOTE_ACCESS, Remote, SendWr, Sge, sys};

use super::told::Why;

/// A request, and what is wrong with it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Refusal(Operation, Wrong);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Operation {
    Write,
    /// Of two packets: it would take a receive with the second one, and is refused at the first.
    LongWriteWithImm,
    Read,
    Atomic,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Wrong {
    /// No region has the key.
    Key,
    /// It goes over the end of the region.
    Place,
    /// The region does not allow it.
    Region,
    /// The QP does not accept such a request.
    Qp,
    /// The QP has no resources for it: `max_dest_rd_atomic` is 0.
    Depth,
}

/// The memory that the request names.
pub(super) struct Target {
    pub(super) remote: Remote,
    /// What keeps it registered, if it is a region of its own.
    _region: Option<Mr>,
}

impl Operation {
    fn name(self) -> &'static str {
        match self {
            Self::Write => "write",
            Self::LongWriteWithImm => "long_write_with_imm",
            Self::Read => "read",
            Self::Atomic => "atomic",
        }
    }

    /// The right that it needs.
    fn right(self) -> u32 {
        match self {
            Self::Write | Self::LongWriteWithImm => sys::IBV_ACCESS_REMOTE_WRITE,
            Self::Read => sys::IBV_ACCESS_REMOTE_READ,
            Self::Atomic => sys::IBV_ACCESS_REMOTE_ATOMIC,
        }
    }

    fn len(self) -> usize {
        match self {
            Self::LongWriteWithImm => 2 * PATH_MTU,
            Self::Write | Self::Read | Self::Atomic => SMALL,
        }
    }

    fn request<'m>(self, sge: Sge<'m>, remote: Remote) -> SendWr<'m> {
        match self {
            Self::Write => SendWr::write(&[sge], remote),
            Self::LongWriteWithImm => SendWr::write(&[sge], remote).imm(7),
            Self::Read => SendWr::read(&[sge], remote),
            Self::Atomic => SendWr::fetch_add(sge, remote, 1),
        }
    }
}

impl Refusal {
    pub(super) const ALL: [Self; 13] = [
        Self(Operation::Write, Wrong::Key),
        Self(Operation::Write, Wrong::Place),
        Self(Operation::Write, Wrong::Region),
        Self(Operation::Write, Wrong::Qp),
        Self(Operation::LongWriteWithImm, Wrong::Key),
        Self(Operation::Read, Wrong::Key),
        Self(Operation::Read, Wrong::Place),
        Self(Operation::Read, Wrong::Region),
        Self(Operation::Read, Wrong::Qp),
        Self(Operation::Read, Wrong::Depth),
        Self(Operation::Atomic, Wrong::Key),
        Self(Operation::Atomic, Wrong::Region),
        Self(Operation::Atomic, Wrong::Qp),
    ];

    pub(super) fn name(self) -> String {
        let wrong = match self.1 {
            Wrong::Key => "without_key",
            Wrong::Place => "out_of_range",
            Wrong::Region => "against_region",
            Wrong::Qp => "not_accepted",
            Wrong::Depth => "too_many",
        };
        format!("{}_{wrong}", self.0.name())
    }

    pub(super) fn why(self) -> Why {
        match self.1 {
            Wrong::Key | Wrong::Place | Wrong::Region => Why::Access,
            Wrong::Qp | Wrong::Depth => Why::Request,
        }
    }

    /// Makes the request one that will be refused, before the victim has anything to do.
    pub(super) fn prepare(self, scene: &Scene) -> Result<Target, Stop> {
        let mut region = None;
        let mut remote = scene.near.remote(0);
        let rights = REMOTE_ACCESS & !self.0.right();
        match self.1 {
            Wrong::Key => remote = no_remote(remote),
            Wrong::Place => remote = scene.near.remote(LARGE - self.0.len() / 2),
            Wrong::Region => {
                let memory = Mr::register(&scene.bench.pd, self.0.len(), rights)?;
                remote = memory.remote(0);
                region = Some(memory);
            }
            Wrong::Qp => accept_only(scene, rights)?,
            Wrong::Depth => accept_no_reads(scene)?,
        }
        Ok(Target {
            remote,
            _region: region,
        })
    }

    /// Has the peer ask for it, and waits until it is told that this is refused.
    pub(super) fn ask(self, scene: &Scene, remote: Remote) -> Outcome {
        let peer = scene.peer();
        let request = self.0.request(scene.near.sge(0, self.0.len()), remote);
        peer.qp.post_send(&[request.signaled()])?;
        let refused = peer.send_cq.take_one()?;
        let status = match self.why() {
            Why::Access => sys::IBV_WC_REM_ACCESS_ERR,
            Why::Request => sys::IBV_WC_REM_INV_REQ_ERR,
        };
        assert_eq!(refused.status, status, "{refused:?}");
        Ok(())
    }
}

/// Takes rights away from the victim's QP.
fn accept_only(scene: &Scene, rights: u32) -> Outcome {
    let attributes = sys::ibv_qp_attr {
        qp_state: sys::IBV_QPS_RTS,
        qp_access_flags: rights,
        ..Default::default()
    };
    let mask = sys::IBV_QP_STATE | sys::IBV_QP_ACCESS_FLAGS;
    Ok(scene.victim.qp.modify(attributes, mask)?)
}

/// Takes away from the victim's QP what it would answer READs with, which can be changed in SQD alone. It
/// answers its peer there as in RTS.
fn accept_no_reads(scene: &Scene) -> Outcome {
    let qp = &scene.victim.qp;
    qp.move_to(sys::IBV_QPS_SQD)?;
    while qp.is_draining()? {}
    let attributes = sys::ibv_qp_attr {
        qp_state: sys::IBV_QPS_SQD,
        max_dest_rd_atomic: 0,
        ..Default::default()
    };
    let mask = sys::IBV_QP_STATE | sys::IBV_QP_MAX_DEST_RD_ATOMIC;
    Ok(qp.modify(attributes, mask)?)
}
