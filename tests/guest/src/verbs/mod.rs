// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause

//! Thin wrappers of libibverbs and librdmacm: each object is owned, keeps what it was made from
//! alive, and is destroyed when dropped.
//!
//! A wrapper adds no behaviour to its verb. Errors are the verb's `errno`. A destructor whose verb
//! fails panics: an object that cannot be destroyed is a finding, not noise.

mod address;
mod batch;
mod channel;
mod cm;
mod context;
mod cq;
mod event;
mod mcast;
mod memory;
mod pd;
mod qp;
mod srq;
mod wc;
mod window;
mod work;
mod wr_post;

use std::ffi::c_int;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::ptr::NonNull;
use std::thread;
use std::time::Duration;

pub use rdma_core_sys as sys;

pub use address::{Ah, gid_of, route_to, route_to_group};
pub use batch::{Batch, attributes_ex};
pub use channel::{CompChannel, CqEvent};
pub use cm::{CmChannel, CmEvent, CmId};
pub use context::{Context, load_providers};
pub use cq::{Cq, PATIENCE};
pub use event::AsyncEvent;
pub use memory::{Mr, Remote, Sge};
pub use pd::{Pd, Td};
pub use qp::{Caps, Qp, QpInit, Transport};
pub use srq::Srq;
pub use wc::Wc;
pub use window::Mw;
pub use work::{BadWr, RecvWr, Refused, SendWr, chain_recvs, chain_sends};
pub use wr_post::{Draft, Incomplete, send_ops};

/// Every remote access right that an MR or a QP can give.
pub const REMOTE_ACCESS: u32 = sys::IBV_ACCESS_LOCAL_WRITE
    | sys::IBV_ACCESS_REMOTE_WRITE
    | sys::IBV_ACCESS_REMOTE_READ
    | sys::IBV_ACCESS_REMOTE_ATOMIC;

/// Waits until `fd` is readable, for at most `limit`.
///
/// # Errors
///
/// Whatever poll(2) reports.
pub fn readable(fd: RawFd, limit: Duration) -> io::Result<bool> {
    let mut wanted = libc::pollfd {
        fd,
        events: libc::POLLIN,
        revents: 0,
    };
    // More milliseconds than fit mean that there is no limit.
    let milliseconds = c_int::try_from(limit.as_millis()).unwrap_or(-1);
    // SAFETY: `wanted` is one valid pollfd, and poll(2) is told that it is one.
    match unsafe { libc::poll(&raw mut wanted, 1, milliseconds) } {
        0 => Ok(false),
        1.. => Ok(true),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Makes the events of `fd` be read without sleeping.
///
/// # Errors
///
/// Whatever fcntl(2) reports.
pub fn set_nonblocking(fd: RawFd) -> io::Result<()> {
    // SAFETY: fcntl(2) touches no memory here.
    let flags = unsafe { libc::fcntl(fd, libc::F_GETFL) };
    // SAFETY: as above.
    if flags == -1 || unsafe { libc::fcntl(fd, libc::F_SETFL, flags | libc::O_NONBLOCK) } == -1 {
        return Err(io::Error::last_os_error());
    }
    Ok(())
}

/// Waits with epoll_wait(2) until `fd` is readable.
///
/// # Errors
///
/// Whatever epoll_create1(2), epoll_ctl(2) or epoll_wait(2) reports.
pub fn wait_by_epoll(fd: RawFd) -> io::Result<()> {
    // SAFETY: epoll_create1(2) touches no memory.
    let epoll = unsafe { libc::epoll_create1(libc::EPOLL_CLOEXEC) };
    if epoll == -1 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the kernel has just returned `epoll`, and nobody else knows it.
    let epoll = unsafe { OwnedFd::from_raw_fd(epoll) };
    let mut event = libc::epoll_event {
        events: libc::EPOLLIN.cast_unsigned(),
        u64: 0,
    };
    let (raw, add) = (epoll.as_raw_fd(), libc::EPOLL_CTL_ADD);
    // SAFETY: `event` is a valid epoll_event.
    if unsafe { libc::epoll_ctl(raw, add, fd, &raw mut event) } == -1 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: `event` is room for one event, and epoll_wait(2) is told so.
    match unsafe { libc::epoll_wait(raw, &raw mut event, 1, -1) } {
        -1 => Err(io::Error::last_os_error()),
        _ => Ok(()),
    }
}

/// The errno that a verb has failed with, if it has.
#[must_use]
pub fn errno<T>(done: io::Result<T>) -> Option<i32> {
    done.err().and_then(|error| error.raw_os_error())
}

/// The result of a verb that returns 0 or a positive errno; a negative return, which some verbs of
/// librdmacm use, means that errno is set.
fn check(returned: c_int) -> io::Result<()> {
    match returned {
        0 => Ok(()),
        1.. => Err(io::Error::from_raw_os_error(returned)),
        _ => Err(io::Error::last_os_error()),
    }
}

/// The result of a verb that returns an object, or null with errno set.
fn object<T>(returned: *mut T) -> io::Result<NonNull<T>> {
    NonNull::new(returned).ok_or_else(io::Error::last_os_error)
}

/// Ends a destructor: the verb must have succeeded, unless the case is failing already.
fn destroyed(verb: &str, returned: c_int) {
    if let Err(error) = check(returned)
        && !thread::panicking()
    {
        panic!("{verb}: {error}");
    }
}
