// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause

//! rxe's ring as its consumer reads it: a CQ.

use std::marker::PhantomData;
use std::mem::MaybeUninit;
use std::ptr;

use zerocopy::FromBytes;

use super::super::order;
use super::IndexRing;

/// A ring that the kernel fills, and the slot that is to be read next.
///
/// # Invariants
///
/// `next` is masked, and `at` points to the slot that it names.
#[derive(Debug)]
pub(crate) struct Reader<T> {
    ring: IndexRing<T>,
    next: u32,
    at: *const u8,
}

// SAFETY: as the ring, into whose mapping the pointer leads.
unsafe impl<T: Send> Send for Reader<T> {}

impl<T: Copy + FromBytes> Reader<T> {
    /// Goes on from where the kernel believes that its consumer is.
    pub(crate) fn new(ring: IndexRing<T>) -> Self {
        let next = ring.consumer();
        Self {
            at: ring.slot(next),
            next,
            ring,
        }
    }

    pub(crate) fn ring(&self) -> &IndexRing<T> {
        &self.ring
    }

    pub(crate) fn ring_mut(&mut self) -> &mut IndexRing<T> {
        &mut self.ring
    }

    /// The index of the slot that is to be read next, masked.
    pub(crate) fn next(&self) -> u32 {
        self.next
    }

    /// How many slots the kernel has published from there on.
    #[inline(always)]
    pub(crate) fn filled(&self) -> u32 {
        let produced = order::kernel_index(self.ring.producer_word());
        produced.wrapping_sub(self.next) & self.ring.mask
    }

    /// The slot that is to be read next, which the kernel has published.
    #[inline(always)]
    pub(crate) fn slot(&self) -> Slot<'_, T> {
        Slot {
            at: self.at,
            _ring: PhantomData,
        }
    }

    /// Where the slot is that is to be read next, which the kernel has published.
    #[inline(always)]
    pub(crate) fn found(&self) -> Found {
        Found(self.at)
    }

    /// The slot that was found.
    ///
    /// # Safety
    ///
    /// This reader has found it, and not passed it.
    #[inline(always)]
    pub(crate) unsafe fn slot_found(&self, found: Found) -> Slot<'_, T> {
        Slot {
            at: found.0,
            _ring: PhantomData,
        }
    }

    /// Goes on to the one behind that which was found.
    ///
    /// # Safety
    ///
    /// As above.
    #[inline(always)]
    pub(crate) unsafe fn pass_found(&mut self, found: Found) {
        self.go_on(1, found.0.wrapping_add(self.ring.size));
    }

    /// The slots from there on, of which the kernel has published `count`, or those of them up to the last of the ring,
    /// to be gone through.
    #[inline(always)]
    pub(crate) fn published(&mut self, count: u32) -> Published<'_, T> {
        let to_end = self.ring.mask.wrapping_sub(self.next).wrapping_add(1);
        Published {
            at: self.at,
            left: count.min(to_end),
            reader: self,
        }
    }

    /// Goes on to the one behind it.
    #[inline(always)]
    pub(crate) fn pass(&mut self) {
        // SAFETY: just found.
        unsafe { self.pass_found(self.found()) };
    }

    /// Goes on to the one that is `count` behind it, and at `at` or, if that is the end, the first.
    #[inline(always)]
    fn go_on(&mut self, count: u32, at: *const u8) {
        self.next = self.next.wrapping_add(count) & self.ring.mask;
        self.at = if ptr::eq(at, self.ring.end) {
            self.ring.slots
        } else {
            at
        };
    }

    /// Hands the slots that were passed back to the kernel.
    #[inline(always)]
    pub(crate) fn give_back(&mut self) {
        order::publish_index(self.ring.consumer_word(), self.next);
    }
}

/// Where a reader's next slot is: kept in mind, it is not asked for again.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Found(*const u8);

/// Slots that the kernel has published.
///
/// # Invariants
///
/// `at` points to the slot that is so far behind the reader's as were [passed](Self::pass) of `left`, or to the end of
/// the ring.
#[derive(Debug)]
pub(crate) struct Published<'r, T> {
    at: *const u8,
    left: u32,
    reader: &'r mut Reader<T>,
}

impl<T: Copy + FromBytes> Published<'_, T> {
    /// How many there are in the beginning.
    pub(crate) fn left(&self) -> u32 {
        self.left
    }

    /// The next one.
    ///
    /// # Safety
    ///
    /// It is one of those that are [left](Self::left).
    #[inline(always)]
    pub(crate) unsafe fn slot(&self) -> Slot<'_, T> {
        Slot {
            at: self.at,
            _ring: PhantomData,
        }
    }

    /// Goes on to the one behind it.
    #[inline(always)]
    pub(crate) fn pass(&mut self) {
        self.at = self.at.wrapping_add(self.reader.ring.size);
    }

    /// Has the reader go on behind those that were passed, which are `count`.
    ///
    /// # Safety
    ///
    /// So many they are.
    #[inline(always)]
    pub(crate) unsafe fn end(self, count: u32) {
        self.reader.go_on(count, self.at);
    }
}

/// A slot that the kernel has published.
///
/// # Invariants
///
/// `at` points to a `T` in the mapping.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Slot<'r, T> {
    at: *const u8,
    _ring: PhantomData<&'r IndexRing<T>>,
}

impl<T> Slot<'_, T> {
    /// Copies the bytes of its `T` to where another form of it is wanted, of the same size.
    #[inline(always)]
    pub(crate) fn copy_to<V: Copy>(self, to: &mut MaybeUninit<V>) {
        const { assert!(size_of::<V>() == size_of::<T>()) };
        // SAFETY: a `T` in the mapping (invariant), which has the size of a `V`; no reference to the mapping
        // exists. The kernel does not write it before we give it back.
        unsafe { ptr::copy_nonoverlapping(self.at, to.as_mut_ptr().cast(), size_of::<T>()) };
    }

    /// Reads the `V` that is `AT` bytes into it.
    #[inline(always)]
    pub(crate) fn read_part<const AT: usize, V: Copy + FromBytes>(self) -> V {
        const { assert!(AT + size_of::<V>() <= size_of::<T>()) };
        // SAFETY: inside a `T` in the mapping (invariant), of which any bytes will do (`FromBytes`); the kernel
        // does not write it before we give it back.
        unsafe { self.at.wrapping_add(AT).cast::<V>().read_unaligned() }
    }
}
