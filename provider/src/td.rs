// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause

//! `ibv_alloc_td`, `ibv_dealloc_td`: thread domains.
//!
//! The application promises that no two of its threads use objects of a thread domain at a time, so
//! that no lock need keep its threads apart there (`ibv_alloc_td`(3)). Such a lock is the turn of an extended
//! CQ, which is held from `ibv_start_poll` to `ibv_end_poll`: in a thread domain nobody takes it. That of a
//! draft could go as well, and does not: it is taken once for each `ibv_wr_complete`, which makes a system
//! call, and a promise that is not kept would be a torn list.
//!
//! The locks of the queues (`lock.rs`) are no such locks, and stay. They exclude what the application
//! has made no promise of, because it is the library that comes to a queue there:
//!
//! * a poll takes completions off the ledgers of the QPs, and the CQ need not be in the domain;
//! * a death is dealt with by whoever sees its sign. That may be a thread in `ibv_get_async_event`, which
//!   is a verb of the context, or one that uses another object: the other CQ, an SRQ that has failed and
//!   all its QPs with it, the device. It closes both queues and takes back what the kernel will not
//!   complete, while the thread of the domain may be about to post;
//! * a QP's end looks for its completions in both CQs.
//!
//! Without these the promise that each accepted work request completes once would hold only for who reaps
//! no events. In one thread such a lock is never waited for, and costs two atomic instructions.

use std::ffi::c_int;
use std::sync::Arc;

use rdma_core_sys::{ibv_context, ibv_td, ibv_td_init_attr};

use crate::boundary::{pointer, status};
use crate::errno::{Errno, Result};

/// A thread domain: libibverbs' half, then ours.
#[repr(C)]
#[derive(Debug)]
pub(crate) struct Td {
    base: ibv_td,
    thread: Arc<Thread>,
}

/// What the parent domains of a thread domain hold: it is in use while they do.
#[derive(Debug, Default)]
pub(crate) struct Thread;

impl Td {
    /// What a parent domain holds of the thread domain that an attribute names; nothing of NULL.
    ///
    /// # Errors
    ///
    /// `EINVAL` if it is of another context.
    ///
    /// # Safety
    ///
    /// `td` is NULL or of ours, and not yet deallocated.
    pub(crate) unsafe fn named(
        td: *mut ibv_td,
        context: *mut ibv_context,
    ) -> Result<Option<Arc<Thread>>> {
        // SAFETY: the caller's promise.
        match unsafe { td.cast::<Self>().as_ref() } {
            Some(td) if td.base.context == context => Ok(Some(Arc::clone(&td.thread))),
            Some(_) => Err(Errno::EINVAL),
            None => Ok(None),
        }
    }
}

/// `ibv_alloc_td`(3).
///
/// # Errors
///
/// `EOPNOTSUPP` for attributes: none is known.
///
/// # Safety
///
/// As the man page asks.
pub(crate) unsafe extern "C" fn alloc(
    context: *mut ibv_context,
    attr: *mut ibv_td_init_attr,
) -> *mut ibv_td {
    pointer(|| {
        // SAFETY: NULL or the caller's attributes.
        if unsafe { attr.as_ref() }.ok_or(Errno::EINVAL)?.comp_mask != 0 {
            return Err(Errno::EOPNOTSUPP);
        }
        let td = Td {
            base: ibv_td { context },
            thread: Arc::default(),
        };
        Ok(Box::into_raw(Box::new(td)).cast())
    })
}

/// `ibv_dealloc_td`(3).
///
/// # Errors
///
/// `EBUSY` while a parent domain names it, and it stays as it is.
///
/// # Safety
///
/// As the man page asks.
pub(crate) unsafe extern "C" fn dealloc(td: *mut ibv_td) -> c_int {
    status(|| {
        let td = td.cast::<Td>();
        // SAFETY: a thread domain of ours.
        if Arc::strong_count(unsafe { &(*td).thread }) > 1 {
            return Err(Errno::EBUSY);
        }
        // SAFETY: `alloc` made it a box, and the caller lets go of it.
        drop(unsafe { Box::from_raw(td) });
        Ok(())
    })
}
