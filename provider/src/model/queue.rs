// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause

//! The kernel's side of rxe's rings (linux 6.1 `rxe_queue.h`).

use std::sync::atomic::Ordering;

use kernel_abi::rxe::{MmapInfo, queue};
use zerocopy::{FromBytes, Immutable, IntoBytes};

use super::memory::Memory;

/// A ring, and the index that the kernel owns, which it never reads back from the shared memory.
#[derive(Debug, Clone, Copy)]
pub(super) struct Queue {
    offset: usize,
    shift: u32,
    mask: u32,
    index: u32,
}

impl Queue {
    /// A ring for `wanted` elements of `element` bytes (`rxe_queue.c: rxe_queue_init`).
    pub(super) fn new(memory: &mut Memory, wanted: u32, element: usize) -> Self {
        let slot = element.max(64).next_power_of_two();
        let slots = (wanted + 1).next_power_of_two();
        let offset = memory.allocate(queue::DATA + slot * slots as usize);
        let shift = slot.ilog2();
        memory.write(offset + queue::LOG2_ELEM_SIZE, shift);
        memory.write(offset + queue::INDEX_MASK, slots - 1);
        Self {
            offset,
            shift,
            mask: slots - 1,
            index: 0,
        }
    }

    /// What the user is told to map it.
    pub(super) fn info(&self) -> MmapInfo {
        let size = queue::DATA + ((self.mask as usize + 1) << self.shift);
        MmapInfo {
            offset: self.offset as u64,
            size: u32::try_from(size).unwrap(),
            pad: 0,
        }
    }

    /// Where the slot at `index` is.
    pub(super) fn slot(&self, index: u32) -> usize {
        self.offset + queue::DATA + (((index & self.mask) as usize) << self.shift)
    }

    /// The user's producer index, of an SQ, RQ or SRQ.
    pub(super) fn producer(&self, memory: &Memory) -> u32 {
        let word = memory.word(self.offset + queue::PRODUCER_INDEX);
        word.load(Ordering::Acquire) & self.mask
    }

    /// The next slot that the kernel consumes.
    pub(super) fn consumer(&self) -> u32 {
        self.index
    }

    pub(super) fn next(&self, index: u32) -> u32 {
        (index + 1) & self.mask
    }

    /// Whether `index` is a slot that the user has published and the kernel has not consumed.
    pub(super) fn is_waiting(&self, memory: &Memory, index: u32) -> bool {
        let from = |index: u32| index.wrapping_sub(self.index) & self.mask;
        from(index) < from(self.producer(memory))
    }

    /// The oldest slot that waits, if any.
    pub(super) fn head(&self, memory: &Memory) -> Option<usize> {
        (self.producer(memory) != self.index).then(|| self.slot(self.index))
    }

    /// Gives the oldest slot back to the user.
    pub(super) fn advance_consumer(&mut self, memory: &Memory) {
        self.index = self.next(self.index);
        let word = memory.word(self.offset + queue::CONSUMER_INDEX);
        word.store(self.index, Ordering::Release);
    }

    /// Writes the next element of a CQ; false if there is no room.
    pub(super) fn produce<T: IntoBytes + Immutable>(&mut self, memory: &Memory, value: T) -> bool {
        let consumer = memory.word(self.offset + queue::CONSUMER_INDEX);
        if self.next(self.index) == consumer.load(Ordering::Acquire) & self.mask {
            return false;
        }
        memory.write(self.slot(self.index), value);
        self.index = self.next(self.index);
        let word = memory.word(self.offset + queue::PRODUCER_INDEX);
        word.store(self.index, Ordering::Release);
        true
    }

    /// Whether half of a CQ's slots wait to be consumed.
    pub(super) fn is_crowded(&self, memory: &Memory) -> bool {
        let consumer = memory.word(self.offset + queue::CONSUMER_INDEX);
        let waiting = self.index.wrapping_sub(consumer.load(Ordering::Relaxed)) & self.mask;
        waiting >= self.mask / 2
    }

    /// Moves a CQ of `T` to a ring for `wanted` elements, with those that the user has not consumed; false,
    /// and nothing is moved, if there are more (`rxe_queue.c: rxe_queue_resize`).
    pub(super) fn resize<T>(&mut self, memory: &mut Memory, wanted: u32) -> bool
    where
        T: FromBytes + IntoBytes + Immutable,
    {
        let consumer = memory.word(self.offset + queue::CONSUMER_INDEX);
        let consumer = consumer.load(Ordering::Acquire) & self.mask;
        let mut new = Self::new(memory, wanted, size_of::<T>());
        let mut at = consumer;
        while at != self.index {
            let value = memory.read::<T>(self.slot(at));
            if !new.produce(memory, value) {
                return false;
            }
            at = self.next(at);
        }
        *self = new;
        true
    }

    /// The head of the element at `slot`.
    pub(super) fn read<T: FromBytes>(memory: &Memory, slot: usize) -> T {
        memory.read(slot)
    }
}
