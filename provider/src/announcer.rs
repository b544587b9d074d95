// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause

//! Waking whoever sleeps in `ibv_get_async_event` for an event that the library has to tell.
//!
//! The sleeper reads a file to which the kernel alone writes. So the kernel is made to write: the
//! announcer has a CQ that is full, and each CQE that finds no room there raises CQ_ERR
//! (linux 6.1, 6.12 `rxe_cq.c: rxe_cq_post`, `siw_qp.c: siw_rqe_complete`). The hook of
//! `async_event.rs` knows the CQ and puts the *injected event* in its place.
//!
//! libibverbs and the kernel each count an object's events, and its destruction waits until they
//! agree (`ibv_ack_async_event`(3)): what the kernel counted for the announcer's CQ and the
//! application acknowledges for its QP is put right on both sides.

use std::collections::VecDeque;
use std::ptr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};

use rdma_core_sys::{ibv_context, ibv_cq, ibv_pd};

use crate::clapper::{self, Clapper};
use crate::death::Life;
use crate::driver::Driver;
use crate::errno::{Errno, Result};
use crate::lock::{Mutex, lock};
use crate::queue_pair::{Base, QueuePair};
use crate::{cq, pd, qp};

/// One context's announcer.
#[derive(Debug)]
pub(crate) struct Announcer<D: Driver> {
    /// By which its events are known.
    cq: *mut ibv_cq,
    /// What its events are raised with, until it is closed. The lock keeps whoever closes it apart from
    /// who raises one; no other is held when it is taken.
    objects: Mutex<Option<Objects<D>>>,
    /// The QPs of whom an event is to tell, one for each CQE that was caused.
    pending: Mutex<VecDeque<Weak<QueuePair<D>>>>,
    /// Its events tell of nobody any more.
    retired: AtomicBool,
    closed: AtomicBool,
}

// SAFETY: its objects are its own, and libibverbs' functions may be called from any thread.
unsafe impl<D: Driver> Send for Announcer<D> {}
// SAFETY: as above; the pointer does not change.
unsafe impl<D: Driver> Sync for Announcer<D> {}

/// A CQ that is full, and what overflows it.
#[derive(Debug)]
struct Objects<D: Driver> {
    pd: *mut ibv_pd,
    cq: *mut ibv_cq,
    /// Where one can be used more than once.
    clapper: Option<Clapper<D>>,
}

impl<D: Driver> Objects<D> {
    /// # Errors
    ///
    /// What the verbs say.
    ///
    /// # Safety
    ///
    /// `context` is an open context of ours.
    unsafe fn new(context: *mut ibv_context) -> Result<Self> {
        let made = |object: bool| object.then_some(()).ok_or_else(Errno::last);
        // SAFETY: the caller's context.
        let pd = unsafe { pd::alloc(context) };
        made(!pd.is_null())?;
        let mut ours = Self {
            pd,
            cq: ptr::null_mut(),
            clapper: None,
        };
        // SAFETY: as above.
        ours.cq = unsafe { cq::create_with_room::<D>(context, 1, 1, ptr::null_mut(), 0) };
        made(!ours.cq.is_null())?;
        if !D::MARKS_AHEAD {
            // SAFETY: our CQ, which goes after it.
            ours.clapper = Some(unsafe { Clapper::new(ours.cq) }?);
        }
        Ok(ours)
    }

    /// Causes one CQE.
    fn strike(&self) {
        if let Some(clapper) = &self.clapper {
            clapper.strike();
            return;
        }
        // SAFETY: a PD and a CQ of our own; the QP is known to nobody else, and the mark in its receive
        // queue is flushed when it goes.
        unsafe {
            let qp = clapper::create_qp::<D>(self.pd, self.cq, 1);
            if !qp.is_null() {
                qp::destroy::<D>(qp);
            }
        }
    }
}

impl<D: Driver> Drop for Objects<D> {
    fn drop(&mut self) {
        drop(self.clapper.take());
        // SAFETY: both are ours alone, and the CQ's last user is gone. What their verbs say cannot be helped.
        unsafe {
            if !self.cq.is_null() {
                cq::destroy::<D>(self.cq);
            }
            pd::dealloc(self.pd);
        }
    }
}

impl<D: Driver> Announcer<D> {
    /// # Errors
    ///
    /// What the verbs say.
    ///
    /// # Safety
    ///
    /// `context` is an open context of ours.
    pub(crate) unsafe fn new(context: *mut ibv_context) -> Result<Self> {
        // SAFETY: the caller's promise.
        let objects = unsafe { Objects::new(context) }?;
        // The first fills the CQ.
        objects.strike();
        Ok(Self {
            cq: objects.cq,
            objects: Mutex::new(Some(objects)),
            pending: Mutex::default(),
            retired: AtomicBool::new(false),
            closed: AtomicBool::new(false),
        })
    }

    /// Causes one CQE; nothing if it was closed meanwhile, when whoever did so announces anew what was
    /// pending.
    fn strike(&self) {
        if let Some(objects) = &*lock(&self.objects) {
            objects.strike();
        }
    }

    /// Whether an event's CQ is this one's.
    pub(crate) fn is_own(&self, cq: *mut ibv_cq) -> bool {
        self.cq == cq
    }

    /// The QP of whom the event tells that the kernel has just raised for the CQ.
    pub(crate) fn next(&self) -> Option<Arc<QueuePair<D>>> {
        lock(&self.pending).pop_front()?.upgrade()
    }

    /// Lets go of a QP that is being destroyed; if an event was to tell of it, of all the others, to
    /// be announced anew. The events that nobody has read go with the CQ, as those of a QP go with it.
    fn retire(&self, gone: &QueuePair<D>) -> Option<Vec<Arc<QueuePair<D>>>> {
        let mut pending = lock(&self.pending);
        let is_gone = |pair: &Weak<QueuePair<D>>| std::ptr::eq(pair.as_ptr(), gone);
        if !pending.iter().any(is_gone) {
            return None;
        }
        // Relaxed: changed under the lock.
        self.retired.store(true, Ordering::Relaxed);
        pending.retain(|pair| !is_gone(pair));
        Some(
            pending
                .drain(..)
                .filter_map(|pair| pair.upgrade())
                .collect(),
        )
    }

    /// Whether it takes no more announcements.
    pub(crate) fn is_retired(&self) -> bool {
        // Relaxed: an announcement looks again under the lock.
        self.retired.load(Ordering::Relaxed)
    }

    /// Puts the QP on the list; false if this announcer is retired.
    fn enter(&self, pair: &Arc<QueuePair<D>>) -> bool {
        let mut pending = lock(&self.pending);
        if self.is_retired() {
            return false;
        }
        pending.push_back(Arc::downgrade(pair));
        true
    }
}

impl<D: Driver> Announcer<D> {
    /// Destroys its objects. libibverbs waits in there until the events that were read are
    /// acknowledged, which the hook does at once.
    pub(crate) fn close(&self) {
        let objects = lock(&self.objects).take();
        if objects.is_some() {
            drop(objects);
            // Relaxed: whoever looks lets go of it, and of nothing else.
            self.closed.store(true, Ordering::Relaxed);
        }
    }

    pub(crate) fn is_closed(&self) -> bool {
        // Relaxed: as above.
        self.closed.load(Ordering::Relaxed)
    }
}

/// Has an event raised that will tell of `pair`. No lock is held.
pub(crate) fn announce<D: Driver>(pair: &QueuePair<D>) {
    let Some(me) = pair.arc() else { return };
    loop {
        let life = lock(&pair.life);
        if life.gone {
            return;
        }
        // SAFETY: libibverbs' half is there until `life` is gone.
        let context = unsafe { (*pair.base.0).context };
        // SAFETY: the QP's context, which is open.
        let announcer = unsafe { pair.context.announcer::<D>(context) };
        // Before the lock is given back: who destroys the QP then finds it entered, and withdraws it.
        let entered = announcer.map(|announcer| (announcer.enter(&me), announcer));
        drop(life);
        match entered {
            Ok((true, announcer)) => return announcer.strike(),
            // Another thread has just retired it.
            Ok((false, _)) => {}
            Err(errno) => {
                let line = format!("an event could not be raised: {errno:?}");
                return pair.context.note(&line);
            }
        }
    }
}

/// The QP is destroyed: no event tells of it any more. No lock is held.
pub(crate) fn withdraw<D: Driver>(pair: &QueuePair<D>) {
    for announcer in pair.context.announcers::<D>() {
        if let Some(others) = announcer.retire(pair) {
            drop(announcer);
            pair.context.dismiss_retired::<D>();
            for other in others {
                announce(&other);
            }
        }
    }
}

/// Takes back one of the events that libibverbs has counted as acknowledged for a QP: the application
/// will acknowledge one that the kernel has not counted. The QP's life is locked and not gone.
pub(crate) fn uncount(_life: &Life, qp: Base) {
    // SAFETY: libibverbs' half, whose counter is used under its mutex (rdma-core v44.0 `device.c:
    // ibv_ack_async_event`, `cmd.c: ibv_cmd_destroy_qp`).
    unsafe {
        let mutex = (&raw mut (*qp.0).mutex).cast();
        libc::pthread_mutex_lock(mutex);
        (*qp.0).events_completed = (*qp.0).events_completed.wrapping_sub(1);
        libc::pthread_mutex_unlock(mutex);
    }
}
