// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause

//! Where a ledger has its entries: the only unsafe code of the ledgers, which asks once, when they are made, what a
//! slice would be asked for each work request.

use std::ptr::NonNull;
use std::slice;

use crate::errno::{Errno, Result};

/// Entries in a circle, each at the place that its name ends in.
///
/// # Invariants
///
/// `first` points to `mask + 1` of them, a power of two, which are a box of this value's.
#[derive(Debug)]
pub(super) struct Entries<E> {
    first: NonNull<E>,
    mask: u32,
}

// SAFETY: it owns its entries, as a box does.
unsafe impl<E: Send> Send for Entries<E> {}
// SAFETY: as above.
unsafe impl<E: Sync> Sync for Entries<E> {}

impl<E: Default> Entries<E> {
    /// `count` entries, rounded up to a power of two.
    ///
    /// # Errors
    ///
    /// `ENOMEM` if the memory cannot be had, `EINVAL` if no power of two is large enough.
    pub(super) fn new(count: u32) -> Result<Self> {
        let count = count
            .max(1)
            .checked_next_power_of_two()
            .ok_or(Errno::EINVAL)?;
        let len = usize::try_from(count).map_err(|_| Errno::EINVAL)?;
        let mut entries = Vec::new();
        entries.try_reserve_exact(len)?;
        entries.resize_with(len, E::default);
        let first = NonNull::from(Box::leak(entries.into_boxed_slice())).cast();
        let mask = count.wrapping_sub(1);
        Ok(Self { first, mask })
    }
}

impl<E> Entries<E> {
    /// How many there are.
    pub(super) fn count(&self) -> u32 {
        self.mask.wrapping_add(1)
    }

    #[inline(always)]
    fn at(&self, name: u32) -> NonNull<E> {
        // CAST: u32 fits usize on every target that libibverbs supports.
        let at = (name & self.mask) as usize;
        // SAFETY: there are more than the mask (invariant).
        unsafe { self.first.add(at) }
    }

    /// The one of this name.
    #[inline(always)]
    pub(super) fn get(&self, name: u32) -> &E {
        // SAFETY: one of them, which are borrowed as `self` is.
        unsafe { self.at(name).as_ref() }
    }

    /// The one of this name.
    #[inline(always)]
    pub(super) fn get_mut(&mut self, name: u32) -> &mut E {
        // SAFETY: as above.
        unsafe { self.at(name).as_mut() }
    }

    /// The one of this name and those behind it, as many as stand one behind the other.
    #[inline(always)]
    pub(super) fn from(&self, name: u32) -> &[E] {
        let count = self.mask.wrapping_sub(name & self.mask).wrapping_add(1);
        // CAST: as above.
        // SAFETY: so many there are up to the last one (invariant), borrowed as `self` is.
        unsafe { slice::from_raw_parts(self.at(name).as_ptr(), count as usize) }
    }

    /// The same, but `count` at most.
    #[inline(always)]
    pub(super) fn run(&self, name: u32, count: u32) -> &[E] {
        let all = self.from(name);
        // CAST: as above.
        all.get(..count as usize).unwrap_or(all)
    }

    /// As [`run`](Self::run).
    #[inline(always)]
    pub(super) fn run_mut(&mut self, name: u32, count: u32) -> &mut [E] {
        let count = self.run(name, count).len();
        // SAFETY: as in `run`.
        unsafe { slice::from_raw_parts_mut(self.at(name).as_ptr(), count) }
    }

    /// All of them, from the place of name 0 on.
    pub(super) fn all(&self) -> &[E] {
        self.from(0)
    }
}

impl<E> Drop for Entries<E> {
    fn drop(&mut self) {
        // CAST: as above.
        let len = self.count() as usize;
        let all = NonNull::slice_from_raw_parts(self.first, len);
        // SAFETY: `new` has made it of a box (invariant).
        drop(unsafe { Box::from_raw(all.as_ptr()) });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_entry_is_found_by_any_name_that_ends_alike() {
        let mut entries = Entries::<u64>::new(5).unwrap();
        assert_eq!(entries.count(), 8);
        for name in 6..14 {
            *entries.get_mut(name) = name.into();
        }
        assert_eq!(*entries.get(6), 6);
        assert_eq!(*entries.get(u32::MAX), 7);
        assert_eq!(entries.run(6, 5), [6, 7]);
        assert_eq!(entries.run(9, 3), [9, 10, 11]);
        assert_eq!(entries.run(9, 0), []);
        assert_eq!(entries.from(14), [6, 7]);
        assert_eq!(entries.all(), [8, 9, 10, 11, 12, 13, 6, 7]);
    }

    #[test]
    fn there_is_always_one() {
        let entries = Entries::<u64>::new(0).unwrap();
        assert_eq!((entries.count(), *entries.get(u32::MAX)), (1, 0));
        assert_eq!(Entries::<u64>::new(u32::MAX).err(), Some(Errno::EINVAL));
    }
}
