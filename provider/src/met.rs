// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause

//! Cookie → QP, for the one that was met last.

use std::ptr::NonNull;

use crate::cookie::{Cookie, VOID};
use crate::driver::Driver;
use crate::queue_pair::QueuePair;

/// The QP whose CQE was settled last, and the part of its cookies that names the queue. What is polled next is
/// mostly of the same.
#[derive(Debug)]
pub(crate) struct Met<D: Driver> {
    cookie: u64,
    pair: Option<NonNull<QueuePair<D>>>,
}

// SAFETY: an address, which is used under the lock of the CQ (`pair`).
unsafe impl<D: Driver> Send for Met<D> {}

impl<D: Driver> Met<D> {
    pub(crate) fn new(cookie: u64, pair: &QueuePair<D>) -> Self {
        Self {
            cookie,
            pair: Some(NonNull::from(pair)),
        }
    }

    pub(crate) fn nobody() -> Self {
        Self {
            cookie: VOID,
            pair: None,
        }
    }

    /// The QP, if a cookie names its queue.
    ///
    /// # Safety
    ///
    /// The CQ is locked as long as the reference is used.
    #[inline(always)]
    pub(crate) unsafe fn pair<'a>(&self, cookie: u64) -> Option<&'a QueuePair<D>> {
        if !Cookie::is_of_one_queue(cookie, self.cookie) {
            return None;
        }
        // SAFETY: it was found for this CQ by `qp` and keeps its place. It is alive: before it is freed, `forget`
        // is called under the lock of this CQ, when it is met no more.
        self.pair.map(|pair| unsafe { pair.as_ref() })
    }
}
