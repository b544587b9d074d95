// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause

//! The kernel's side of siw's SQ, RQ and SRQ (linux 6.1 `siw.h: sq_get_next`,
//! `siw_qp_rx.c: siw_rqe_get`).

use std::marker::PhantomData;
use std::mem::offset_of;
use std::sync::atomic::{Ordering, fence};

use kernel_abi::siw::{Rqe, Sqe, flags};
use zerocopy::FromBytes;

use super::memory::Memory;

/// Where the flags of both are.
const FLAGS: usize = offset_of!(Sqe, flags);
const _: () = assert!(FLAGS == offset_of!(Rqe, flags));

/// An array of [`Sqe`]s or [`Rqe`]s, and how many of them were taken so far.
#[derive(Debug)]
pub(super) struct Entries<T> {
    offset: usize,
    count: u32,
    get: u32,
    _entry: PhantomData<T>,
}

impl<T: FromBytes> Entries<T> {
    /// An array for `wanted` entries (`siw_verbs.c: siw_create_qp`).
    pub(super) fn new(memory: &mut Memory, wanted: u32) -> Self {
        let count = wanted.next_power_of_two();
        Self {
            offset: memory.allocate(count as usize * size_of::<T>()),
            count,
            get: 0,
            _entry: PhantomData,
        }
    }

    pub(super) fn count(&self) -> u32 {
        self.count
    }

    /// What the user is told to map it.
    pub(super) fn key(&self) -> u64 {
        self.offset as u64
    }

    fn entry(&self) -> usize {
        self.offset + (self.get % self.count) as usize * size_of::<T>()
    }

    fn flags(&self, memory: &Memory) -> u16 {
        memory.half(self.entry() + FLAGS).load(Ordering::Acquire)
    }

    /// Whether the next entry may be taken.
    pub(super) fn is_valid(&self, memory: &Memory) -> bool {
        self.flags(memory) & flags::VALID != 0
    }

    /// Takes the next entry: copies it, then clears its flags (`smp_store_mb`).
    pub(super) fn take(&mut self, memory: &Memory) -> Option<T> {
        self.is_valid(memory).then(|| self.take_any(memory))
    }

    /// The next entry that a flush finds: any that has flags.
    pub(super) fn flushable(&self, memory: &Memory) -> Option<T> {
        (self.flags(memory) != 0).then(|| memory.read(self.entry()))
    }

    pub(super) fn take_any(&mut self, memory: &Memory) -> T {
        let entry = memory.read(self.entry());
        let word = memory.half(self.entry() + FLAGS);
        word.store(0, Ordering::Release);
        fence(Ordering::SeqCst);
        self.get = self.get.wrapping_add(1);
        entry
    }
}
