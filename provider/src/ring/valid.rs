// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause

//! siw's SQ, RQ and SRQ: entries that a VALID flag hands to the kernel.
//!
//! linux 6.1 `include/uapi/rdma/siw-abi.h`. No index is shared: each side counts for itself. The
//! kernel clears the flags when it *takes* an entry, long before the work request completes
//! (`siw_qp.c: siw_activate_tx_from_sq`, `siw_qp_rx.c: siw_rqe_get`).
//!
//! # The mark
//!
//! The kernel takes an entry that is VALID (`siw.h: sq_get_next`, `siw_qp_rx.c: siw_rqe_get`), but it
//! flushes every one whose flags are not 0 (`siw_qp.c: siw_sq_flush, siw_rq_flush`; linux 6.1, 6.12).
//! So an entry with another flag than VALID behind all others is left alone while the QP lives, and
//! becomes a CQE when it dies. No event of the kernel's tells of every such death; the mark does.

mod head;
mod open;

use std::marker::PhantomData;
use std::mem::offset_of;
use std::os::fd::RawFd;

use super::atomic::AtomicU32;
use super::map::Mapping;
use super::order;
use crate::errno::{Errno, Result};
use kernel_abi::siw::{Rqe, Sqe};

pub(crate) use head::Head;
pub(crate) use open::{OpenEntries, OpenEntry};

/// Where the ids of an [`Sqe`] and an [`Rqe`] are.
const _: () = assert!(offset_of!(Sqe, id) == 0 && offset_of!(Rqe, id) == 0);

/// A mapped ring of [`Sqe`]s or [`Rqe`]s.
///
/// # Invariants
///
/// `entries` points to `mask + 1` entries inside `map`, up to `end`; `mask + 1` is a power of two. `next` points to one of
/// them.
#[derive(Debug)]
pub(crate) struct ValidRing<T> {
    entries: *mut u8,
    end: *mut u8,
    mask: u32,
    /// Where [`open_next`](Self::open_next) begins.
    next: *mut u8,
    /// Held for its memory.
    _map: Mapping,
    _entry: PhantomData<T>,
}

// SAFETY: the pointers lead into the mapping, which the ring owns and which is not tied to a thread.
unsafe impl<T: Send> Send for ValidRing<T> {}

impl<T> ValidRing<T> {
    /// Maps the `count` entries that a create command answered with.
    ///
    /// # Errors
    ///
    /// `EIO` if the answer is impossible; else what `mmap(2)` says.
    pub(crate) fn map(cmd_fd: RawFd, key: u64, count: u32) -> Result<Self> {
        Self::over(Mapping::new(cmd_fd, key, Self::bytes(count)?)?, count)
    }

    fn bytes(count: u32) -> Result<usize> {
        if !count.is_power_of_two() {
            return Err(Errno::EIO);
        }
        usize::try_from(count)
            .ok()
            .and_then(|n| n.checked_mul(size_of::<T>()))
            .ok_or(Errno::EIO)
    }

    fn over(map: Mapping, count: u32) -> Result<Self> {
        let bytes = Self::bytes(count)?;
        let entries = map.span(0, bytes)?;
        Ok(Self {
            entries,
            end: entries.wrapping_add(bytes),
            mask: count.wrapping_sub(1),
            next: entries,
            _map: map,
            _entry: PhantomData,
        })
    }

    /// How many entries there are.
    pub(crate) fn capacity(&self) -> u32 {
        self.mask.wrapping_add(1)
    }

    fn entry(&self, index: u32) -> *mut u8 {
        // CAST: u32 fits usize on every target that libibverbs supports.
        self.entries
            .wrapping_add(((index & self.mask) as usize).wrapping_mul(size_of::<T>()))
    }

    fn word(&self, index: u32) -> &AtomicU32 {
        // SAFETY: inside the mapping (invariant).
        unsafe { open::word_of(self.entry(index)) }
    }

    fn head(&self, index: u32) -> Head {
        Head::from_word(order::entry(self.word(index)))
    }

    /// Whether the kernel has not yet taken the entry that `index` (masked here) names.
    pub(crate) fn is_pending(&self, index: u32) -> bool {
        self.head(index).is_valid()
    }

    /// The entries from the one on that `index` (masked here) names, which are not pending, to be written.
    #[inline(always)]
    pub(crate) fn open(&mut self, index: u32) -> OpenEntries<'_, T> {
        let first = self.entry(index);
        OpenEntries {
            first,
            at: first,
            ring: self,
        }
    }

    /// The entries behind those that were [left](OpenEntries::leave), which are not pending, to be written.
    #[inline(always)]
    pub(crate) fn open_next(&mut self) -> OpenEntries<'_, T> {
        OpenEntries {
            first: self.next,
            at: self.next,
            ring: self,
        }
    }

    /// How many entries before the [next](Self::open_next) one the kernel has not yet taken.
    #[inline(always)]
    pub(crate) fn pending_before_next(&self) -> u32 {
        let mut count = 0;
        let mut at = self.next;
        while count < self.capacity() {
            at = self.before(at);
            // SAFETY: an entry of the ring's.
            let head = Head::from_word(order::entry(unsafe { open::word_of(at) }));
            if !head.is_valid() {
                break;
            }
            count = count.wrapping_add(1);
        }
        count
    }

    /// The entry before that one.
    #[inline(always)]
    fn before(&self, entry: *mut u8) -> *mut u8 {
        let behind = if entry == self.entries {
            self.end
        } else {
            entry
        };
        behind.wrapping_sub(size_of::<T>())
    }

    /// Puts a mark with `id` where `index` is; false if the kernel has not taken what was there.
    pub(crate) fn mark(&mut self, index: u32, id: u64) -> bool {
        self.open(index).entry().mark(id)
    }

    /// Takes the mark away that stands where `index` is; false if it was flushed.
    pub(crate) fn unmark(&mut self, index: u32) -> bool {
        self.open(index).entry().unmark()
    }

    /// Whether a mark stands where `index` is.
    pub(crate) fn is_marked(&self, index: u32) -> bool {
        self.head(index).is_mark()
    }

    /// Takes a pending entry back from a kernel that does not look at the ring.
    ///
    /// Returns false if it was taken all the same.
    pub(crate) fn take_back(&mut self, index: u32) -> bool {
        self.replace(index, Head::TAKEN)
    }

    /// Turns a pending entry into a mark, likewise.
    pub(crate) fn take_back_for_mark(&mut self, index: u32, id: u64) -> bool {
        let taken = self.replace(index, Head::MARK);
        if taken {
            self.open(index).entry().write_id(id);
        }
        taken
    }

    fn replace(&mut self, index: u32, instead: Head) -> bool {
        let now = self.head(index);
        now.is_valid() && order::take_back_entry(self.word(index), now.word(), instead.word())
    }
}

#[cfg(test)]
mod tests {
    use kernel_abi::siw::flags;

    use super::*;

    fn ring() -> ValidRing<Rqe> {
        ValidRing::over(Mapping::anonymous(ValidRing::<Rqe>::bytes(4).unwrap()), 4).unwrap()
    }

    /// The kernel takes an entry: it copies it, then clears its flags.
    fn take(ring: &ValidRing<Rqe>, index: u32) -> Option<u64> {
        if !ring.is_pending(index) {
            return None;
        }
        // SAFETY: an entry inside the mapping, which this thread alone uses.
        let id = unsafe { ring.entry(index).cast::<u64>().read_unaligned() };
        ring.word(index)
            .store(Head::TAKEN.word(), std::sync::atomic::Ordering::SeqCst);
        Some(id)
    }

    #[test]
    fn entries_are_taken_in_turn_also_past_the_end() {
        let mut ring = ring();
        assert_eq!(ring.capacity(), 4);
        for index in 0..9 {
            assert_eq!(take(&ring, index), None);
            ring.open(index)
                .entry()
                .write_part::<0, _>(u64::from(index));
            assert!(!ring.is_pending(index));
            ring.open(index)
                .entry()
                .publish(Head::valid(flags::SIGNALLED, 1, 0));
            let next = index.wrapping_add(1);
            assert!(ring.is_pending(index) && ring.open(next).will_be_seen());
            assert_eq!(take(&ring, index), Some(u64::from(index)));
            assert!(!ring.is_pending(index) && !ring.open(next).will_be_seen());
        }
    }

    #[test]
    fn what_was_taken_cannot_be_taken_back() {
        let mut ring = ring();
        ring.open(0).entry().publish(Head::valid(0, 0, 0));
        ring.open(1).entry().publish(Head::valid(0, 0, 0));
        assert_eq!(take(&ring, 0), Some(0));
        assert!(!ring.take_back(0));
        assert!(ring.take_back(1));
        assert_eq!(take(&ring, 1), None);
    }

    #[test]
    fn a_mark_is_not_taken_and_gives_way() {
        let mut ring = ring();
        assert!(ring.mark(0, 99));
        assert!(ring.is_marked(0) && !ring.is_pending(0));
        assert_eq!(take(&ring, 0), None);
        ring.open(0).entry().write_part::<0, _>(1_u64);
        assert!(ring.is_marked(0));
        assert!(ring.mark(1, 99));
        assert!(ring.open(0).entry().publish_over_mark(Head::valid(0, 0, 0)));
        assert!(!ring.mark(0, 99));
        assert_eq!(take(&ring, 0), Some(1));
        assert!(ring.unmark(1) && !ring.unmark(1));
        assert!(!ring.open(1).entry().publish_over_mark(Head::valid(0, 0, 0)));
        ring.open(2).entry().publish(Head::valid(0, 0, 0));
        assert!(ring.take_back_for_mark(2, 99) && ring.is_marked(2));
    }

    #[test]
    fn an_impossible_count_is_refused() {
        for count in [0, 3, 8, 1 << 31] {
            let ring = ValidRing::<Rqe>::over(Mapping::anonymous(4 * size_of::<Rqe>()), count);
            assert_eq!(ring.err(), Some(Errno::EIO), "{count}");
        }
    }
}
