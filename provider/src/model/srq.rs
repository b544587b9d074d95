// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause

//! The kernel's side of an SRQ, in either layout.

use kernel_abi::{rxe, siw};

use super::kernel::Uid;
use super::memory::Memory;
use super::queue::Queue;
use super::{entries::Entries, rxe as rxe_machine, siw as siw_machine};

/// A receive that a QP has taken: its cookie, and what it is to the model.
pub(super) type Taken = (u64, Option<Uid>);

/// An SRQ.
pub(super) struct Srq {
    ring: Ring,
}

enum Ring {
    Rxe(Queue),
    Siw(Entries<siw::Rqe>),
}

impl Srq {
    pub(super) fn rxe(memory: &mut Memory, wr: u32) -> (Self, rxe::CreateSrqResp) {
        let queue = Queue::new(memory, wr, rxe_machine::RECV_ELEMENT);
        let answer = rxe::CreateSrqResp {
            mi: queue.info(),
            ..Default::default()
        };
        let ring = Ring::Rxe(queue);
        (Self { ring }, answer)
    }

    pub(super) fn siw(memory: &mut Memory, wr: u32) -> (Self, siw::CreateSrqResp) {
        let entries = Entries::new(memory, wr);
        let answer = siw::CreateSrqResp {
            num_rqe: entries.count(),
            pad: 0,
            srq_key: entries.key(),
        };
        let ring = Ring::Siw(entries);
        (Self { ring }, answer)
    }

    /// Takes the oldest receive (`rxe_resp.c: get_srq_wqe`, `siw_qp_rx.c: siw_rqe_get`).
    pub(super) fn take(&mut self, memory: &Memory) -> Option<Taken> {
        match &mut self.ring {
            Ring::Rxe(queue) => {
                let taken = rxe_machine::recv(memory, queue.head(memory)?);
                queue.advance_consumer(memory);
                Some(taken)
            }
            Ring::Siw(entries) => entries
                .take(memory)
                .map(|rqe| (rqe.id, siw_machine::recv(&rqe))),
        }
    }
}
