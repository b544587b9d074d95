// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause

//! Cookie → queue, for those that were met lately.

use std::array;
use std::fmt;
use std::ptr::NonNull;

use crate::cookie::{Cookie, Queue};
use crate::cq::{CompletionQueue, Completions};
use crate::driver::Driver;
use crate::lock::Mutex;
use crate::own_queue::OwnQueue;
use crate::post_send::SendQueue;
use crate::queue_pair::{QueuePair, Receiver};
use crate::srq::SharedQueue;

/// The queue that a cookie names.
pub(crate) enum Named<'a, D: Driver> {
    Sends(&'a Mutex<SendQueue<D::Sends>>),
    Recvs(&'a OwnQueue<D::Recvs>),
    Shared(&'a SharedQueue<D>),
}

impl<D: Driver> Clone for Named<'_, D> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<D: Driver> Copy for Named<'_, D> {}

/// The queues whose CQEs were settled lately. What is polled next is mostly of the last one of its kind, or of a few
/// that take turns.
#[derive(Debug)]
pub(crate) struct Met<D: Driver> {
    recvs: One<&'static OwnQueue<D::Recvs>>,
    sends: One<&'static Mutex<SendQueue<D::Sends>>>,
    shared: One<&'static SharedQueue<D>>,
    /// Each in the place that its key has.
    others: [One<Named<'static, D>>; OTHERS],
}

const PLACE_BITS: u32 = 4;
const OTHERS: usize = 1 << PLACE_BITS;

/// A queue, and the part of its cookies that names it.
///
/// # Invariants
///
/// There is a queue, unless the key is [`NOBODY`].
#[derive(Clone, Copy)]
struct One<Q> {
    key: u64,
    /// As long as it is met: see [`queue`](Self::queue).
    queue: Option<Q>,
}

/// No cookie has this key.
const NOBODY: u64 = u64::MAX;

impl<Q> fmt::Debug for One<Q> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("One").field(&self.key).finish()
    }
}

impl<D: Driver> Met<D> {
    pub(crate) fn nobody() -> Self {
        Self {
            recvs: One::nobody(),
            sends: One::nobody(),
            shared: One::nobody(),
            others: array::from_fn(|_| One::nobody()),
        }
    }

    /// Keeps a queue that a cookie names.
    ///
    /// # Safety
    ///
    /// The queue is of a QP that completes to this CQ, or is the SRQ of such a QP: before they are freed, the QP is
    /// forgotten under the lock of the CQ, and this with it.
    unsafe fn note(&mut self, cookie: u64, queue: Named<'_, D>) {
        let key = Cookie::key(cookie);
        // SAFETY: the caller's promise: it is there as long as this.
        let queue = unsafe {
            match queue {
                Named::Sends(queue) => Named::Sends(NonNull::from(queue).as_ref()),
                Named::Recvs(queue) => Named::Recvs(NonNull::from(queue).as_ref()),
                Named::Shared(queue) => Named::Shared(NonNull::from(queue).as_ref()),
            }
        };
        match queue {
            Named::Sends(queue) => self.sends = One::new(key, queue),
            Named::Recvs(queue) => self.recvs = One::new(key, queue),
            Named::Shared(queue) => self.shared = One::new(key, queue),
        }
        if let Some(place) = self.others.get_mut(place(key)) {
            *place = One::new(key, queue);
        }
    }

    /// The queue that a cookie names, if it was met.
    ///
    /// # Safety
    ///
    /// The CQ is locked as long as it is used.
    #[inline(always)]
    pub(crate) unsafe fn queue<'a>(&self, cookie: u64) -> Option<Named<'a, D>> {
        let key = Cookie::key(cookie);
        // SAFETY: each has the key of a cookie.
        unsafe {
            if key == self.recvs.key {
                Some(Named::Recvs(self.recvs.queue()))
            } else if key == self.sends.key {
                Some(Named::Sends(self.sends.queue()))
            } else if key == self.shared.key {
                Some(Named::Shared(self.shared.queue()))
            } else {
                let other = self.others.get(place(key)).filter(|one| one.key == key)?;
                Some(other.queue())
            }
        }
    }
}

/// Which of the others' places a key has: by the number of the owner, and by which of its queues it is, which is in
/// the highest bits.
#[inline(always)]
fn place(key: u64) -> usize {
    ((key ^ key >> 28) & ((1 << PLACE_BITS) - 1)) as usize
}

impl<Q: Copy> One<Q> {
    fn nobody() -> Self {
        Self {
            key: NOBODY,
            queue: None,
        }
    }

    fn new(key: u64, queue: Q) -> Self {
        Self {
            key,
            queue: Some(queue),
        }
    }

    /// The queue.
    ///
    /// # Safety
    ///
    /// The key is not [`NOBODY`], and the CQ is locked as long as the queue is used.
    #[inline(always)]
    unsafe fn queue(&self) -> Q {
        // SAFETY: there is one (invariant).
        unsafe { self.queue.unwrap_unchecked() }
    }
}

impl<D: Driver> CompletionQueue<D> {
    /// The queue that a cookie, no mark, names, if its completions come here.
    #[inline(always)]
    pub(crate) fn named<'s>(
        &'s self,
        state: &mut Completions<D>,
        raw: u64,
    ) -> Option<Named<'s, D>> {
        // SAFETY: the CQ is locked.
        unsafe { state.met.queue(raw) }.or_else(|| self.meet(state, raw))
    }

    #[cold]
    #[inline(never)]
    fn meet<'s>(&'s self, state: &mut Completions<D>, raw: u64) -> Option<Named<'s, D>> {
        let cookie = Cookie::decode(raw)?;
        let named = match cookie.queue {
            Queue::Send => Named::Sends(&self.qp(cookie)?.send),
            Queue::Recv => match &self.qp(cookie)?.recv {
                Receiver::Own(recv) => Named::Recvs(recv),
                Receiver::Shared(_) | Receiver::Nothing => return None,
            },
            Queue::Shared => Named::Shared(self.srq(cookie)?),
        };
        // A cookie leads from any CQ to an SRQ. Who keeps it is a QP, and no other CQ hears when that goes. Mostly all
        // QPs of a CQ use one SRQ; where none is found at once, the SRQ is looked for each time.
        let is_kept = match named {
            Named::Sends(_) | Named::Recvs(_) => true,
            Named::Shared(srq) => state.has_member(|pair| is_user(pair, srq)),
        };
        if is_kept {
            // SAFETY: just looked; a QP's own queues are found for its CQs alone.
            unsafe { state.met.note(raw, named) };
        }
        Some(named)
    }
}

fn is_user<D: Driver>(pair: &QueuePair<D>, srq: &SharedQueue<D>) -> bool {
    pair.srq()
        .is_some_and(|its| std::ptr::eq(&raw const **its, srq))
}
