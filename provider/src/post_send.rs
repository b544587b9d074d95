// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause

//! `ibv_post_send`: application → ledger and ring → doorbell → kernel.
//!
//! The drafts of `ibv_wr_complete` take the same way, but whole or not at all.
//! A dead QP's sends go into the ledger alone, as flush completions.

use std::ffi::c_int;
use std::ptr;

use rdma_core_sys::{IBV_QPS_RESET, IBV_QPS_RTS, ibv_qp, ibv_send_wr, ibv_sge};

use crate::boundary::{Refused, follow_up, post, post_behind};
use crate::cookie::{Cookie, CookieBase, Queue};
use crate::death::Cause;
use crate::driver::{CompletionRing, Driver, OpenSends, Published, SendRing};
use crate::errno::Errno;
use crate::flush::Rest;
use crate::ledger::SendLedger;
use crate::lock::{MutexGuard, lock};
use crate::qp::Qp;
use crate::queue_pair::QueuePair;
use crate::wr::{List, Requests, SendRequest, is_inline, only_sge};

/// A send queue. Under its lock.
#[derive(Debug)]
pub(crate) struct SendQueue<R> {
    pub(crate) ring: R,
    pub(crate) ledger: SendLedger,
    pub(crate) cookies: CookieBase,
    /// `IBV_SEND_SIGNALED` if every send is signaled, whatever its own flags say (`sq_sig_all`), or 0.
    pub(crate) flags: u32,
    /// The kernel may not be in a state that takes sends, and only a doorbell can tell.
    pub(crate) unproven: bool,
    /// The queue is dead, and the kernel has posted its last CQE for it.
    pub(crate) flushed: bool,
    /// How many marks were put since the queue's death.
    pub(crate) marks: u32,
    /// The place of the mark that was flushed, where one stands ahead of death.
    ///
    /// An entry that was published over it meanwhile is not the kernel's: it reads the flags, and clears
    /// them later (linux 6.1, 6.12 `siw_qp.c: siw_sq_flush, siw_sqe_complete`).
    pub(crate) flushed_at: Option<u32>,
}

/// A QP's send queue, which is locked.
type SendGuard<'s, D> = MutexGuard<'s, SendQueue<<D as Driver>::Sends>>;

/// Why a list was left before its end.
enum Stop {
    End,
    Full,
    Malformed(Errno),
    /// The queue is dead, or was found dead; the sends so far are accepted.
    Dead(Option<Cause>),
}

impl Stop {
    /// What was left is this `rest`, because of a malformed work request or not.
    fn at(rest: impl Requests, malformed: Option<Errno>) -> Self {
        match malformed {
            Some(errno) => Self::Malformed(errno),
            None if rest.is_empty() => Self::End,
            None => Self::Full,
        }
    }
}

impl<R: SendRing> SendQueue<R> {
    /// Enters as much of the list as there is room for, if it has to be the `WHOLE` list that or nothing, and hands
    /// it to the kernel.
    #[inline(always)]
    fn post<const WHOLE: bool>(
        &mut self,
        list: &mut impl Requests<One: SendRequest>,
    ) -> (Stop, Published) {
        let cookies = self.cookies;
        let first = self.ledger.next();
        let mut entries = self.ring.open(first, &self.flags);
        let mut rest = *list;
        let mut malformed = None;
        self.ledger.fill(cookies, |cookie| {
            let request = rest.peek()?;
            match entries.write(cookie, request) {
                Ok(posted) => {
                    rest.pass();
                    Some(posted)
                }
                Err(errno) => {
                    malformed = Some(errno);
                    None
                }
            }
        });
        let stop = Stop::at(rest, malformed);
        if WHOLE && !matches!(stop, Stop::End) {
            self.ledger.take_back(first);
            return (stop, Published::Seen);
        }
        *list = rest;
        let end = self.ledger.next();
        if first == end {
            return (stop, Published::Seen);
        }
        (stop, entries.publish(end))
    }

    /// Enters a send, if there is room and nothing wrong with it, and hands it to the kernel. One of which the
    /// `plain` entry is known, the only one and not inline, has to be one that is written quickly.
    #[inline(always)]
    fn post_one(
        &mut self,
        wr: &ibv_send_wr,
        plain: Option<&ibv_sge>,
    ) -> Option<(Published, R::Watch)> {
        let free = self.ledger.free()?;
        let name = free.name();
        let mut entries = self.ring.open(name, &self.flags);
        let watch = entries.watch();
        let cookie = self.cookies.with(name);
        let posted = match plain {
            Some(only) => entries.write_quickly(cookie, wr, only)?,
            None => entries.write(cookie, wr).ok()?,
        };
        free.enter(posted);
        Some((entries.publish(self.ledger.next()), watch))
    }

    /// Why not the whole of the list could be entered, if there is a reason. Requests that are `sound` are not looked
    /// at.
    #[inline(always)]
    fn obstacle(&self, mut list: impl Requests<One: SendRequest>, are_sound: bool) -> Option<Stop> {
        let mut name = self.ledger.next();
        let mut is_full = false;
        while let Some(request) = list.peek() {
            if !are_sound && let Err(errno) = self.ring.inspect(request) {
                return Some(Stop::Malformed(errno));
            }
            is_full |= !self.ledger.has_room_for(name);
            name = name.wrapping_add(1);
            list.pass();
        }
        is_full.then_some(Stop::Full)
    }

    /// What the kernel may still have to say of the dead queue, whose CQ has `overran` or not.
    pub(crate) fn rest(&self, overran: bool) -> Rest {
        if self.flushed || self.ledger.is_all_held() {
            Rest::Nothing
        } else if self.ring.is_drained() && (overran || self.ledger.is_held_up()) {
            Rest::Stuck
        } else {
            Rest::Flushing
        }
    }

    /// Enters as much of the list as there is room for into the ledger of a dead queue.
    fn write_flushed(&mut self, list: &mut impl Requests<One: SendRequest>) -> Stop {
        let mut malformed = None;
        self.ledger.fill_flushed(|| {
            let request = list.peek()?;
            match self.ring.inspect(request) {
                Ok(posted) => {
                    list.pass();
                    Some(posted)
                }
                Err(errno) => {
                    malformed = Some(errno);
                    None
                }
            }
        });
        Stop::at(*list, malformed)
    }
}

impl<D: Driver> Qp<D> {
    /// Whether a send is refused at once (IBA 10.8.3). rxe's doorbell would do so, but too late to take
    /// the WQE back; siw's knows what libibverbs does not.
    pub(crate) fn is_before_rts(&self) -> bool {
        let state = self.state();
        if D::CONNECTS_UNSEEN {
            state == IBV_QPS_RESET && lock(&self.pair.send).ledger.is_closed()
        } else {
            state < IBV_QPS_RTS
        }
    }
}

impl<D: Driver> QueuePair<D> {
    /// Accepts the list up to the first that is malformed, or for which there is no room.
    fn post_send(&self, mut list: List<ibv_send_wr>) -> Result<(), Refused<ibv_send_wr>> {
        loop {
            let first = list.head();
            let posted = self.post_what_fits::<_, false>(&mut list);
            let stop = posted.map_err(|errno| Refused { errno, first })?;
            if let Some(answer) = self.answer::<_, false>(&mut list, stop) {
                return answer.map_err(|errno| Refused {
                    errno,
                    first: list.head(),
                });
            }
        }
    }

    /// Accepts the whole list, or nothing of it.
    ///
    /// # Errors
    ///
    /// `EINVAL` if a work request is malformed, or the QP is not in a state that takes sends; `ENOMEM`
    /// if there is not room for all.
    pub(crate) fn post_whole(
        &self,
        mut list: impl Requests<One: SendRequest>,
    ) -> Result<(), Errno> {
        loop {
            let stop = self.post_what_fits::<_, true>(&mut list)?;
            if let Some(answer) = self.answer::<_, true>(&mut list, stop) {
                return answer;
            }
        }
    }

    /// What the verb answers after such a stop, or nothing where the rest of the list is to be tried again.
    ///
    /// # Errors
    ///
    /// Why the head of the list, or the `WHOLE`, is not accepted: `ENOMEM` or `EINVAL`.
    #[inline(always)]
    fn answer<L: Requests<One: SendRequest>, const WHOLE: bool>(
        &self,
        list: &mut L,
        stop: Stop,
    ) -> Option<Result<(), Errno>> {
        if let Stop::End = stop {
            return Some(Ok(()));
        }
        self.answer_early::<_, WHOLE>(list, stop)
    }

    /// As [`answer`](Self::answer), after a stop before the end.
    #[cold]
    #[inline(never)]
    fn answer_early<L: Requests<One: SendRequest>, const WHOLE: bool>(
        &self,
        list: &mut L,
        stop: Stop,
    ) -> Option<Result<(), Errno>> {
        match stop {
            Stop::End => Some(Ok(())),
            Stop::Full if self.retire_silent() => None,
            Stop::Full => Some(Err(Errno::ENOMEM)),
            Stop::Malformed(errno) => Some(Err(errno)),
            Stop::Dead(cause) => Some(self.post_dead_send::<_, WHOLE>(list, cause)),
        }
    }

    /// Posts as much of the list as there is room for; if it has to be the `WHOLE` list, that or
    /// nothing.
    ///
    /// # Errors
    ///
    /// `EINVAL` if the QP is not in a state that takes sends: none of these was accepted.
    #[inline(always)]
    fn post_what_fits<L: Requests<One: SendRequest>, const WHOLE: bool>(
        &self,
        list: &mut L,
    ) -> Result<Stop, Errno> {
        let mut send = lock(&self.send);
        if send.ledger.is_closed() {
            return Ok(Stop::Dead(None));
        }
        if WHOLE
            && !D::Sends::CAN_LEAVE
            // Only siw's cannot, which has no receivers (`Requests::are_simple`).
            && let Some(stop) = send.obstacle(*list, list.are_simple())
        {
            return Ok(stop);
        }
        let first = send.ledger.next();
        let (stop, published) = send.post::<WHOLE>(list);
        match published {
            Published::Seen => Ok(stop),
            Published::Dead => Ok(Stop::Dead(Some(Cause::Flushed))),
            Published::Unseen => {
                let end = send.ledger.next();
                if send.unproven {
                    self.ring_unproven(&mut send, first, end)?;
                    return Ok(stop);
                }
                let last = send.ring.watch(end.wrapping_sub(1));
                drop(send);
                // The kernel has the sends: one that it does not look at now is a dead QP's.
                if self.doorbell.ring().is_err() {
                    return Ok(Stop::Dead(Some(Cause::Doorbell)));
                }
                // SAFETY: the ring is this pair's, which is there, and not mapped anew.
                if !D::MAY_STICK || unsafe { D::Sends::is_under_way(last) } {
                    return Ok(stop);
                }
                if lock(&self.send).ring.has_failed(first, end) {
                    return Ok(Stop::Dead(Some(Cause::Stuck)));
                }
                Ok(stop)
            }
        }
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

    /// Accepts a list, or what is left of it, for a dead QP: it is flushed.
    ///
    /// # Errors
    ///
    /// Why the head of the list, or the `WHOLE`, is not accepted: `ENOMEM` or `EINVAL`.
    #[cold]
    fn post_dead_send<L: Requests<One: SendRequest>, const WHOLE: bool>(
        &self,
        list: &mut L,
        cause: Option<Cause>,
    ) -> Result<(), Errno> {
        if let Some(cause) = cause {
            self.die(cause);
        }
        let mut state = self.send_cq.lock();
        let mut send = lock(&self.send);
        let stop = if WHOLE {
            send.obstacle(*list, false)
        } else {
            None
        };
        let stop = stop.unwrap_or_else(|| send.write_flushed(list));
        if send.ledger.has_held() {
            state.add_due(self.id, Queue::Send);
        }
        drop(send);
        drop(state);
        self.settle_if_quiet();
        match stop {
            Stop::Full => Err(Errno::ENOMEM),
            Stop::Malformed(errno) => Err(errno),
            Stop::End | Stop::Dead(_) => Ok(()),
        }
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
/// One send of one entry is mostly posted at once, by code that has nothing to unwind.
///
/// # Safety
///
/// As the man page asks. The QP is one of ours, through which libibverbs has found this function.
// `ibv_bind_mw` calls it too: of two copies, neither would have its callees inlined.
#[inline(never)]
pub(crate) unsafe extern "C" fn post_send<D: Driver>(
    qp: *mut ibv_qp,
    wr: *mut ibv_send_wr,
    bad_wr: *mut *mut ibv_send_wr,
) -> c_int {
    // SAFETY: a QP of ours, and the caller's list.
    let (ours, list) = unsafe { (Qp::<D>::at(qp), List::new(wr)) };
    // SAFETY: the caller's promise.
    unsafe {
        if let Some(only) = list.only()
            // A queue that takes no sends for another reason is closed, or unproven.
            && (D::CONNECTS_UNSEEN || ours.state() >= IBV_QPS_RTS)
        {
            return match only_sge(only) {
                Some(sge) if !is_inline(only) => post_one(ours, only, bad_wr, Some(sge)),
                _ => post_other(ours, only, bad_wr),
            };
        }
        post_send_fully::<D>(qp, wr, bad_wr)
    }
}

/// As [`post_send`], of one send that has inline data, or another number of entries than one.
///
/// # Safety
///
/// As [`post_one`].
// `extern "C"`, as those below that no C calls either: a function that cannot unwind, so that its caller has nothing
// to do for that.
#[inline(never)]
unsafe extern "C" fn post_other<D: Driver>(
    qp: &Qp<D>,
    wr: &ibv_send_wr,
    bad_wr: *mut *mut ibv_send_wr,
) -> c_int {
    // SAFETY: the caller's promise.
    unsafe { post_one(qp, wr, bad_wr, None) }
}

/// As [`post_send`], of one send; `plain` is its entry, if it has one, which is not inline.
///
/// # Safety
///
/// The work request and `bad_wr` are as the man page asks.
#[inline(always)]
unsafe fn post_one<D: Driver>(
    qp: &Qp<D>,
    wr: &ibv_send_wr,
    bad_wr: *mut *mut ibv_send_wr,
    plain: Option<&ibv_sge>,
) -> c_int {
    let pair: &QueuePair<D> = &qp.pair;
    let (qp, list) = (
        ptr::from_ref(qp).cast_mut().cast(),
        ptr::from_ref(wr).cast_mut(),
    );
    let Some(mut send) = pair.send.try_lock() else {
        // SAFETY: the caller's promise.
        return unsafe { post_send_fully::<D>(qp, list, bad_wr) };
    };
    let takes_none = send.ledger.is_closed() || (D::CONNECTS_UNSEEN && send.unproven);
    if !takes_none && let Some((published, watch)) = send.post_one(wr, plain) {
        return match published {
            Published::Seen => 0,
            Published::Unseen => {
                drop(send);
                ring(pair, watch)
            }
            Published::Dead => found_dead(pair, Some(send), Cause::Flushed),
        };
    }
    // SAFETY: the caller's promise.
    unsafe { post_behind(qp, list, bad_wr, send, post_send_fully::<D>) }
}

/// Rings for one send, which is watched; the verb's answer.
#[inline(never)]
extern "C" fn ring<D: Driver>(pair: &QueuePair<D>, watch: <D::Sends as SendRing>::Watch) -> c_int {
    // As in `post_what_fits`.
    if pair.doorbell.ring().is_err() {
        return found_dead(pair, None, Cause::Doorbell);
    }
    // SAFETY: the ring is this pair's, which is there, and not mapped anew.
    if D::MAY_STICK && unsafe { D::Sends::is_faulty(watch) } {
        return found_dead(pair, None, Cause::Stuck);
    }
    0
}

/// Does what has to follow when a send was posted to a queue that is dead; the verb's answer.
#[cold]
#[inline(never)]
#[expect(improper_ctypes_definitions, reason = "no C calls it")]
extern "C" fn found_dead<D: Driver>(
    pair: &QueuePair<D>,
    send: Option<SendGuard<'_, D>>,
    cause: Cause,
) -> c_int {
    drop(send);
    follow_up(|| {
        let nothing: &[ibv_send_wr] = &[];
        // It cannot be refused.
        let _ = pair.post_dead_send::<_, false>(&mut { nothing }, Some(cause));
    });
    0
}

/// As [`post_send`], whatever there is.
///
/// # Safety
///
/// As of that.
#[inline(never)]
unsafe extern "C" fn post_send_fully<D: Driver>(
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
        let qp = unsafe { Qp::<D>::at(qp) };
        if wr.is_null() || qp.is_before_rts() {
            return Err(refused());
        }
        // SAFETY: the caller's list.
        qp.pair.post_send(unsafe { List::new(wr) })
    };
    // SAFETY: the caller's `bad_wr`.
    unsafe { post(wr, bad_wr, verb) }
}
