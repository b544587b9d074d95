// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause

//! rxe's ring: a header with two indices, then power-of-two slots.
//!
//! linux 6.1 `drivers/infiniband/sw/rxe/rxe_queue.h`. Indices are kept masked. One slot stays
//! empty, so that equal indices mean an empty ring. The kernel keeps its own copy of the index it
//! owns and trusts only the other one.

mod open;
mod reader;
mod word;

use std::marker::PhantomData;
use std::os::fd::RawFd;

use kernel_abi::rxe::{MmapInfo, queue};
use zerocopy::FromBytes;

use super::atomic::AtomicU32;
use super::map::Mapping;
use super::order;
use crate::errno::{Errno, Result};

pub(crate) use open::{OpenSlot, OpenSlots};
pub(crate) use reader::{Found, Reader, Slot};
pub(crate) use word::Word;

/// A mapped ring whose slots begin with a `T`.
///
/// # Invariants
///
/// `slots` points to `mask + 1` slots of `size` bytes, which is `1 << shift`, all inside `map` and up to `end`;
/// `mask + 1` is a power of two; a slot holds a `T` and at least `tail` bytes behind it. `producer` and `consumer`
/// point into `map`.
#[derive(Debug)]
pub(crate) struct IndexRing<T> {
    slots: *mut u8,
    end: *mut u8,
    size: usize,
    shift: u32,
    mask: u32,
    tail: usize,
    producer: *mut u32,
    consumer: *mut u32,
    /// Held for its memory.
    _map: Mapping,
    _slot: PhantomData<T>,
}

// SAFETY: the pointers lead into the mapping, which the ring owns and which is not tied to a
// thread; slots are reached through `&mut self` or under the lock of the queue.
unsafe impl<T: Send> Send for IndexRing<T> {}

impl<T: Copy + FromBytes> IndexRing<T> {
    /// Maps the ring that a create or resize command answered with.
    ///
    /// # Errors
    ///
    /// `EIO` if the answer or the ring's header are impossible; else what `mmap(2)` says.
    pub(crate) fn map(cmd_fd: RawFd, info: &MmapInfo) -> Result<Self> {
        let len = usize::try_from(info.size).map_err(|_| Errno::EIO)?;
        Self::over(Mapping::new(cmd_fd, info.offset, len)?)
    }

    fn over(map: Mapping) -> Result<Self> {
        let word = |offset: usize| {
            map.span(offset, size_of::<u32>())
                .map(<*mut u8>::cast::<u32>)
        };
        let header = |offset: usize| -> Result<u32> {
            let at = word(offset)?;
            // SAFETY: `span` checked the bounds; mappings are page aligned and the offsets are
            // multiples of 4. The kernel wrote the word before it offered the ring and leaves it.
            Ok(unsafe { at.read_volatile() })
        };
        let shift = header(queue::LOG2_ELEM_SIZE)?;
        let mask = header(queue::INDEX_MASK)?;
        let count = mask
            .checked_add(1)
            .filter(|n| n.is_power_of_two())
            .ok_or(Errno::EIO)?;
        let size = 1_usize.checked_shl(shift).ok_or(Errno::EIO)?;
        let tail = size.checked_sub(size_of::<T>()).ok_or(Errno::EIO)?;
        let count = usize::try_from(count).map_err(|_| Errno::EIO)?;
        let bytes = size.checked_mul(count).ok_or(Errno::EIO)?;
        if size < align_of::<T>() {
            return Err(Errno::EIO);
        }
        let slots = map.span(queue::DATA, bytes)?;
        Ok(Self {
            slots,
            end: slots.wrapping_add(bytes),
            size,
            shift,
            mask,
            tail,
            producer: word(queue::PRODUCER_INDEX)?,
            consumer: word(queue::CONSUMER_INDEX)?,
            _map: map,
            _slot: PhantomData,
        })
    }

    /// How many slots can be in use at a time: one less than there are.
    pub(crate) fn capacity(&self) -> u32 {
        self.mask
    }

    /// Bytes of a slot behind its `T`, of those that are used.
    pub(crate) fn tail_bytes(&self) -> usize {
        self.tail
    }

    /// Has no more than `bytes` of a slot be used behind its `T`.
    ///
    /// # Errors
    ///
    /// `EIO` if a slot has fewer.
    pub(crate) fn with_tail(self, bytes: usize) -> Result<Self> {
        if bytes > self.tail {
            return Err(Errno::EIO);
        }
        Ok(Self {
            tail: bytes,
            ..self
        })
    }

    fn slot(&self, index: u32) -> *mut u8 {
        // CAST: u32 fits usize on every target that libibverbs supports.
        self.slots
            .wrapping_add(((index & self.mask) as usize) << self.shift)
    }

    /// Writes the head of the slot that `index` (masked here) names; the slot is ours.
    ///
    /// `V` is `T` or another form of it, of the same size.
    pub(crate) fn write<V: Copy>(&mut self, index: u32, value: &V) {
        const { assert!(size_of::<V>() == size_of::<T>()) };
        // SAFETY: the slot is inside the mapping and holds a `T` (invariant), which has `V`'s size.
        unsafe { self.slot(index).cast::<V>().write_unaligned(*value) };
    }

    /// The slots from the one on that `index` (masked here) names, which are ours to be written.
    #[inline(always)]
    pub(crate) fn open(&mut self, index: u32) -> OpenSlots<'_, T> {
        OpenSlots {
            at: self.slot(index),
            ring: self,
        }
    }

    /// Reads the head of the slot that `index` (masked here) names; the kernel has published it.
    pub(crate) fn read(&self, index: u32) -> T {
        // SAFETY: the slot is inside the mapping and holds a `T` (invariant), for which any bytes
        // will do (`FromBytes`); the kernel does not write it before we give it back.
        unsafe { self.slot(index).cast::<T>().read_unaligned() }
    }

    /// The producer index: the kernel's on a CQ, our own last one elsewhere. Masked.
    pub(crate) fn producer(&self) -> u32 {
        order::kernel_index(self.producer_word()) & self.mask
    }

    /// Hands the slots before `index` to the kernel, on an SQ, RQ or SRQ.
    pub(crate) fn publish_producer(&mut self, index: u32) {
        order::publish_index(self.producer_word(), index & self.mask);
    }

    /// The consumer index: the kernel's on an SQ, RQ or SRQ, our own last one on a CQ. Masked.
    pub(crate) fn consumer(&self) -> u32 {
        order::kernel_index(self.consumer_word()) & self.mask
    }

    /// How many slots the kernel, the consumer, has before `index`.
    #[inline(always)]
    pub(crate) fn unconsumed(&self, index: u32) -> u32 {
        index.wrapping_sub(order::kernel_index(self.consumer_word())) & self.mask
    }

    /// How many slots the consumer is behind the producer, as far as is known here.
    pub(crate) fn len(&self) -> u32 {
        self.producer().wrapping_sub(self.consumer()) & self.mask
    }

    /// Whether the consumer has caught up with the producer, as far as is known here.
    pub(crate) fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Whether no slot is free, as far as is known here.
    pub(crate) fn is_full(&self) -> bool {
        self.len() == self.mask
    }

    /// The word that is `AT` bytes into a slot, which the kernel may be writing.
    pub(crate) fn word<const AT: usize>(&self, index: u32) -> Word<AT> {
        Word::of::<T>(self.slot(index))
    }

    fn producer_word(&self) -> &AtomicU32 {
        // SAFETY: inside the mapping and aligned (invariant); both sides access it atomically.
        unsafe { AtomicU32::from_ptr(self.producer) }
    }

    fn consumer_word(&self) -> &AtomicU32 {
        // SAFETY: as in `producer_word`.
        unsafe { AtomicU32::from_ptr(self.consumer) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ELEM: usize = 64;

    #[expect(clippy::cast_ptr_alignment, reason = "mappings are page aligned")]
    fn memory(log2_elem: u32, mask: u32, len: usize) -> Mapping {
        let map = Mapping::anonymous(len);
        for (offset, value) in [
            (queue::LOG2_ELEM_SIZE, log2_elem),
            (queue::INDEX_MASK, mask),
        ] {
            // SAFETY: inside the anonymous mapping, which nobody else knows yet.
            unsafe { map.span(offset, 4).unwrap().cast::<u32>().write(value) };
        }
        map
    }

    #[test]
    fn what_is_written_is_read_also_past_the_end() {
        let mut ring = IndexRing::<[u64; 2]>::over(memory(6, 3, queue::DATA + 4 * ELEM)).unwrap();
        assert_eq!((ring.capacity(), ring.tail_bytes()), (3, ELEM - 16));
        for index in 0..9 {
            ring.write(index, &[u64::from(index), 7]);
            ring.open(index)
                .slot()
                .write_tail(ELEM - 16 - 3, b"end")
                .unwrap();
            assert_eq!(ring.read(index), [u64::from(index), 7]);
        }
        assert_eq!(
            ring.open(0).slot().write_tail(ELEM - 16 - 2, b"end"),
            Err(Errno::EINVAL)
        );
        ring.publish_producer(6);
        assert_eq!(ring.producer(), 2);
    }

    #[test]
    fn an_impossible_header_is_refused() {
        let whole = queue::DATA + 4 * ELEM;
        for (log2_elem, mask, len) in [
            (6, 3, whole - 1),
            (6, 2, whole),
            (6, u32::MAX, whole),
            (3, 3, whole),
            (64, 3, whole),
            (63, 3, whole),
            (6, 3, 100),
        ] {
            let ring = IndexRing::<[u64; 2]>::over(memory(log2_elem, mask, len.max(8)));
            assert_eq!(ring.err(), Some(Errno::EIO), "{log2_elem} {mask} {len}");
        }
    }
}
