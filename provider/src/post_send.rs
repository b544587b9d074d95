// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause

//! `ibv_post_send`: application → ledger and ring → doorbell → kernel.

use std::ffi::c_int;

use rdma_core_sys::{IBV_QPS_RTS, ibv_qp, ibv_send_wr};

use crate::boundary::{Refused, post};
use crate::cookie::{Cookie, CookieBase, Queue};
use crate::driver::{CompletionRing, Driver, SendRing};
use crate::errno::Errno;
use crate::ledger::SendLedger;
use crate::lock::lock;
use crate::qp::Qp;
use crate::wr::List;

/// A send queue. Under its lock.
#[derive(Debug)]
pub(crate) struct SendQueue<R> {
    pub(crate) ring: R,
    pub(crate) ledger: SendLedger,
    pub(crate) cookies: CookieBase,
    /// Every send is signaled, whatever its flags say (`sq_sig_all`).
    pub(crate) signal_all: bool,
    /// The kernel may not be in a state that takes sends, and only a doorbell can tell.
    pub(crate) unproven: bool,
}

/// Why a list was left before its end.
enum Stop {
    End,
    Full,
    Malformed(Errno),
}

impl<R: SendRing> SendQueue<R> {
    /// Enters as much of the list as there is room for, into the ring and the ledger.
    fn write(&mut self, list: &mut List<ibv_send_wr>) -> Stop {
        while let Some(wr) = list.peek() {
            if self.ledger.is_full() {
                return Stop::Full;
            }
            let name = self.ledger.next();
            match self
                .ring
                .write(name, self.cookies.with(name), wr, self.signal_all)
            {
                Ok(posted) => self.ledger.push(posted),
                Err(errno) => return Stop::Malformed(errno),
            }
            list.pass();
        }
        Stop::End
    }
}

impl<D: Driver> Qp<D> {
    /// Accepts the list up to the first that is malformed, or for which there is no room.
    fn post_send(&self, mut list: List<ibv_send_wr>) -> Result<(), Refused<ibv_send_wr>> {
        loop {
            let first = list.head();
            let errno = match self.post_what_fits(&mut list) {
                Ok(Stop::End) => return Ok(()),
                Ok(Stop::Full) if self.retire_silent() => continue,
                Ok(Stop::Full) => Errno::ENOMEM,
                Ok(Stop::Malformed(errno)) => errno,
                Err(errno) => return Err(Refused { errno, first }),
            };
            return Err(Refused {
                errno,
                first: list.head(),
            });
        }
    }

    /// Posts as much of the list as there is room for.
    ///
    /// # Errors
    ///
    /// `EINVAL` if the QP is not in a state that takes sends: none of these was accepted.
    fn post_what_fits(&self, list: &mut List<ibv_send_wr>) -> Result<Stop, Errno> {
        let mut send = lock(&self.send);
        let first = send.ledger.next();
        let stop = send.write(list);
        let end = send.ledger.next();
        if first != end && send.ring.publish(first, end) {
            if send.unproven {
                self.ring_unproven(&mut send, first, end)?;
            } else {
                drop(send);
                // The kernel has the sends. One that it does not look at now is a dead QP's.
                let _ = self.doorbell.ring();
            }
        }
        Ok(stop)
    }

    /// Rings for a QP of which the kernel alone knows whether it is connected.
    ///
    /// Under the lock, so that nobody posts behind sends that have to be taken back: siw leaves the
    /// ring alone unless the QP is in RTS (linux 6.1 `siw_verbs.c: siw_post_send`).
    fn ring_unproven(
        &self,
        send: &mut SendQueue<D::Sends>,
        first: u32,
        end: u32,
    ) -> Result<(), Errno> {
        let refused = self.doorbell.ring().err();
        if let Some(errno) = refused.filter(|_| send.ring.take_back(first, end)) {
            send.ledger.take_back(first);
            return Err(if errno == Errno::ENOTCONN {
                Errno::EINVAL
            } else {
                errno
            });
        }
        send.unproven = false;
        Ok(())
    }

    /// Retires the oldest sends if they complete silently and the kernel is past them; whether any.
    ///
    /// Room for an application that never asks for a completion. The CQ is looked at, but nothing
    /// is taken from it: a send with a CQE there, and all behind it, stay.
    fn retire_silent(&self) -> bool {
        let completions = self.send_cq.lock();
        let mut send = lock(&self.send);
        let oldest = send.ledger.oldest();
        let end = send.ledger.next();
        let mut limit = end;
        for ahead in 0..completions.ring.capacity() {
            let Some(cqe) = completions.ring.peek(ahead) else {
                break;
            };
            // One that is not outstanding is further from the oldest than the end.
            if let Some(cookie) = Cookie::decode(cqe.cookie)
                && cookie.queue == Queue::Send
                && cookie.owner == self.id
                && cookie.entry.wrapping_sub(oldest) < limit.wrapping_sub(oldest)
            {
                limit = cookie.entry;
            }
        }
        let mut past = oldest;
        while past != limit && send.ring.is_past(past, end) {
            past = past.wrapping_add(1);
        }
        send.ledger.retire_silent_before(past);
        send.ledger.oldest() != oldest
    }
}

/// `ibv_post_send`(3).
///
/// # Safety
///
/// As the man page asks.
pub(crate) unsafe extern "C" fn post_send<D: Driver>(
    qp: *mut ibv_qp,
    wr: *mut ibv_send_wr,
    bad_wr: *mut *mut ibv_send_wr,
) -> c_int {
    let verb = || {
        let refused = || Refused {
            errno: Errno::EINVAL,
            first: wr,
        };
        // SAFETY: a QP of ours.
        let qp = unsafe { Qp::<D>::of(qp) }.ok_or_else(refused)?;
        // Before RTS a send is refused at once (IBA 10.8.3; the doorbell would, but too late to
        // take the WQE back).
        if wr.is_null() || (!D::CONNECTS_UNSEEN && qp.state() < IBV_QPS_RTS) {
            return Err(refused());
        }
        // SAFETY: the caller's list.
        qp.post_send(unsafe { List::new(wr) })
    };
    // SAFETY: the caller's `bad_wr`.
    unsafe { post(wr, bad_wr, verb) }
}
