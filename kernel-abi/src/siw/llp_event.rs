// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause

//! How the end of a connection is told by an asynchronous event.
//!
//! The iWARP verbs have affiliated asynchronous events for it, which `enum ib_event_type` has not: a
//! kernel can only raise those that libibverbs knows. The stock siw raises none. The module in
//! `companion/` does, by this table; C cannot read it there, so `companion/siw.c: on_closed` says the
//! same in its own words.
//!
//! | end | QP with an SRQ | QP without |
//! |---|---|---|
//! | close complete, bad close, reset, lost | `LAST_WQE_REACHED` | `SQ_DRAINED` |
//! | terminate received | `LAST_WQE_REACHED` | `QP_REQ_ERR` |
//!
//! Whoever ends a connection by himself knows; but the owner of an SRQ not when the last receive is
//! done, so he is told that, too.

/// `IB_EVENT_QP_REQ_ERR`.
const QP_REQ_ERR: u32 = 2;
/// `IB_EVENT_SQ_DRAINED`.
const SQ_DRAINED: u32 = 5;
/// `IB_EVENT_QP_LAST_WQE_REACHED`.
const QP_LAST_WQE_REACHED: u32 = 16;

/// How a connection has ended, in the words of the iWARP verbs.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum LlpEvent {
    /// *LLP close complete*: the peer has closed it, and no send was left in the queue.
    CloseComplete,
    /// *Bad close*: the peer has closed it with sends in the queue, or siw has dropped it because of what
    /// it received.
    BadClose,
    /// *LLP connection reset*: a TCP reset.
    ConnectionReset,
    /// *LLP connection lost*: TCP has given up.
    ConnectionLost,
    /// *Terminate received*: the peer refuses what it was sent, and says so.
    TerminateReceived,
}

impl LlpEvent {
    /// The event that tells of it (`enum ib_event_type`, linux 6.1 `include/rdma/ib_verbs.h`).
    ///
    /// - With an SRQ, always `QP_LAST_WQE_REACHED`: the QP takes no more receives and all that it took
    ///   have completed, whatever ended the connection, and the owner of an SRQ waits for nothing else.
    /// - Without one, `SQ_DRAINED`: siw itself raises it for a send queue that it has flushed
    ///   (linux 6.1, 6.12 `siw_qp.c: siw_sq_flush`), so whoever uses siw has to take it, and no known
    ///   program treats it as an error. None of the first four is a catastrophic error: that a peer
    ///   was killed or a cable cut is in the completions, and programs abort when they read `QP_FATAL`.
    /// - `QP_REQ_ERR` for a terminate, as linux' Ammasso driver had it: something that this QP asked for
    ///   was refused. It is the only word of it, where a SEND or WRITE has succeeded when TCP took it.
    #[must_use]
    pub const fn event_type(self, has_srq: bool) -> u32 {
        match self {
            _ if has_srq => QP_LAST_WQE_REACHED,
            Self::TerminateReceived => QP_REQ_ERR,
            Self::CloseComplete | Self::BadClose | Self::ConnectionReset | Self::ConnectionLost => {
                SQ_DRAINED
            }
        }
    }
}
