// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause

//! The operations that QPs of each type have.

use rdma_core_sys::provider::WC_FLUSH;
use rdma_core_sys::{
    IBV_QPT_RC, IBV_QPT_UC, IBV_QPT_UD, IBV_WC_ATOMIC_WRITE, IBV_WC_BIND_MW, IBV_WC_COMP_SWAP,
    IBV_WC_FETCH_ADD, IBV_WC_LOCAL_INV, IBV_WC_RDMA_READ, IBV_WC_RDMA_WRITE, IBV_WC_SEND,
    IBV_WR_ATOMIC_CMP_AND_SWP, IBV_WR_ATOMIC_FETCH_AND_ADD, IBV_WR_BIND_MW, IBV_WR_LOCAL_INV,
    IBV_WR_RDMA_READ, IBV_WR_RDMA_WRITE, IBV_WR_RDMA_WRITE_WITH_IMM, IBV_WR_SEND,
    IBV_WR_SEND_WITH_IMM, IBV_WR_SEND_WITH_INV, ibv_qp_type,
};

use crate::errno::{Errno, Result};
use crate::ledger::{Standing, small};
use crate::wr::{Beyond, SendRequest};

/// What an operation has of its own in its WQE.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Own {
    Nothing,
    /// `wr.rdma`.
    Target,
    Atomic,
    Receiver,
    Window,
}

/// An operation that a QP has.
#[derive(Debug, Clone, Copy)]
pub(super) struct Operation {
    /// That of a send which is not signaled, and of one that is: the kernel posts no other CQEs.
    pub(super) standing: [Standing; 2],
    pub(super) own: Own,
}

/// The operations that QPs of one type have, by `enum ibv_wr_opcode`.
#[derive(Debug)]
pub(super) struct Operations {
    /// Also those that `ibv_post_send`(3) does not have.
    is_reliable: bool,
    by_opcode: [Option<Operation>; 16],
}

/// What QPs of this type have (linux 6.1, 6.12 `rxe_opcode.c: rxe_wr_opcode_info`).
pub(super) fn operations(qp_type: ibv_qp_type) -> &'static Operations {
    const NONE: Operations = Operations {
        is_reliable: false,
        by_opcode: [None; 16],
    };
    const DATAGRAM: Operations = NONE.with(IBV_WR_SEND, IBV_WC_SEND, Own::Receiver).with(
        IBV_WR_SEND_WITH_IMM,
        IBV_WC_SEND,
        Own::Receiver,
    );
    const CONNECTED: Operations = NONE
        .with(IBV_WR_SEND, IBV_WC_SEND, Own::Nothing)
        .with(IBV_WR_SEND_WITH_IMM, IBV_WC_SEND, Own::Nothing)
        .with(IBV_WR_SEND_WITH_INV, IBV_WC_SEND, Own::Nothing)
        .with(IBV_WR_RDMA_WRITE, IBV_WC_RDMA_WRITE, Own::Target)
        .with(IBV_WR_RDMA_WRITE_WITH_IMM, IBV_WC_RDMA_WRITE, Own::Target)
        .with(IBV_WR_BIND_MW, IBV_WC_BIND_MW, Own::Window);
    const RELIABLE: Operations = Operations {
        is_reliable: true,
        ..CONNECTED
            .with(IBV_WR_RDMA_READ, IBV_WC_RDMA_READ, Own::Target)
            .with(IBV_WR_ATOMIC_CMP_AND_SWP, IBV_WC_COMP_SWAP, Own::Atomic)
            .with(IBV_WR_ATOMIC_FETCH_AND_ADD, IBV_WC_FETCH_ADD, Own::Atomic)
            .with(IBV_WR_LOCAL_INV, IBV_WC_LOCAL_INV, Own::Nothing)
    };
    match qp_type {
        IBV_QPT_RC => &RELIABLE,
        IBV_QPT_UC => &CONNECTED,
        IBV_QPT_UD => &DATAGRAM,
        _ => &NONE,
    }
}

/// What RC QPs have that `ibv_post_send`(3) does not.
static ATOMIC_WRITE: Operation = Operation {
    standing: standing(IBV_WC_ATOMIC_WRITE),
    own: Own::Target,
};
static FLUSH: Operation = Operation {
    standing: standing(WC_FLUSH),
    own: Own::Target,
};

/// Of an operation with this `enum ibv_wc_opcode`.
const fn standing(completion: u32) -> [Standing; 2] {
    let opcode = small(completion);
    [
        Standing::posted(opcode, false, false),
        Standing::posted(opcode, true, true),
    ]
}

impl Operations {
    #[expect(
        clippy::indexing_slicing,
        reason = "all opcodes are below 16; evaluated at build time"
    )]
    const fn with(mut self, opcode: u32, completion: u32, own: Own) -> Self {
        self.by_opcode[opcode as usize] = Some(Operation {
            standing: standing(completion),
            own,
        });
        self
    }

    #[inline(always)]
    pub(super) fn get<W: SendRequest>(&self, request: &W) -> Result<&Operation> {
        let operation = match request.beyond() {
            None => {
                // CAST: u32 fits usize on every target that libibverbs supports.
                let opcode = request.wr().opcode as usize;
                self.by_opcode.get(opcode).and_then(Option::as_ref)
            }
            Some(beyond) => self.is_reliable.then_some(match beyond {
                Beyond::AtomicWrite(_) => &ATOMIC_WRITE,
                Beyond::Flush { .. } => &FLUSH,
            }),
        };
        operation.ok_or(Errno::EINVAL)
    }
}
