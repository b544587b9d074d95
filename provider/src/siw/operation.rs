// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause

//! What siw makes of each operation with each of its flags: looked up, where a post would have to put it together.

use kernel_abi::siw::{flags, opcode};
use rdma_core_sys::{
    IBV_SEND_FENCE, IBV_SEND_INLINE, IBV_SEND_SIGNALED, IBV_SEND_SOLICITED, IBV_WC_LOCAL_INV,
    IBV_WC_RDMA_READ, IBV_WC_RDMA_WRITE, IBV_WC_SEND, IBV_WR_LOCAL_INV, IBV_WR_RDMA_READ,
    IBV_WR_RDMA_WRITE, IBV_WR_SEND, IBV_WR_SEND_WITH_INV,
};

use crate::ledger::{Standing, small};
use crate::ring::valid::Head;
use crate::wr::SendRequest;

/// An operation with its flags.
#[derive(Debug, Clone, Copy)]
#[repr(align(16))]
pub(super) struct Operation {
    /// That of its SQE with one entry, or with inline data.
    pub(super) head: Head,
    pub(super) standing: Standing,
    pub(super) form: Form,
    pub(super) own: Own,
}

/// What an SQE has for a list of entries.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Form {
    /// Entries to gather from.
    Gather,
    /// The one entry to scatter to.
    Scatter,
    /// A copy of the bytes.
    Inline,
    Nothing,
    /// siw does not have the operation, or not with these flags, and would leave it at the head of the queue for ever
    /// (linux 6.1 `siw_qp.c: siw_activate_tx_from_sq`).
    Unknown,
}

/// What an operation has of its own in its SQE.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Own {
    Nothing,
    /// `wr.rdma`.
    Target,
    /// The key that it invalidates.
    Key,
}

/// The flags of `IBV_SEND_*` that siw has: all below 16.
const FLAGS: u32 = IBV_SEND_FENCE | IBV_SEND_SIGNALED | IBV_SEND_SOLICITED | IBV_SEND_INLINE;
const _: () = assert!(FLAGS == 15);

/// By `enum ibv_wr_opcode` and [`FLAGS`].
#[derive(Debug)]
pub(super) struct Operations([[Operation; COMBINATIONS]; 16]);

const COMBINATIONS: usize = FLAGS as usize + 1;

/// Those that siw has: iWARP has neither immediate data nor atomics.
#[expect(
    clippy::indexing_slicing,
    reason = "all opcodes are below 16; evaluated at build time"
)]
pub(super) static OPERATIONS: Operations = {
    let mut all = [[Operation::UNKNOWN; COMBINATIONS]; 16];
    all[IBV_WR_SEND as usize] =
        Operation::with_flags(opcode::SEND, IBV_WC_SEND, Own::Nothing, Form::Gather);
    all[IBV_WR_SEND_WITH_INV as usize] =
        Operation::with_flags(opcode::SEND_REMOTE_INV, IBV_WC_SEND, Own::Key, Form::Gather);
    all[IBV_WR_RDMA_WRITE as usize] =
        Operation::with_flags(opcode::WRITE, IBV_WC_RDMA_WRITE, Own::Target, Form::Gather);
    all[IBV_WR_RDMA_READ as usize] =
        Operation::with_flags(opcode::READ, IBV_WC_RDMA_READ, Own::Target, Form::Scatter);
    // Of a region: siw has no windows (linux 6.1 `siw_qp_tx.c: siw_qp_sq_proc_local`).
    all[IBV_WR_LOCAL_INV as usize] = Operation::with_flags(
        opcode::INVAL_STAG,
        IBV_WC_LOCAL_INV,
        Own::Key,
        Form::Nothing,
    );
    Operations(all)
};

impl Operations {
    /// What siw makes of a request, if all have these `flags` of `IBV_SEND_*`; nothing if it has no such operation.
    #[inline(always)]
    pub(super) fn get<W: SendRequest>(&self, request: &W, flags: u32) -> Option<&Operation> {
        let wr = request.wr();
        // CAST: u32 fits usize on every target that libibverbs supports.
        let asked = ((wr.send_flags | flags) & FLAGS) as usize;
        // CAST: as above.
        let by_flags = self.0.get(wr.opcode as usize)?;
        request.beyond().is_none().then(|| {
            #[expect(clippy::indexing_slicing, reason = "masked")]
            &by_flags[asked]
        })
    }
}

impl Operation {
    const UNKNOWN: Self = Self {
        head: Head::valid(0, 0, 0),
        standing: Standing::posted(0, false, false),
        form: Form::Unknown,
        own: Own::Nothing,
    };

    /// An operation with each combination of flags.
    #[expect(clippy::indexing_slicing, reason = "evaluated at build time")]
    const fn with_flags(
        siw_opcode: u8,
        completion: u32,
        own: Own,
        form: Form,
    ) -> [Self; COMBINATIONS] {
        let mut all = [Self::UNKNOWN; COMBINATIONS];
        let mut asked = 0_u32;
        while asked <= FLAGS {
            let flags = sqe_flags(siw_opcode, asked);
            let form = form_with(siw_opcode, form, asked);
            let num_sge = matches!(form, Form::Gather | Form::Scatter) as u8;
            let is_signaled = asked & IBV_SEND_SIGNALED != 0;
            let is_reported = flags & flags::SIGNALLED != 0;
            all[asked as usize] = Self {
                head: Head::valid(flags, num_sge, siw_opcode),
                standing: Standing::posted(small(completion), is_signaled, is_reported),
                form,
                own,
            };
            asked = asked.wrapping_add(1);
        }
        all
    }
}

/// What an SQE has for the list of an operation of this form, with these flags.
const fn form_with(siw_opcode: u8, form: Form, asked: u32) -> Form {
    let has_data = matches!(siw_opcode, opcode::SEND | opcode::WRITE);
    match form {
        _ if asked & IBV_SEND_INLINE != 0 && has_data => Form::Inline,
        _ if asked & IBV_SEND_INLINE != 0 => Form::Unknown,
        Form::Scatter if asked & IBV_SEND_FENCE != 0 => Form::Unknown,
        form => form,
    }
}

/// The flags of an SQE but for VALID.
const fn sqe_flags(siw_opcode: u8, asked: u32) -> u16 {
    const fn flag(asked: u32, send_flag: u32, flag: u16) -> u16 {
        if asked & send_flag == 0 { 0 } else { flag }
    }
    // A READ completes late, and what is behind it must wait: its CQE is always needed.
    let always = if siw_opcode == opcode::READ {
        flags::SIGNALLED
    } else {
        0
    };
    always
        | flag(asked, IBV_SEND_FENCE, flags::READ_FENCE)
        | flag(asked, IBV_SEND_SIGNALED, flags::SIGNALLED)
        | flag(asked, IBV_SEND_SOLICITED, flags::SOLICITED)
        | flag(asked, IBV_SEND_INLINE, flags::INLINE)
}

#[cfg(test)]
mod tests {
    use rdma_core_sys::{IBV_WR_ATOMIC_FETCH_AND_ADD, ibv_send_wr};

    use super::*;

    fn form(opcode: u32, send_flags: u32) -> Option<Form> {
        let wr = ibv_send_wr {
            opcode,
            send_flags,
            ..ibv_send_wr::default()
        };
        OPERATIONS.get(&wr, 0).map(|operation| operation.form)
    }

    #[test]
    fn siw_takes_no_fenced_read_and_copies_for_sends_and_writes_alone() {
        assert_eq!(form(IBV_WR_SEND, IBV_SEND_FENCE), Some(Form::Gather));
        assert_eq!(form(IBV_WR_SEND, IBV_SEND_INLINE), Some(Form::Inline));
        assert_eq!(form(IBV_WR_RDMA_READ, 0), Some(Form::Scatter));
        assert_eq!(form(IBV_WR_RDMA_READ, IBV_SEND_FENCE), Some(Form::Unknown));
        for opcode in [IBV_WR_RDMA_READ, IBV_WR_SEND_WITH_INV, IBV_WR_LOCAL_INV] {
            assert_eq!(form(opcode, IBV_SEND_INLINE), Some(Form::Unknown));
        }
        assert_eq!(form(IBV_WR_ATOMIC_FETCH_AND_ADD, 0), Some(Form::Unknown));
        assert_eq!(form(16, 0), None);
        assert_eq!(form(u32::MAX, 0), None);
    }
}
