// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause

//! The system call that makes the kernel look at a send queue.
//!
//! Both drivers take a POST_SEND command that carries no work request (linux 6.1
//! `core/uverbs_cmd.c: ib_uverbs_post_send`, then `rxe_verbs.c: rxe_post_send` or
//! `siw_verbs.c: siw_post_send`).

use std::os::fd::RawFd;

use kernel_abi::uverbs::{CMD_POST_SEND, CommandHeader, PostSend, PostSendResp, Request};

use crate::errno::{Errno, Result};

#[cfg(not(test))]
use libc::write;

#[cfg(test)]
use crate::model::write;

/// The doorbell of one QP.
#[derive(Debug)]
pub(crate) struct Doorbell {
    pub(crate) cmd_fd: RawFd,
    pub(crate) qp_handle: u32,
}

impl Doorbell {
    /// Rings.
    ///
    /// # Errors
    ///
    /// What the driver says: `EINVAL` (rxe) or `ENOTCONN` (siw) in a state that does not take
    /// sends, `EIO` of a device that is gone.
    pub(crate) fn ring(&self) -> Result<()> {
        let mut answer = PostSendResp::default();
        let request = Request {
            header: CommandHeader::of::<Request<PostSend>, PostSendResp>(CMD_POST_SEND),
            core: PostSend {
                response: (&raw mut answer).addr() as u64,
                qp_handle: self.qp_handle,
                wr_count: 0,
                sge_count: 0,
                wqe_size: PostSend::MIN_WQE_SIZE,
            },
            driver: (),
        };
        let len = size_of_val(&request);
        // SAFETY: the request is as large as its length says, and names an answer that outlives
        // the call.
        let written = unsafe { write(self.cmd_fd, (&raw const request).cast(), len) };
        if usize::try_from(written) == Ok(len) {
            Ok(())
        } else {
            Err(Errno::last())
        }
    }
}
