// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause

//! `ibv_post_recv`, `ibv_post_srq_recv`: application → ledger and ring → kernel.
//!
//! A receive queue has no doorbell: the kernel looks when a message arrives. A dead QP's receives go
//! into the ledger alone, as flush completions.

use std::ffi::c_int;
use std::ptr;

use rdma_core_sys::{IBV_QPS_RESET, ibv_qp, ibv_recv_wr, ibv_sge, ibv_srq};

use crate::boundary::{Refused, follow_up, post, post_behind};
use crate::cookie::{CookieBase, Queue};
use crate::death::Cause;
use crate::driver::{Driver, OpenRecvs, RecvRing};
use crate::errno::{Errno, Result};
use crate::ledger::{FreeRecv, Receives};
use crate::lock::MutexGuard;
use crate::qp::Qp;
use crate::queue_pair::{QueuePair, Receiver};
use crate::srq::{SharedRecvs, Srq};
use crate::wr::{List, Requests, only_sge};

/// A receive queue, a QP's own or an SRQ's. Under its lock. Its ledger is beside it.
#[derive(Debug)]
pub(crate) struct RecvQueue<R> {
    pub(crate) ring: R,
    pub(crate) cookies: CookieBase,
    /// The queue is dead, and the kernel has posted its last CQE for it.
    pub(crate) flushed: bool,
    /// How many marks were put since the queue's death.
    pub(crate) marks: u32,
}

impl<R: RecvRing> RecvQueue<R> {
    pub(crate) fn new(ring: R, cookies: CookieBase) -> Self {
        Self {
            ring,
            cookies,
            flushed: false,
            marks: 0,
        }
    }

    /// Accepts the list up to the first that is malformed, or for which there is no room; whether the
    /// queue was found alive, and how many were accepted.
    #[inline(always)]
    pub(crate) fn post(
        &mut self,
        ledger: impl Receives,
        list: List<ibv_recv_wr>,
    ) -> (bool, u32, Posted) {
        let mut entries = self.ring.open();
        let write = |cookie, wr: &_| entries.write(cookie, wr);
        let (count, posted) = enter(ledger, self.cookies, list, write);
        (entries.publish(count), count, posted)
    }

    /// Accepts a receive that has this `only` entry, if that is done quickly; whether the queue was found alive
    /// then.
    #[inline(always)]
    pub(crate) fn post_quickly(
        &mut self,
        ledger: impl Receives,
        wr: &ibv_recv_wr,
        only: &ibv_sge,
    ) -> Option<bool> {
        let free = ledger.free(self.cookies)?;
        let mut entries = self.ring.open();
        if !entries.write_quickly(free.cookie(), only) {
            return None;
        }
        free.enter(wr.wr_id);
        Some(entries.publish(1))
    }

    /// Accepts the receives of a list up to the first that is not quickly posted; whether the queue was found alive, and
    /// how many were accepted.
    #[inline(always)]
    pub(crate) fn post_run(
        &mut self,
        ledger: impl Receives,
        list: &mut List<ibv_recv_wr>,
    ) -> (bool, u32) {
        let mut entries = self.ring.open();
        let count = ledger.fill(self.cookies, |cookie| {
            let wr = list.peek()?;
            if !entries.write_quickly(cookie, only_sge(wr)?) {
                return None;
            }
            let wr_id = wr.wr_id;
            list.pass();
            Some(wr_id)
        });
        (entries.publish(count), count)
    }

    /// Whether the last `count`, which were just posted, may have come to an empty queue of a QP that died unseen.
    ///
    /// Looked at behind the post: of a queue in which the kernel has left something till then, it
    /// flushes these too, or says so by the CQE of what it has left.
    #[inline(always)]
    fn met_nothing<D: Driver>(&self, count: u32) -> bool {
        D::DIES_UNSEEN && self.ring.untaken() <= count
    }

    /// As [`post`](Self::post), for a dead queue: the ring is left alone.
    fn post_flushed(&mut self, ledger: impl Receives, list: List<ibv_recv_wr>) -> Posted {
        let inspect = |_, wr: &_| self.ring.inspect(wr);
        enter(ledger, self.cookies, list, inspect).1
    }
}

/// Enters the list into the ledger as far as there is room, and `write` finds nothing wrong; how many.
#[inline(always)]
fn enter(
    ledger: impl Receives,
    cookies: CookieBase,
    mut list: List<ibv_recv_wr>,
    mut write: impl FnMut(u64, &ibv_recv_wr) -> Result<()>,
) -> (u32, Posted) {
    let mut errno = Errno::ENOMEM;
    let count = ledger.fill(cookies, |cookie| {
        let wr = list.peek()?;
        if let Err(wrong) = write(cookie, wr) {
            errno = wrong;
            return None;
        }
        let wr_id = wr.wr_id;
        list.pass();
        Some(wr_id)
    });
    let first = list.head();
    let posted = if first.is_null() {
        Ok(())
    } else {
        Err(Refused { errno, first })
    };
    (count, posted)
}

/// What became of a list.
pub(crate) type Posted = std::result::Result<(), Refused<ibv_recv_wr>>;

impl<D: Driver> QueuePair<D> {
    fn post_recv(&self, list: List<ibv_recv_wr>) -> Posted {
        let Some(mut recv) = self.own_recv() else {
            // A QP that uses an SRQ has no queue of its own.
            return Err(Refused {
                errno: Errno::EINVAL,
                first: list.head(),
            });
        };
        if recv.ledger.is_closed() {
            drop(recv);
            return self.post_dead_recv(list);
        }
        let (alive, count, posted) = recv.queue.post(recv.ledger, list);
        let met_nothing = recv.queue.met_nothing::<D>(count);
        drop(recv);
        if !alive || met_nothing {
            self.follow_up(alive);
        }
        posted
    }

    /// What has to follow when receives were posted to a queue that was not found alive, or empty.
    fn follow_up(&self, alive: bool) {
        if alive {
            self.suspect();
        } else {
            self.die(Cause::Flushed);
        }
    }

    /// Accepts a list for a dead QP: it is flushed.
    #[cold]
    fn post_dead_recv(&self, list: List<ibv_recv_wr>) -> Posted {
        let mut state = self.recv_cq.lock();
        let Some(mut recv) = self.own_recv() else {
            return Ok(());
        };
        let posted = recv.queue.post_flushed(recv.ledger, list);
        if recv.ledger.has_flushed() {
            state.add_due(self.id, Queue::Recv);
        }
        drop(recv);
        drop(state);
        self.settle_if_quiet();
        posted
    }
}

/// `ibv_post_recv`(3).
///
/// Receives of one entry are mostly posted at once, by code that has nothing to unwind.
///
/// # Safety
///
/// As the man page asks. The QP is one of ours, through which libibverbs has found this function.
pub(crate) unsafe extern "C" fn post_recv<D: Driver>(
    qp: *mut ibv_qp,
    wr: *mut ibv_recv_wr,
    bad_wr: *mut *mut ibv_recv_wr,
) -> c_int {
    // SAFETY: a QP of ours, and the caller's list.
    let (ours, list) = unsafe { (Qp::<D>::at(qp), List::new(wr)) };
    // SAFETY: the caller's promise.
    unsafe {
        if let Some(several) = list.several() {
            return post_recv_run::<D>(qp, several, bad_wr);
        }
        if let Some(only) = list.peek()
            && let Some(sge) = only_sge(only)
            && ours.state() != IBV_QPS_RESET
            && let Receiver::Own(recv) = &ours.pair.recv
            && let Some(mut queue) = recv.try_lock_queue()
        {
            let ledger = &recv.ledger;
            if ledger.is_closed() {
                return post_behind(qp, wr, bad_wr, queue, post_recv_fully::<D>);
            }
            return match queue.post_quickly(ledger, only, sge) {
                Some(true) if !queue.met_nothing::<D>(1) => queue.answer(0),
                Some(alive) => post_recv_rest::<D>(qp, ptr::null_mut(), bad_wr, queue, Some(alive)),
                None => post_behind(qp, wr, bad_wr, queue, post_recv_fully::<D>),
            };
        }
        post_recv_fully::<D>(qp, wr, bad_wr)
    }
}

/// As [`post_recv`], of a list that is not empty, which is mostly posted at once too.
///
/// # Safety
///
/// As of that.
#[inline(never)]
unsafe extern "C" fn post_recv_run<D: Driver>(
    qp: *mut ibv_qp,
    wr: *mut ibv_recv_wr,
    bad_wr: *mut *mut ibv_recv_wr,
) -> c_int {
    // SAFETY: a QP of ours, and the caller's list.
    let (ours, mut list) = unsafe { (Qp::<D>::at(qp), List::new(wr)) };
    // SAFETY: the caller's promise.
    unsafe {
        if ours.state() != IBV_QPS_RESET
            && let Receiver::Own(recv) = &ours.pair.recv
            && let Some(mut queue) = recv.try_lock_queue()
        {
            if recv.ledger.is_closed() {
                return post_behind(qp, wr, bad_wr, queue, post_recv_fully::<D>);
            }
            let (alive, count) = queue.post_run(&recv.ledger, &mut list);
            let follows = !alive || queue.met_nothing::<D>(count);
            if !follows && list.is_empty() {
                return queue.answer(0);
            }
            let alive = follows.then_some(alive);
            return post_recv_rest::<D>(qp, list.head(), bad_wr, queue, alive);
        }
        post_recv_fully::<D>(qp, wr, bad_wr)
    }
}

/// Does what has to follow where receives were posted to a queue, if anything has: it was found `alive` or not; and posts
/// the `rest` of the list, or NULL.
///
/// # Safety
///
/// As of [`post_recv`].
#[cold]
#[inline(never)]
#[expect(
    improper_ctypes_definitions,
    reason = "no C calls it: it is a function that cannot unwind, so that its caller has nothing to do for that"
)]
unsafe extern "C" fn post_recv_rest<D: Driver>(
    qp: *mut ibv_qp,
    rest: *mut ibv_recv_wr,
    bad_wr: *mut *mut ibv_recv_wr,
    queue: MutexGuard<'_, RecvQueue<D::Recvs>>,
    alive: Option<bool>,
) -> c_int {
    drop(queue);
    if let Some(alive) = alive {
        // SAFETY: a QP of ours.
        follow_up(|| unsafe { Qp::<D>::at(qp) }.pair.follow_up(alive));
    }
    if rest.is_null() {
        return 0;
    }
    // SAFETY: the caller's promise.
    unsafe { post_recv_fully::<D>(qp, rest, bad_wr) }
}

/// As [`post_recv`], whatever there is.
///
/// # Safety
///
/// As of that.
#[inline(never)]
unsafe extern "C" fn post_recv_fully<D: Driver>(
    qp: *mut ibv_qp,
    wr: *mut ibv_recv_wr,
    bad_wr: *mut *mut ibv_recv_wr,
) -> c_int {
    let verb = || {
        // SAFETY: a QP of ours.
        let qp = unsafe { Qp::<D>::at(qp) };
        // RESET refuses (IBA C10-97.2.1).
        if wr.is_null() || qp.state() == IBV_QPS_RESET {
            return Err(Refused {
                errno: Errno::EINVAL,
                first: wr,
            });
        }
        // SAFETY: the caller's list.
        qp.pair.post_recv(unsafe { List::new(wr) })
    };
    // SAFETY: the caller's `bad_wr`.
    unsafe { post(wr, bad_wr, verb) }
}

/// `ibv_post_srq_recv`(3). As [`post_recv`].
///
/// # Safety
///
/// As the man page asks. The SRQ is one of ours, through which libibverbs has found this function.
pub(crate) unsafe extern "C" fn post_srq_recv<D: Driver>(
    srq: *mut ibv_srq,
    wr: *mut ibv_recv_wr,
    bad_wr: *mut *mut ibv_recv_wr,
) -> c_int {
    // SAFETY: an SRQ of ours, and the caller's list.
    let (ours, list) = unsafe { (Srq::<D>::at(srq), List::new(wr)) };
    // SAFETY: the caller's promise.
    unsafe {
        if let Some(several) = list.several() {
            return post_srq_recv_run::<D>(srq, several, bad_wr);
        }
        if let Some(only) = list.peek()
            && let Some(sge) = only_sge(only)
            && let Some(mut recv) = ours.queue.try_lock()
        {
            let SharedRecvs { queue, ledger } = &mut *recv;
            return match queue.post_quickly(ledger, only, sge) {
                Some(_) => recv.answer(0),
                None => post_behind(srq, wr, bad_wr, recv, post_srq_recv_fully::<D>),
            };
        }
        post_srq_recv_fully::<D>(srq, wr, bad_wr)
    }
}

/// As [`post_srq_recv`], of a list that is not empty, which is mostly posted at once too.
///
/// # Safety
///
/// As of that.
#[inline(never)]
unsafe extern "C" fn post_srq_recv_run<D: Driver>(
    srq: *mut ibv_srq,
    wr: *mut ibv_recv_wr,
    bad_wr: *mut *mut ibv_recv_wr,
) -> c_int {
    // SAFETY: an SRQ of ours, and the caller's list.
    let (ours, mut list) = unsafe { (Srq::<D>::at(srq), List::new(wr)) };
    // SAFETY: the caller's promise.
    unsafe {
        if let Some(mut recv) = ours.queue.try_lock() {
            let SharedRecvs { queue, ledger } = &mut *recv;
            queue.post_run(ledger, &mut list);
            if list.is_empty() {
                return recv.answer(0);
            }
            return post_behind(srq, list.head(), bad_wr, recv, post_srq_recv_fully::<D>);
        }
        post_srq_recv_fully::<D>(srq, wr, bad_wr)
    }
}

/// As [`post_srq_recv`], whatever there is.
///
/// # Safety
///
/// As of that.
#[inline(never)]
unsafe extern "C" fn post_srq_recv_fully<D: Driver>(
    srq: *mut ibv_srq,
    wr: *mut ibv_recv_wr,
    bad_wr: *mut *mut ibv_recv_wr,
) -> c_int {
    let verb = || {
        // SAFETY: an SRQ of ours.
        let srq = unsafe { Srq::<D>::at(srq) };
        if wr.is_null() {
            return Err(Refused {
                errno: Errno::EINVAL,
                first: wr,
            });
        }
        // SAFETY: the caller's list.
        let list = unsafe { List::new(wr) };
        let SharedRecvs { queue, ledger } = &mut *srq.queue.lock();
        queue.post(ledger, list).2
    };
    // SAFETY: the caller's `bad_wr`.
    unsafe { post(wr, bad_wr, verb) }
}
