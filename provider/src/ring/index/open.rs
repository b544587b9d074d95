// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause

//! Slots of rxe's ring while we write them.

use std::marker::PhantomData;
use std::ptr;

use super::super::inline_data;
use super::{IndexRing, Word};
use crate::errno::{Errno, Result};

/// Slots that are ours to be written, one after the other, until they are published.
///
/// # Invariants
///
/// `at` points to a slot of `ring`.
#[derive(Debug)]
pub(crate) struct OpenSlots<'r, T> {
    pub(super) at: *mut u8,
    pub(super) ring: &'r mut IndexRing<T>,
}

impl<'r, T> OpenSlots<'r, T> {
    /// The ring that they are of, when all are written.
    #[inline(always)]
    pub(crate) fn ring(self) -> &'r mut IndexRing<T> {
        self.ring
    }

    /// The slot that is to be written.
    #[inline(always)]
    pub(crate) fn slot(&mut self) -> OpenSlot<'_, T> {
        OpenSlot {
            at: self.at,
            tail: self.ring.tail,
            _ring: PhantomData,
        }
    }

    /// Goes on to the slot behind it.
    #[inline(always)]
    pub(crate) fn pass(&mut self) {
        self.at = self.at.wrapping_add(self.ring.size);
        if self.at == self.ring.end {
            self.at = self.ring.slots;
        }
    }
}

/// A slot that is ours to be written, in any order, until it is published.
///
/// # Invariants
///
/// `at` points to a `T` in the mapping and `tail` bytes behind it.
#[derive(Debug)]
pub(crate) struct OpenSlot<'r, T> {
    at: *mut u8,
    tail: usize,
    _ring: PhantomData<&'r mut IndexRing<T>>,
}

impl<T> OpenSlot<'_, T> {
    /// Writes the part of its head that is `AT` bytes into it.
    #[inline(always)]
    pub(crate) fn write_part<const AT: usize, V: Copy>(&mut self, value: V) {
        const { assert!(AT + size_of::<V>() <= size_of::<T>()) };
        // SAFETY: inside a `T` in the mapping (invariant).
        unsafe { self.at.wrapping_add(AT).cast::<V>().write_unaligned(value) };
    }

    /// The word that is `AT` bytes into it, which the kernel may be writing once it is published.
    #[inline(always)]
    pub(crate) fn word<const AT: usize>(&self) -> Word<AT> {
        Word::of::<T>(self.at)
    }

    /// Has the word that is `AT` bytes into it be 0.
    #[inline(always)]
    pub(crate) fn reset_word<const AT: usize>(&mut self) {
        // SAFETY: a slot of a ring that is mapped.
        unsafe { self.word::<AT>().reset() };
    }

    /// Writes a value behind its head.
    ///
    /// # Errors
    ///
    /// `EINVAL` if it does not fit; nothing is written then.
    #[inline(always)]
    pub(crate) fn write_tail_part<V: Copy>(&mut self, value: &V) -> Result<()> {
        if size_of::<V>() > self.tail {
            return Err(Errno::EINVAL);
        }
        let to = self.at.wrapping_add(size_of::<T>());
        // SAFETY: inside the tail (just checked), which is in the mapping (invariant), to which no reference exists.
        unsafe { ptr::copy_nonoverlapping(ptr::from_ref(value).cast(), to, size_of::<V>()) };
        Ok(())
    }

    /// Writes a list behind its head, as far as `each` finds nothing wrong with an entry.
    ///
    /// # Errors
    ///
    /// `EINVAL` if the list does not fit; what `each` says.
    #[inline(always)]
    pub(crate) fn write_list<V: Copy>(
        &mut self,
        list: &[V],
        mut each: impl FnMut(&V) -> Result<()>,
    ) -> Result<()> {
        if size_of_val(list) > self.tail {
            return Err(Errno::EINVAL);
        }
        let mut to = self.at.wrapping_add(size_of::<T>()).cast::<V>();
        for value in list {
            each(value)?;
            // SAFETY: the list ends inside the tail (just checked), which is in the mapping (invariant).
            unsafe { to.write_unaligned(*value) };
            to = to.wrapping_add(1);
        }
        Ok(())
    }

    /// Writes `bytes` behind its head, if they fit, and that is done quickly; whether they were written.
    #[inline(always)]
    pub(crate) fn write_bytes_quickly(&mut self, bytes: &[u8]) -> bool {
        let to = self.at.wrapping_add(size_of::<T>());
        // SAFETY: inside the tail (checked first), which is in the mapping (invariant). The caller's memory is not
        // the mapping, to which no reference exists.
        bytes.len() <= self.tail && unsafe { inline_data::copy_quickly(bytes, to) }
    }

    /// Writes `bytes` behind its head, `at` bytes into the tail.
    ///
    /// # Errors
    ///
    /// `EINVAL` if they do not fit; nothing is written then.
    pub(crate) fn write_tail(&mut self, at: usize, bytes: &[u8]) -> Result<()> {
        if at
            .checked_add(bytes.len())
            .is_none_or(|end| end > self.tail)
        {
            return Err(Errno::EINVAL);
        }
        let to = self.at.wrapping_add(size_of::<T>()).wrapping_add(at);
        // SAFETY: `at + len` is inside the tail (just checked), which is in the mapping (invariant). The
        // caller's memory is not the mapping, to which no reference exists.
        unsafe { inline_data::copy(bytes, to) };
        Ok(())
    }
}
