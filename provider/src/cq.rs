// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause

//! `ibv_create_cq`, `ibv_req_notify_cq`, `ibv_destroy_cq`.

mod armed;

mod atomic {
    pub(super) use std::sync::atomic::{AtomicBool, Ordering, fence};
}

use std::cell::UnsafeCell;
use std::ffi::c_int;
use std::fmt;
use std::sync::{Arc, Weak};
use std::time::Instant;

use kernel_abi::uverbs;
use rdma_core_sys::provider::verbs_cq;
use rdma_core_sys::{ibv_comp_channel, ibv_context, ibv_cq, ibv_wc};

use self::armed::Armed;
use self::atomic::{AtomicBool, Ordering};
use crate::boundary::{follow_up, pointer, status};
use crate::clapper::Clapper;
use crate::context::Context;
use crate::cookie::{self, OwnerId};
use crate::driver::{CompletionRing, Driver, holds};
use crate::errno::{Errno, Result};
use crate::flush::{Chore, Due, Dying};
use crate::held::Held;
use crate::lock::{Mutex, MutexGuard, lock};
use crate::met::Met;
use crate::object;
use crate::overrun::room;
use crate::pd::Domain;
use crate::queue_pair::QueuePair;
use crate::read_ahead::ReadAhead;
use crate::start_poll::Batch;

/// A CQ: libibverbs' half, then ours.
#[repr(C)]
pub(crate) struct Cq<D: Driver> {
    base: UnsafeCell<verbs_cq>,
    pub(crate) queue: Held<CompletionQueue<D>>,
    /// Of an extended CQ.
    pub(crate) batch: Batch,
    /// The parent domain that the application wants it in.
    pub(crate) domain: Option<Arc<Domain>>,
}

/// What a CQ's QPs share with it. They hold it too, so that it outlives them.
// The lock is in front: polls need no other address for it.
#[derive(Debug)]
#[repr(C)]
pub(crate) struct CompletionQueue<D: Driver> {
    state: Mutex<Completions<D>>,
    pub(crate) context: Arc<Context>,
    /// What asks the kernel for an event without the lock.
    pub(crate) notify: D::Notify,
    pub(crate) armed: Arc<Armed>,
    /// What wakes a waiter where no QP of the application's can.
    pub(crate) clapper: Mutex<Option<Clapper<D>>>,
    /// One of the QPs is suspect. Set by who posts, cleared by who looks.
    pub(crate) suspects: AtomicBool,
}

/// Under the lock of the CQ.
#[derive(Debug)]
pub(crate) struct Completions<D: Driver> {
    pub(crate) ring: D::Completions,
    /// CQEs are all that a poll has to look at. What was [locked](CompletionQueue::lock) since the last full poll may
    /// be so and does not say it.
    pub(crate) is_quiet: bool,
    /// Where the kernel has a newer ring, as long as that could not be mapped.
    pub(crate) moved: Option<D::CqAnswer>,
    /// The ring was, before the kernel moved to the one that is there now.
    pub(crate) left_full: bool,
    /// What a batch has polled and the application has not come to: it comes before all else.
    pub(crate) ahead: Arc<ReadAhead>,
    /// There may be some of these left.
    pub(crate) has_read_ahead: bool,
    /// Queues that have completions due which are in no ring.
    pub(crate) due: Vec<Due>,
    /// Queues of dead QPs that are not settled.
    pub(crate) dying: Vec<Dying<D>>,
    /// What the next one to release the lock has to do.
    pub(crate) chores: Vec<Chore<D>>,
    /// A CQE that has to wait until receives before it are flushed.
    pub(crate) early: Option<Early>,
    pub(crate) met: Met<D>,
    pub(crate) armed: Arc<Armed>,
    /// Whose bell was rung last.
    pub(crate) belled: Option<OwnerId>,
    /// The QPs that complete here, once for each queue that does. The vectors above have room for what
    /// these can need, so that no poll allocates.
    members: Vec<Weak<QueuePair<D>>>,
    /// How many CQEs the application asked for room for.
    pub(crate) asked: u32,
    /// CQEs were dropped.
    pub(crate) overran: bool,
    /// The application has reaped an event that says so.
    pub(crate) told_overrun: bool,
    /// Polls that found nothing while a QP was suspect.
    pub(crate) idle: u32,
    pub(crate) last_asked: Option<Instant>,
}

/// A CQE as it was read, with its cookie.
pub(crate) struct Early(pub(crate) ibv_wc);

impl fmt::Debug for Early {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Early").field(&self.0.wr_id).finish()
    }
}

impl<D: Driver> fmt::Debug for Cq<D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Cq")
            .field("queue", &self.queue)
            .field("batch", &self.batch)
            .finish_non_exhaustive()
    }
}

impl<D: Driver> Cq<D> {
    /// The CQ behind libibverbs' one.
    ///
    /// # Safety
    ///
    /// `cq` is NULL or a CQ that [`create`] made for this driver, not yet destroyed.
    pub(crate) unsafe fn of<'a>(cq: *mut ibv_cq) -> Option<&'a Self> {
        // SAFETY: NULL or begins a `Cq`. libibverbs' half is behind an `UnsafeCell`.
        unsafe { cq.cast::<Self>().as_ref() }
    }

    /// As [`of`](Self::of), of one that is there.
    ///
    /// # Safety
    ///
    /// `cq` is a CQ that [`create`] made for this driver, not yet destroyed.
    #[inline(always)]
    pub(crate) unsafe fn at<'a>(cq: *mut ibv_cq) -> &'a Self {
        // SAFETY: begins a `Cq`. libibverbs' half is behind an `UnsafeCell`.
        unsafe { &*cq.cast::<Self>() }
    }

    pub(crate) fn base(&self) -> *mut ibv_cq {
        self.base.get().cast()
    }
}

impl<D: Driver> CompletionQueue<D> {
    /// The CQ, for whoever may give a poll more to look at.
    pub(crate) fn lock(&self) -> MutexGuard<'_, Completions<D>> {
        let mut state = self.lock_quietly();
        state.is_quiet = false;
        state
    }

    /// The CQ, for whoever does not.
    #[inline(always)]
    pub(crate) fn lock_quietly(&self) -> MutexGuard<'_, Completions<D>> {
        lock(&self.state)
    }

    /// The CQ, whose lock was left taken.
    ///
    /// # Safety
    ///
    /// As [`Mutex::resume`].
    #[inline(always)]
    pub(crate) unsafe fn resume(&self) -> MutexGuard<'_, Completions<D>> {
        // SAFETY: the caller's promise.
        unsafe { self.state.resume() }
    }

    /// As [`lock`](Self::lock), if nobody has it.
    #[inline(always)]
    pub(crate) fn try_lock(&self) -> Option<MutexGuard<'_, Completions<D>>> {
        let mut state = self.try_lock_quietly()?;
        state.is_quiet = false;
        Some(state)
    }

    /// As [`lock_quietly`](Self::lock_quietly), if nobody has it.
    #[inline(always)]
    pub(crate) fn try_lock_quietly(&self) -> Option<MutexGuard<'_, Completions<D>>> {
        self.state.try_lock()
    }

    /// What tells this CQ from every other of the context.
    pub(crate) fn key(&self) -> usize {
        std::ptr::from_ref(self).addr()
    }

    /// Makes room for the completions of one more queue of a QP.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(crate) fn attach(&self) -> Result<()> {
        let mut state = self.lock();
        let queues = state.members.len().saturating_add(1);
        state.members.try_reserve(1)?;
        let (due, dying) = (state.due.len(), state.dying.len());
        // One for the queue itself, and one for a receive of an SRQ.
        state
            .due
            .try_reserve(queues.saturating_mul(2).saturating_sub(due))?;
        state.dying.try_reserve(queues.saturating_sub(dying))?;
        let chores = queues.saturating_mul(Chore::<D>::PER_QUEUE);
        let waiting = state.chores.len();
        state.chores.try_reserve(chores.saturating_sub(waiting))?;
        state.members.push(Weak::new());
        Ok(())
    }

    /// Undoes [`attach`](Self::attach) for a QP that came to nothing.
    pub(crate) fn give_up_attach(&self) {
        let mut state = self.lock();
        if let Some(at) = state.members.iter().position(|m| m.strong_count() == 0) {
            state.members.swap_remove(at);
        }
    }

    /// Fills the place that [`attach`](Self::attach) made.
    pub(crate) fn join(&self, pair: &Arc<QueuePair<D>>) {
        let mut state = self.lock();
        if let Some(place) = state.members.iter_mut().find(|m| m.strong_count() == 0) {
            *place = Arc::downgrade(pair);
        }
    }

    /// Forgets a QP and every unread CQE for which `is_its` holds.
    pub(crate) fn detach(&self, pair: &QueuePair<D>, is_its: impl FnMut(u64, u32) -> bool) {
        let mut state = self.lock();
        state.forget(pair.id, is_its);
        state
            .members
            .retain(|member| !std::ptr::eq(member.as_ptr(), pair));
    }

    /// Does something to each of the QPs that complete here, once for each queue that does. No lock is held:
    /// it may ask the kernel.
    pub(crate) fn each_member(&self, act: impl Fn(&QueuePair<D>)) {
        let mut at = 0_usize;
        loop {
            let Some(member) = self.lock().member_at(at) else {
                return;
            };
            if let Some(pair) = member.upgrade() {
                act(&pair);
            }
            at = at.wrapping_add(1);
        }
    }

    /// Notes that a QP is suspect; whoever arms the CQ from then on asks after it.
    pub(crate) fn suspect(&self) {
        // Relaxed: `Armed` has the fences.
        self.suspects.store(true, Ordering::Relaxed);
    }
}

impl<D: Driver> Completions<D> {
    /// Lets nothing surface of a QP whose earlier life is over, nor the unread CQEs for which `is_its`
    /// holds.
    pub(crate) fn forget(&mut self, id: OwnerId, is_its: impl FnMut(u64, u32) -> bool) {
        self.due.retain(|due| due.owner != id);
        self.met = Met::nobody();
        if self.belled == Some(id) {
            // The kernel may have forgotten it, and the waiter sleeps on.
            self.belled = None;
            self.armed.set();
        }
        self.dying.retain(|dying| dying.pair.id != id);
        self.chores.retain(|chore| chore.pair().id != id);
        self.early
            .take_if(|early| cookie::owner(early.0.wr_id) == Some(id));
        self.void_unread(is_its);
    }

    /// The QP of this number that completes here.
    pub(crate) fn member(&self, number: u32) -> Option<Arc<QueuePair<D>>> {
        self.members
            .iter()
            .filter_map(Weak::upgrade)
            .find(|pair| pair.number == number)
    }

    /// Whether `is_it` holds for one of the first few QPs that complete here.
    pub(crate) fn has_member(&self, is_it: impl Fn(&QueuePair<D>) -> bool) -> bool {
        const FEW: usize = 8;
        let mut members = self.members.iter().take(FEW).filter_map(Weak::upgrade);
        members.any(|pair| is_it(&pair))
    }

    /// The `at`th of the QPs that complete here, once for each queue.
    pub(crate) fn member_at(&self, at: usize) -> Option<Weak<QueuePair<D>>> {
        self.members.get(at).map(Weak::clone)
    }

    /// Voids the unread CQEs whose cookie and QP number `is_its` recognises, and forgets those that were read ahead:
    /// they never surface.
    pub(crate) fn void_unread(&mut self, mut is_its: impl FnMut(u64, u32) -> bool) {
        self.ahead.forget(&mut is_its);
        for ahead in 0..self.ring.capacity() {
            let Some(cqe) = self.ring.peek(ahead) else {
                return;
            };
            if is_its(cqe.cookie, cqe.qp_num) {
                self.ring.void(ahead);
            }
        }
    }
}

/// `ibv_create_cq`(3).
///
/// # Safety
///
/// As the man page asks.
pub(crate) unsafe extern "C" fn create<D: Driver>(
    context: *mut ibv_context,
    cqe: c_int,
    channel: *mut ibv_comp_channel,
    comp_vector: c_int,
) -> *mut ibv_cq {
    // SAFETY: the caller's promise.
    unsafe { create_with_room::<D>(context, cqe, room::<D>(cqe), channel, comp_vector) }
}

/// Creates a CQ for `cqe` CQEs of the application's and `room` in all.
///
/// # Safety
///
/// As [`create`].
pub(crate) unsafe fn create_with_room<D: Driver>(
    context: *mut ibv_context,
    cqe: c_int,
    room: c_int,
    channel: *mut ibv_comp_channel,
    comp_vector: c_int,
) -> *mut ibv_cq {
    pointer(|| {
        // SAFETY: a context of ours.
        let ours = unsafe { Context::of(context) };
        let mut cq = object::allocate::<Cq<D>>()?;
        let base = cq.as_mut_ptr().cast::<ibv_cq>();
        let mut request = uverbs::Request::<uverbs::CreateCq>::zeroed();
        let mut answer = uverbs::Response::<uverbs::CreateCqResp, D::CqAnswer>::zeroed();
        // SAFETY: request and answer are as large as their sizes say; the CQ is at its place.
        Errno::check(unsafe {
            (ours.library.calls.ibv_cmd_create_cq)(
                context,
                room,
                channel,
                comp_vector,
                base,
                (&raw mut request).cast(),
                size_of_val(&request),
                (&raw mut answer).cast(),
                size_of_val(&answer),
            )
        })?;
        let asked = u32::try_from(cqe).map_err(|_| Errno::EIO);
        let mapped = asked.and_then(|asked| {
            let ring = D::map_cq(ours.cmd_fd, &answer.driver)?;
            holds(ring.capacity(), asked)?;
            Ok((ring, asked))
        });
        let (ring, asked) = mapped.inspect_err(|_| {
            // SAFETY: the kernel's CQ that was just made, known to nobody else. Its failure
            // could not be told: the mapping's is.
            let _ = unsafe { (ours.library.calls.ibv_cmd_destroy_cq)(base) };
        })?;
        let notify = D::notify(&ring);
        let armed = Arc::new(Armed::new());
        let ahead = Arc::new(ReadAhead::default());
        let batch = Batch::none(Arc::clone(&ahead));
        let queue = Arc::new(CompletionQueue {
            context: ours,
            state: Mutex::new(Completions {
                ring,
                is_quiet: false,
                moved: None,
                left_full: false,
                ahead,
                has_read_ahead: false,
                due: Vec::new(),
                dying: Vec::new(),
                chores: Vec::new(),
                early: None,
                met: Met::nobody(),
                armed: Arc::clone(&armed),
                belled: None,
                members: Vec::new(),
                asked,
                overran: false,
                told_overrun: false,
                idle: 0,
                last_asked: None,
            }),
            notify,
            armed,
            clapper: Mutex::default(),
            suspects: AtomicBool::new(false),
        });
        // SAFETY: inside the allocation. libibverbs' half, where the kernel has answered with all the room.
        unsafe {
            (&raw mut (*cq.as_mut_ptr()).queue).write(Held::new(queue));
            (&raw mut (*cq.as_mut_ptr()).batch).write(batch);
            (&raw mut (*cq.as_mut_ptr()).domain).write(None);
            (*base).cqe = cqe;
        }
        Ok(Box::into_raw(cq).cast())
    })
}

/// `ibv_req_notify_cq`(3).
///
/// Of any completion, also where the application asks for solicited ones: an unsuccessful one counts as solicited, and
/// neither kernel raises the event for those. A waiter that is woken too often polls in vain; one that is not sleeps for
/// ever.
///
/// # Safety
///
/// As the man page asks. The CQ is one of ours, through which libibverbs has found this function.
pub(crate) unsafe extern "C" fn req_notify<D: Driver>(
    cq: *mut ibv_cq,
    _solicited_only: c_int,
) -> c_int {
    // SAFETY: a CQ of ours.
    let cq = unsafe { Cq::<D>::at(cq) };
    if let Err(errno) = D::arm(cq) {
        errno.set();
        return errno.get();
    }
    // Not before: a bell that rings for a CQ which the kernel has not armed wakes nobody. What
    // becomes due in between, the application finds when it polls once more, as it must.
    cq.queue.armed.set();
    if cq.queue.has_suspects() {
        follow_up(|| cq.queue.ask_after_suspects());
    }
    0
}

/// `ibv_destroy_cq`(3): `EBUSY` while a QP uses it, and the CQ stays as it is.
///
/// # Safety
///
/// As the man page asks.
pub(crate) unsafe extern "C" fn destroy<D: Driver>(cq: *mut ibv_cq) -> c_int {
    status(|| {
        // SAFETY: a CQ of ours.
        let ours = unsafe { Cq::<D>::of(cq) }.ok_or(Errno::EINVAL)?;
        drop(lock(&ours.queue.clapper).take());
        // SAFETY: as above.
        Errno::check(unsafe { (ours.queue.context.library.calls.ibv_cmd_destroy_cq)(cq) })?;
        // SAFETY: `create` made it a box of `Cq`; the kernel has let go of it, and the caller does.
        drop(unsafe { Box::from_raw(cq.cast::<Cq<D>>()) });
        Ok(())
    })
}
