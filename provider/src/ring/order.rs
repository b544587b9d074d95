// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause

//! Every access to a word that both sides of a ring use, with its ordering and its partner.
//!
//! The model tests (`tests/model`) run these very functions against the kernel's side of each
//! protocol, in all interleavings; `atomic` is the standard library's here and loom's there.

use super::atomic::{AtomicU32, AtomicU64, Ordering, fence};

/// rxe: the index that the kernel owns.
///
/// Acquire: pairs with its `smp_store_release` (`rxe_queue.h: queue_advance_producer`,
/// `queue_advance_consumer`): the CQEs before it are complete, the WQEs before it were read.
pub(super) fn kernel_index(word: &AtomicU32) -> u32 {
    word.load(Ordering::Acquire)
}

/// rxe: the index that we own.
///
/// Release: pairs with the kernel's `smp_load_acquire` (`queue_get_producer`,
/// `queue_get_consumer`): our WQEs before it are complete, our copies of the CQEs before it made.
pub(super) fn publish_index(word: &AtomicU32, index: u32) {
    word.store(index, Ordering::Release);
}

/// rxe: how far the kernel is with a WQE.
///
/// Relaxed: nothing else is read on the strength of it. The look is not under the lock of the queue, so that the
/// partner may also be who has the WQE's place by now.
pub(super) fn wqe_state(word: &AtomicU64) -> u64 {
    word.load(Ordering::Relaxed)
}

/// rxe: that the kernel has not begun with a WQE.
///
/// Relaxed: [`publish_index`] hands it over, as all of the WQE.
pub(super) fn reset_wqe_state(word: &AtomicU64) {
    word.store(0, Ordering::Relaxed);
}

/// siw: hands a work queue entry to the kernel, by the word that its flags are in.
///
/// Release: pairs with the kernel's `READ_ONCE(flags)`, on which its copy of the entry depends
/// (`siw.h: sq_get_next`, `siw_qp_rx.c: siw_rqe_get`).
pub(super) fn publish_entry(head: &AtomicU32, value: u32) {
    head.store(value, Ordering::Release);
}

/// siw: hands an entry to the kernel in whose place a mark stands; false if the kernel has flushed the
/// mark.
///
/// SeqCst: as a release it pairs with the kernel's `READ_ONCE(flags)`, as in [`publish_entry`]. It is
/// also the full barrier before [`older_entry`].
pub(super) fn publish_over_mark(head: &AtomicU32, mark: u32, value: u32) -> bool {
    head.compare_exchange(mark, value, Ordering::SeqCst, Ordering::Relaxed)
        .is_ok()
}

/// siw: the word of a work queue entry, whose flags are 0 once the kernel has taken it.
///
/// Acquire: pairs with the kernel's `smp_store_mb(flags, 0)`: its copy is made.
pub(super) fn entry(head: &AtomicU32) -> u32 {
    head.load(Ordering::Acquire)
}

/// siw: the word of an entry that was published before newer ones, after these were.
///
/// The kernel clears an entry's flags and then looks at the next entry, with a full barrier between
/// (`smp_store_mb`, then `sq_get_next`). Here the newer flags are stored and then the older ones
/// loaded, with the fence between: SeqCst, the partner of that barrier. So if the older entry still
/// has its flags, the kernel will find the newer one; and if the kernel did not find the newer one,
/// the older one has none.
pub(super) fn older_entry(head: &AtomicU32) -> u32 {
    fence(Ordering::SeqCst);
    head.load(Ordering::Relaxed)
}

/// siw: takes an entry back, if its word is still `value`, and leaves `instead`.
///
/// Relaxed: nothing is passed on.
pub(super) fn take_back_entry(head: &AtomicU32, value: u32, instead: u32) -> bool {
    head.compare_exchange(value, instead, Ordering::Relaxed, Ordering::Relaxed)
        .is_ok()
}

/// siw: the word of a CQE that its flags are in.
///
/// Acquire: pairs with the kernel's `WRITE_ONCE(flags, VALID)`, on machines that keep stores in
/// order (x86): the kernel has no barrier there (`siw_qp.c: siw_sqe_complete`).
pub(super) fn cqe(head: &AtomicU32) -> u32 {
    head.load(Ordering::Acquire)
}

/// siw: gives a CQE's place back to the kernel.
///
/// Release: pairs with the kernel's `READ_ONCE(cqe->flags)`: our copy is made.
pub(super) fn return_cqe(head: &AtomicU32) {
    head.store(0, Ordering::Release);
}

/// siw: asks for an event at the next completion.
///
/// An application arms and polls once more; the kernel stores a CQE and reads this word, with a
/// full barrier between (`smp_store_mb`, then `siw_cq_notify_now`). Its partner is the fence of `Armed::set`, which
/// follows: so a CQE that the poll misses raises the event.
pub(super) fn arm(word: &AtomicU32, wanted: u32) {
    word.store(wanted, Ordering::Relaxed);
}
