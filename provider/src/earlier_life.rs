// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause

//! LAST_WQE_REACHED of a QP's life before a RESET.
//!
//! Linux 6.12's rxe raises the event each time a QP's receive task runs in ERR (`rxe_resp.c:
//! flush_recv_queue`), and a RESET takes none of them back (`rxe_qp.c: rxe_qp_reset`). One that is read
//! in the next life says nothing of that: the kernel may be about to complete what the QP has taken.
//! What was unread at the RESET is read before all that is raised later, so as long as there may be some of
//! it, no event counts, and each has the kernel raise another. That one counts which was raised when
//! nothing was unread.
//!
//! A thread that has read an event and not yet shown it to us is not known of: two that reap at once can
//! bring one of before behind one of now.

use crate::async_event::has_unread;
use crate::death::Life;
use crate::driver::Driver;
use crate::lock::lock;
use crate::queue_pair::QueuePair;

impl<D: Driver> QueuePair<D> {
    /// The kernel has reset the QP. The lock of `life` is held, which is not gone.
    pub(crate) fn note_earlier_events(&self, life: &mut Life) {
        life.may_have_earlier_events =
            self.srq().is_some() && self.kernel_raises_last_wqe() && self.has_unread_events();
    }

    /// Whether a LAST_WQE_REACHED that was read tells of this life; if not, and the QP is dead, another will.
    /// No lock is held.
    pub(crate) fn is_of_this_life(&self) -> bool {
        let mut life = lock(&self.life);
        if life.gone || !life.may_have_earlier_events {
            return true;
        }
        // Before the kick: what that raises is of this life.
        life.may_have_earlier_events = self.has_unread_events();
        // A kernel that refuses has no such QP any more, and completes nothing.
        life.dead && self.kick().is_err()
    }

    /// The lock of `life` is held, which is not gone.
    fn has_unread_events(&self) -> bool {
        // SAFETY: libibverbs' half is there until `life` is gone, and its context as long.
        has_unread(unsafe { (*(*self.base.0).context).async_fd })
    }
}
