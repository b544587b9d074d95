// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause

//! siw's CQ: entries that a VALID flag hands to us, and the word that arms the CQ.
//!
//! linux 6.1 `include/uapi/rdma/siw-abi.h`, `siw_qp.c: siw_sqe_complete, siw_rqe_complete,
//! siw_cq_notify_now`.

use std::marker::PhantomData;
use std::mem::offset_of;
use std::os::fd::RawFd;
use std::ptr;
use std::sync::Arc;

use kernel_abi::siw::{CqCtrl, Cqe, flags, notify};
use zerocopy::{FromBytes, FromZeros};

use super::atomic::AtomicU32;
use super::map::Mapping;
use super::order;
use crate::errno::{Errno, Result};

/// The flags of a [`Cqe`], its opcode and its status: read as one word.
#[derive(Debug, Clone, Copy)]
struct Head(u32);

const _: () = {
    assert!(offset_of!(Cqe, flags) == Head::AT && offset_of!(Cqe, status) == Head::AT + 2);
    assert!(Head::AT.is_multiple_of(align_of::<u32>()));
};

impl Head {
    /// How many bytes into a CQE it is.
    const AT: usize = 8;
    /// VALID in the one byte of flags that a CQE has.
    const VALID: u8 = {
        assert!(flags::VALID == 1);
        1
    };

    /// That of a CQE with this status, which the kernel has written.
    const fn valid(status: u16) -> Self {
        let [low, high] = status.to_ne_bytes();
        Self(u32::from_ne_bytes([Self::VALID, 0, low, high]))
    }

    /// Whether the kernel has written it.
    #[inline(always)]
    fn is_valid(self) -> bool {
        let [flags, ..] = self.0.to_ne_bytes();
        flags & Self::VALID != 0
    }

    /// Whether the kernel has written it, with this status.
    #[inline(always)]
    fn is_valid_with(self, status: u16) -> bool {
        const SEEN: u32 = u32::from_ne_bytes([Head::VALID, 0, 0xff, 0xff]);
        self.0 & SEEN == Self::valid(status).0
    }
}

/// Bytes of a CQE, as a power of two.
const CQE_SHIFT: u32 = size_of::<Cqe>().ilog2();
const _: () = assert!(size_of::<Cqe>() == 1 << CQE_SHIFT);

/// A mapped CQ.
///
/// # Invariants
///
/// `entries` points to `mask + 1` entries and a [`CqCtrl`] inside `map`; `mask + 1` is a power of
/// two. The other pointers are to entries: `last` is the one before `at`.
#[derive(Debug)]
pub(crate) struct ValidCq {
    entries: *mut u8,
    control: *mut u32,
    mask: u32,
    /// The entry to be read next.
    at: *mut u8,
    last: *mut u8,
    /// How many were read since the batch began.
    in_batch: u32,
    /// The entry before the last batch, or before the next one as it was when that was looked for.
    before_last_batch: *mut u8,
    was_full: bool,
    /// Held for its memory.
    map: Arc<Mapping>,
}

// SAFETY: the pointers lead into the mapping, which the ring holds and which is not tied to a
// thread.
unsafe impl Send for ValidCq {}

impl ValidCq {
    /// Maps the CQ of `count` entries that a create command answered with.
    ///
    /// # Errors
    ///
    /// `EIO` if the answer is impossible; else what `mmap(2)` says.
    pub(crate) fn map(cmd_fd: RawFd, key: u64, count: u32) -> Result<Self> {
        Self::over(Mapping::new(cmd_fd, key, Self::bytes(count)?.1)?, count)
    }

    /// Bytes up to the control word, and with it.
    fn bytes(count: u32) -> Result<(usize, usize)> {
        if !count.is_power_of_two() {
            return Err(Errno::EIO);
        }
        let count = usize::try_from(count).map_err(|_| Errno::EIO)?;
        let entries = count.checked_mul(size_of::<Cqe>()).ok_or(Errno::EIO)?;
        let all = entries.checked_add(size_of::<CqCtrl>()).ok_or(Errno::EIO)?;
        Ok((entries, all))
    }

    fn over(map: Mapping, count: u32) -> Result<Self> {
        let (control, all) = Self::bytes(count)?;
        let entries = map.span(0, all)?;
        let control = map.span(control, size_of::<u32>())?.cast();
        let mut cq = Self {
            entries,
            control,
            mask: count.wrapping_sub(1),
            at: entries,
            last: entries,
            in_batch: 0,
            before_last_batch: entries,
            was_full: false,
            map: Arc::new(map),
        };
        cq.last = cq.entry(u32::MAX);
        cq.before_last_batch = cq.last;
        Ok(cq)
    }

    fn entry(&self, index: u32) -> *mut u8 {
        // CAST: u32 fits usize on every target that libibverbs supports.
        self.entries
            .wrapping_add(((index & self.mask) as usize).wrapping_mul(size_of::<Cqe>()))
    }

    /// The index of the next entry, masked.
    fn next_index(&self) -> u32 {
        let bytes = self.at.addr().wrapping_sub(self.entries.addr());
        #[expect(clippy::cast_possible_truncation, reason = "a u32 counts the entries")]
        {
            (bytes >> CQE_SHIFT) as u32
        }
    }

    #[cfg(test)]
    fn word(&self, index: u32) -> &AtomicU32 {
        // SAFETY: an entry.
        unsafe { word_of(self.entry(index)) }
    }

    /// How many CQEs it can hold.
    pub(crate) fn capacity(&self) -> u32 {
        self.mask.wrapping_add(1)
    }

    /// The CQE that is `ahead` entries from the next one, if the kernel has written it.
    pub(crate) fn peek(&self, ahead: u32) -> Option<Cqe> {
        let at = self.entry(self.next_index().wrapping_add(ahead));
        // SAFETY: an entry.
        let head = unsafe { head_of(at) };
        if ahead > self.mask || !head.is_valid() {
            return None;
        }
        let mut cqe = Cqe::new_zeroed();
        // SAFETY: inside the mapping (invariant); the kernel does not write a VALID entry, and any
        // bytes make a `Cqe`.
        unsafe {
            let to = ptr::from_mut(&mut cqe).cast::<u8>();
            ptr::copy_nonoverlapping(at, to, size_of::<Cqe>());
        }
        Some(cqe)
    }

    /// The next CQE, if the kernel has written it.
    #[inline(always)]
    pub(crate) fn next(&self) -> Option<Written<'_>> {
        let at = self.at;
        // SAFETY: an entry (invariant).
        let is_valid = unsafe { head_of(at) }.is_valid();
        is_valid.then_some(Written {
            at,
            _ring: PhantomData,
        })
    }

    /// The next CQE, which is valid.
    #[inline(always)]
    pub(crate) fn written(&self) -> Written<'_> {
        Written {
            at: self.at,
            _ring: PhantomData,
        }
    }

    /// Where the next CQE is, which is valid.
    #[inline(always)]
    pub(crate) fn found(&self) -> Found {
        Found(self.at)
    }

    /// The CQE that was found.
    ///
    /// # Safety
    ///
    /// This ring has found it, and not given it back.
    #[inline(always)]
    pub(crate) unsafe fn written_at(&self, found: Found) -> Written<'_> {
        Written {
            at: found.0,
            _ring: PhantomData,
        }
    }

    /// Whether the kernel has not written the CQE behind the next one.
    #[inline(always)]
    pub(crate) fn is_last(&self) -> bool {
        // SAFETY: an entry.
        !unsafe { head_of(self.behind(self.at)) }.is_valid()
    }

    /// The next CQEs, as far as the last entry of the ring, to be gone through and given back.
    #[inline(always)]
    pub(crate) fn next_ones(&mut self) -> NextOnes<'_> {
        if self.in_batch == 0 {
            self.look_back();
        }
        let bytes = self.control.addr().wrapping_sub(self.at.addr());
        NextOnes {
            at: self.at,
            left: bytes >> CQE_SHIFT,
            ring: self,
        }
    }

    /// Gives the next entry back to the kernel.
    #[inline(always)]
    pub(crate) fn advance(&mut self) {
        if self.in_batch == 0 {
            self.look_back();
        }
        self.in_batch = self.in_batch.wrapping_add(1);
        self.pass(self.at);
    }

    /// Gives the next entry back to the kernel, which is a batch of its own, the kernel having not
    /// [come round](Self::has_come_round). Where it [may](Self::may_advance_alone).
    #[inline(always)]
    ///
    /// # Safety
    ///
    /// It was [found](Self::found), and not given back.
    pub(crate) unsafe fn advance_alone(&mut self, found: Found) {
        self.before_last_batch = self.last;
        self.pass(found.0);
    }

    /// Gives the next entry back, which is `at` this place.
    #[inline(always)]
    fn pass(&mut self, at: *mut u8) {
        // SAFETY: an entry (invariant).
        order::return_cqe(unsafe { word_of(at) });
        self.last = at;
        self.at = self.behind(at);
    }

    /// The entry behind that one.
    #[inline(always)]
    fn behind(&self, entry: *mut u8) -> *mut u8 {
        self.or_first(entry.wrapping_add(size_of::<Cqe>()))
    }

    /// The entry there, or the first one, if that is the end of the ring.
    #[inline(always)]
    fn or_first(&self, behind: *mut u8) -> *mut u8 {
        // The control word stands behind the last one.
        if ptr::eq(behind, self.control.cast()) {
            self.entries
        } else {
            behind
        }
    }

    /// Begins a batch.
    #[inline(always)]
    fn look_back(&mut self) {
        self.was_full |= self.has_come_round();
        self.before_last_batch = self.last;
    }

    /// Whether the kernel has come round to the last batch, where no other is being read.
    ///
    /// If it has found an entry of that one not given back yet, it had filled all before it, first of
    /// all the one before the batch. That was given back before the lock of the CQ was taken again, a
    /// barrier that is followed by this load; and nobody has read it since.
    #[inline(always)]
    pub(crate) fn has_come_round(&self) -> bool {
        // SAFETY: an entry (invariant).
        unsafe { head_of(self.before_last_batch) }.is_valid()
    }

    /// What was read since the last call was one batch.
    pub(crate) fn end_batch(&mut self) {
        if self.in_batch > 0 {
            self.was_full |= self.in_batch >= self.mask;
            self.in_batch = 0;
        }
    }

    /// Whether the next CQE may be a [batch of its own](Self::advance_alone): that takes a ring which it does not fill.
    pub(crate) fn may_advance_alone(&self) -> bool {
        self.in_batch == 0 && self.mask > 1
    }

    /// Whether there may have been no free entry since [`forget_full`](Self::forget_full).
    pub(crate) fn was_full(&self) -> bool {
        self.was_full
    }

    pub(crate) fn forget_full(&mut self) {
        self.was_full = false;
    }

    /// Overwrites the `id` of a CQE that [`peek`](Self::peek) found `ahead` entries on.
    pub(crate) fn overwrite_id(&mut self, ahead: u32, id: u64) {
        let at = self
            .entry(self.next_index().wrapping_add(ahead))
            .wrapping_add(offset_of!(Cqe, id));
        // SAFETY: inside the mapping (invariant); the kernel does not touch a VALID entry.
        unsafe { at.cast::<u64>().write_unaligned(id) };
    }

    /// What asks for an event at its next completion.
    pub(crate) fn notify(&self) -> Notify {
        Notify {
            word: self.control,
            _map: Arc::clone(&self.map),
        }
    }
}

/// The word of a CQ that asks for an event.
///
/// # Invariants
///
/// `word` points into the mapping.
#[derive(Debug)]
pub(crate) struct Notify {
    word: *mut u32,
    /// Held for its memory.
    _map: Arc<Mapping>,
}

// SAFETY: the pointer leads into the mapping, which is not tied to a thread; the word is accessed atomically.
unsafe impl Send for Notify {}
// SAFETY: as above.
unsafe impl Sync for Notify {}

impl Notify {
    /// Asks for an event at the next completion. The CQ [is armed](crate::cq) behind that, which is a full barrier.
    #[inline(always)]
    pub(crate) fn arm(&self) {
        // SAFETY: inside the mapping (invariant) and aligned (entries are a multiple of 8 bytes);
        // both sides access the word atomically.
        let word = unsafe { AtomicU32::from_ptr(self.word) };
        order::arm(word, notify::SOLICITED | notify::NEXT_COMPLETION);
    }
}

/// The [`Head`] of an entry.
///
/// # Safety
///
/// It is one of a ring that is mapped, as long as it is used.
#[inline(always)]
unsafe fn word_of<'r>(entry: *mut u8) -> &'r AtomicU32 {
    // SAFETY: the caller's promise, and aligned; both sides access the flags in it atomically.
    unsafe { AtomicU32::from_ptr(entry.wrapping_add(Head::AT).cast()) }
}

/// What the [`Head`] of an entry is now.
///
/// # Safety
///
/// As of [`word_of`].
#[inline(always)]
unsafe fn head_of(entry: *mut u8) -> Head {
    // SAFETY: the caller's promise.
    Head(order::cqe(unsafe { word_of(entry) }))
}

/// Where a ring's next CQE is: kept in mind, it is not asked for again.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Found(*mut u8);

/// The next CQEs of a ring.
///
/// # Invariants
///
/// `at` points to the entry that is so far behind the ring's next one as were [given back](Self::give_back) of `left`,
/// or to the end of the entries.
#[derive(Debug)]
pub(crate) struct NextOnes<'r> {
    at: *mut u8,
    left: usize,
    ring: &'r mut ValidCq,
}

impl NextOnes<'_> {
    /// How many there are in the beginning up to the end of the ring, written or not.
    pub(crate) fn left(&self) -> usize {
        self.left
    }

    /// The next CQE, if the kernel has written it, with this status.
    ///
    /// # Safety
    ///
    /// It is one of those that are [left](Self::left).
    #[inline(always)]
    pub(crate) unsafe fn get(&self, status: u16) -> Option<Written<'_>> {
        // SAFETY: an entry in the mapping (the caller's promise).
        let is_valid = unsafe { head_of(self.at) }.is_valid_with(status);
        is_valid.then_some(Written {
            at: self.at,
            _ring: PhantomData,
        })
    }

    /// Gives it back to the kernel, and goes on to the one after it.
    ///
    /// # Safety
    ///
    /// As [`get`](Self::get).
    #[inline(always)]
    pub(crate) unsafe fn give_back(&mut self) {
        // SAFETY: as above.
        order::return_cqe(unsafe { word_of(self.at) });
        self.at = self.at.wrapping_add(size_of::<Cqe>());
    }

    /// Has the ring go on behind those that were given back, which are `count`.
    ///
    /// # Safety
    ///
    /// So many they are.
    #[inline(always)]
    pub(crate) unsafe fn end(self, count: u32) {
        if count > 0 {
            let ring = self.ring;
            ring.in_batch = ring.in_batch.wrapping_add(count);
            ring.last = self.at.wrapping_sub(size_of::<Cqe>());
            ring.at = ring.or_first(self.at);
        }
    }
}

/// A CQE that the kernel has written.
///
/// # Invariants
///
/// `at` points to an entry in the mapping, which is valid until it is given back.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Written<'r> {
    at: *const u8,
    _ring: PhantomData<&'r ValidCq>,
}

impl Written<'_> {
    /// Reads the `V` that is `AT` bytes into it.
    #[inline(always)]
    pub(crate) fn read_part<const AT: usize, V: Copy + FromBytes>(self) -> V {
        const { assert!(AT + size_of::<V>() <= size_of::<Cqe>()) };
        // SAFETY: inside an entry, which is inside the mapping (invariant); the kernel does not write a
        // VALID one, and any bytes make a `V`.
        unsafe { self.at.wrapping_add(AT).cast::<V>().read_unaligned() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::Ordering;

    fn cq() -> ValidCq {
        let (_, len) = ValidCq::bytes(4).unwrap();
        ValidCq::over(Mapping::anonymous(len), 4).unwrap()
    }

    /// The kernel writes a CQE, if the entry is free.
    fn complete(cq: &ValidCq, index: u32, id: u64) -> bool {
        if cq.word(index).load(Ordering::SeqCst) != 0 {
            return false;
        }
        // SAFETY: an entry inside the mapping, which this thread alone uses.
        unsafe { cq.entry(index).cast::<u64>().write_unaligned(id) };
        cq.word(index).store(Head::valid(0).0, Ordering::SeqCst);
        true
    }

    #[test]
    fn cqes_are_read_in_turn_also_past_the_end() {
        let mut cq = cq();
        assert_eq!(cq.capacity(), 4);
        assert_eq!(cq.peek(0), None);
        for index in 0..9 {
            assert!(complete(&cq, index, u64::from(index)));
            assert_eq!(cq.peek(0).map(|cqe| cqe.id), Some(u64::from(index)));
            cq.advance();
            assert_eq!(cq.peek(0), None);
        }
    }

    #[test]
    fn a_full_cq_can_be_looked_through_and_voided() {
        let mut cq = cq();
        for index in 0..4 {
            assert!(complete(&cq, index, 7));
        }
        assert!(!complete(&cq, 4, 7));
        cq.overwrite_id(2, 0);
        let ids: Vec<_> = (0..6)
            .map_while(|ahead| cq.peek(ahead))
            .map(|cqe| cqe.id)
            .collect();
        assert_eq!(ids, [7, 7, 0, 7]);
    }

    /// Whether it was full, seen by polls that read `polls` CQEs each, of a kernel that fills what is free
    /// at each end of a poll.
    fn is_seen_full(fill: u32, polls: &[u32]) -> bool {
        let mut cq = cq();
        let (mut put, mut read) = (0, 0_u32);
        let mut seen = false;
        for count in polls {
            while put < read.wrapping_add(fill) && complete(&cq, put, 7) {
                put = put.wrapping_add(1);
            }
            for _ in 0..*count {
                if cq.peek(0).is_some() {
                    cq.advance();
                    read = read.wrapping_add(1);
                }
            }
            cq.end_batch();
            seen |= cq.was_full();
            cq.forget_full();
        }
        seen
    }

    #[test]
    fn a_full_cq_is_noticed_however_it_is_polled() {
        assert!(is_seen_full(4, &[1]));
        assert!(is_seen_full(4, &[3, 1]));
        assert!(is_seen_full(4, &[4]));
        assert!(!is_seen_full(2, &[1, 1, 1, 1, 1]));
        assert!(!is_seen_full(1, &[1, 0, 1, 4]));
    }

    /// The kernel finds the CQ full in the middle of a poll, and it is not when the next one begins.
    #[test]
    fn a_cq_that_is_full_during_a_poll_is_noticed_by_the_next() {
        let mut cq = cq();
        assert!((0..3).all(|index| complete(&cq, index, 7)));
        cq.advance();
        assert!((3..5).all(|index| complete(&cq, index, 7)));
        assert!(!complete(&cq, 5, 7));
        cq.advance();
        cq.end_batch();
        assert!(!cq.was_full());
        cq.advance();
        assert!(cq.was_full());
    }

    #[test]
    fn arming_asks_for_any_completion() {
        let cq = cq();
        cq.notify().arm();
        // SAFETY: the control word, inside the mapping, which this thread alone uses.
        let word = unsafe { cq.control.read() };
        assert_eq!(word, notify::SOLICITED | notify::NEXT_COMPLETION);
    }

    #[test]
    fn an_impossible_count_is_refused() {
        let (_, len) = ValidCq::bytes(4).unwrap();
        for count in [0, 3, 8, 1 << 31] {
            let cq = ValidCq::over(Mapping::anonymous(len), count);
            assert_eq!(cq.err(), Some(Errno::EIO), "{count}");
        }
    }
}
