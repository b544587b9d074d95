// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause

//! The system call that makes the kernel look at a send queue.
//!
//! Both drivers take a POST_SEND command that carries no work request (linux 6.1
//! `core/uverbs_cmd.c: ib_uverbs_post_send`, then `rxe_verbs.c: rxe_post_send` or
//! `siw_verbs.c: siw_post_send`).

use std::cell::UnsafeCell;
use std::os::fd::RawFd;

use kernel_abi::uverbs::{CMD_POST_SEND, CommandHeader, PostSend, PostSendResp, Request};

use crate::errno::{Errno, Result};

#[cfg(not(test))]
use libc::write;

#[cfg(test)]
use crate::model::write;

/// The doorbell of one QP. The command is the same each time.
#[derive(Debug)]
pub(crate) struct Doorbell {
    cmd_fd: RawFd,
    command: Request<PostSend>,
    _answer: Box<Answer>,
}

/// Where the kernel answers, maybe to several threads at once. Nobody reads it: that the driver refuses, the system
/// call says.
#[derive(Debug)]
struct Answer(UnsafeCell<PostSendResp>);

// SAFETY: the kernel alone uses it.
unsafe impl Sync for Answer {}

impl Doorbell {
    pub(crate) fn new(cmd_fd: RawFd, qp_handle: u32) -> Self {
        let answer = Box::new(Answer(UnsafeCell::default()));
        let command = Request {
            header: CommandHeader::of::<Request<PostSend>, PostSendResp>(CMD_POST_SEND),
            core: PostSend {
                // The kernel writes there, so the address must be one that others may use.
                response: answer.0.get().expose_provenance() as u64,
                qp_handle,
                wr_count: 0,
                sge_count: 0,
                wqe_size: PostSend::MIN_WQE_SIZE,
            },
            driver: (),
        };
        Self {
            cmd_fd,
            command,
            _answer: answer,
        }
    }

    /// Rings.
    ///
    /// # Errors
    ///
    /// What the driver says: `EINVAL` (rxe) or `ENOTCONN` (siw) in a state that does not take
    /// sends, `EIO` of a device that is gone.
    #[inline(always)]
    pub(crate) fn ring(&self) -> Result<()> {
        let len = size_of_val(&self.command);
        // SAFETY: the command is as large as its length says, and names an answer that outlives the call.
        let written = unsafe { write(self.cmd_fd, (&raw const self.command).cast(), len) };
        if written == len.cast_signed() {
            Ok(())
        } else {
            Err(Errno::last())
        }
    }
}
