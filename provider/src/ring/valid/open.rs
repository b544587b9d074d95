// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause

//! Entries of siw's rings while we write them.

use std::marker::PhantomData;

use super::super::atomic::AtomicU32;
use super::super::{inline_data, order};
use super::{Head, ValidRing};
use crate::errno::{Errno, Result};

/// Entries that are ours to be written, one after the other, each until it is published.
///
/// # Invariants
///
/// `first` and `at` point to entries of `ring`.
#[derive(Debug)]
pub(crate) struct OpenEntries<'r, T> {
    pub(super) first: *mut u8,
    pub(super) at: *mut u8,
    pub(super) ring: &'r mut ValidRing<T>,
}

impl<T> OpenEntries<'_, T> {
    /// The entry that is to be written.
    #[inline(always)]
    pub(crate) fn entry(&mut self) -> OpenEntry<'_, T> {
        OpenEntry {
            at: self.at,
            _ring: PhantomData,
        }
    }

    /// Goes on to the entry behind it.
    #[inline(always)]
    pub(crate) fn pass(&mut self) {
        self.at = self.at.wrapping_add(size_of::<T>());
        if self.at == self.ring.end {
            self.at = self.ring.entries;
        }
    }

    /// The entry that is or was the first one to be written.
    #[inline(always)]
    pub(crate) fn first(&mut self) -> OpenEntry<'_, T> {
        OpenEntry {
            at: self.first,
            _ring: PhantomData,
        }
    }

    /// Whether none was passed.
    #[inline(always)]
    pub(crate) fn is_at_first(&self) -> bool {
        self.at == self.first
    }

    /// Has those that are [opened next](ValidRing::open_next) begin behind these that were passed.
    #[inline(always)]
    pub(crate) fn leave(&mut self) {
        self.ring.next = self.at;
    }

    /// Whether the kernel is sure to see what was just published without being told: it is while
    /// the entry published before the first of these is pending.
    #[inline(always)]
    pub(crate) fn will_be_seen(&self) -> bool {
        // SAFETY: an entry of the ring's.
        let older = unsafe { word_of(self.ring.before(self.first)) };
        Head::from_word(order::older_entry(older)).is_valid()
    }
}

/// The [`Head`] of an entry.
///
/// # Safety
///
/// It is in a mapping of a ring, which is there as long as the reference.
#[inline(always)]
#[expect(
    clippy::cast_ptr_alignment,
    reason = "entries are a multiple of 8 bytes in a page"
)]
pub(super) unsafe fn word_of<'r>(entry: *mut u8) -> &'r AtomicU32 {
    let word = entry.wrapping_add(Head::AT).cast::<u32>();
    // SAFETY: inside the mapping (the caller's promise), and aligned; both sides access it atomically.
    unsafe { AtomicU32::from_ptr(word) }
}

/// An entry that is ours to be written, in any order, until it is published.
///
/// # Invariants
///
/// `at` points to a `T` in the mapping, the first one aligned as a page.
#[derive(Debug)]
pub(crate) struct OpenEntry<'r, T> {
    at: *mut u8,
    _ring: PhantomData<&'r mut ValidRing<T>>,
}

impl<T> OpenEntry<'_, T> {
    /// The same entry, for somebody who writes some of it.
    #[inline(always)]
    pub(crate) fn reborrow(&mut self) -> OpenEntry<'_, T> {
        OpenEntry {
            at: self.at,
            _ring: PhantomData,
        }
    }

    #[inline(always)]
    fn word(&self) -> &AtomicU32 {
        // SAFETY: an entry of the ring's (invariant).
        unsafe { word_of(self.at) }
    }

    /// Writes the part of it that is `AT` bytes into it.
    ///
    /// Never the head: that of a mark stays. At a death the kernel reads the id of an entry with a mark, and
    /// whichever it finds will do; else it reads no entry that is not VALID.
    #[inline(always)]
    pub(crate) fn write_part<const AT: usize, V: Copy>(&mut self, value: V) {
        const {
            assert!(AT + size_of::<V>() <= Head::AT || AT >= Head::AT + size_of::<Head>());
            assert!(AT + size_of::<V>() <= size_of::<T>());
        };
        // SAFETY: inside an entry in the mapping (invariant).
        unsafe { self.at.wrapping_add(AT).cast::<V>().write_unaligned(value) };
    }

    /// Writes the values of a list that are `wanted` to an array of `COUNT` members that is `AT` bytes into it, one
    /// behind the other; how many.
    ///
    /// # Errors
    ///
    /// `EINVAL` if the list is longer than the array; what `wanted` says.
    #[inline(always)]
    pub(crate) fn write_list<const AT: usize, const COUNT: usize, V: Copy>(
        &mut self,
        list: &[V],
        mut wanted: impl FnMut(&V) -> Result<bool>,
    ) -> Result<u8> {
        const {
            assert!(AT >= Head::AT + size_of::<Head>());
            assert!(AT + COUNT * size_of::<V>() <= size_of::<T>());
        };
        if list.len() > COUNT {
            return Err(Errno::EINVAL);
        }
        let mut to = self.at.wrapping_add(AT).cast::<V>();
        let mut count = 0_u8;
        for value in list {
            if wanted(value)? {
                // SAFETY: inside the array (there are no more than it has members), which is inside an entry in the
                // mapping (invariant).
                unsafe { to.write_unaligned(*value) };
                to = to.wrapping_add(1);
                count = count.wrapping_add(1);
            }
        }
        Ok(count)
    }

    /// Writes `bytes` to an array of `LEN` bytes that is `AT` bytes into it, if they fit, and that is done quickly;
    /// whether they were written.
    #[inline(always)]
    pub(crate) fn write_bytes_quickly<const AT: usize, const LEN: usize>(
        &mut self,
        bytes: &[u8],
    ) -> bool {
        const { assert!(AT >= Head::AT + size_of::<Head>() && AT + LEN <= size_of::<T>()) };
        let to = self.at.wrapping_add(AT);
        // SAFETY: inside an entry in the mapping (checked first, and the invariant). The caller's memory is not
        // the mapping, to which no reference exists.
        bytes.len() <= LEN && unsafe { inline_data::copy_quickly(bytes, to) }
    }

    /// Writes `bytes`, which are `at` bytes into an array of `LEN` bytes that is `AT` bytes into it.
    ///
    /// # Errors
    ///
    /// `EINVAL` if they do not fit; nothing is written then.
    pub(crate) fn write_bytes<const AT: usize, const LEN: usize>(
        &mut self,
        at: usize,
        bytes: &[u8],
    ) -> Result<()> {
        const { assert!(AT >= Head::AT + size_of::<Head>() && AT + LEN <= size_of::<T>()) };
        if at.checked_add(bytes.len()).is_none_or(|end| end > LEN) {
            return Err(Errno::EINVAL);
        }
        let to = self.at.wrapping_add(AT).wrapping_add(at);
        // SAFETY: inside an entry in the mapping (just checked, and the invariant). The caller's memory is not
        // the mapping, to which no reference exists.
        unsafe { inline_data::copy(bytes, to) };
        Ok(())
    }

    /// Hands it to the kernel.
    #[inline(always)]
    pub(crate) fn publish(self, head: Head) {
        order::publish_entry(self.word(), head.word());
    }

    /// Hands it to the kernel as [`publish`](Self::publish) does, where the mark stands; false if the kernel has
    /// flushed that.
    #[inline(always)]
    pub(crate) fn publish_over_mark(self, head: Head) -> bool {
        order::publish_over_mark(self.word(), Head::MARK.word(), head.word())
    }

    /// Puts a mark with `id` there; false if the kernel has not taken what was there.
    #[inline(always)]
    pub(crate) fn mark(mut self, id: u64) -> bool {
        if !Head::from_word(order::entry(self.word())).is_taken() {
            return false;
        }
        self.write_id(id);
        self.publish(Head::MARK);
        true
    }

    /// Takes the mark away that stands there; false if it was flushed.
    pub(crate) fn unmark(self) -> bool {
        order::take_back_entry(self.word(), Head::MARK.word(), Head::TAKEN.word())
    }

    #[expect(
        clippy::cast_ptr_alignment,
        reason = "entries are a multiple of 8 bytes in a page"
    )]
    #[inline(always)]
    pub(super) fn write_id(&mut self, id: u64) {
        // SAFETY: an entry begins with its id and is inside the mapping (invariant). A kernel that
        // flushes it meanwhile finds the old one or this.
        unsafe { self.at.cast::<u64>().write_volatile(id) };
    }
}
