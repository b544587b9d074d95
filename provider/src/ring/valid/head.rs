// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause

//! The word of an entry that hands it over.

use std::mem::offset_of;

use kernel_abi::siw::{Rqe, Sqe, flags};

/// The flags of an [`Sqe`] or [`Rqe`], and what stands between them and the next 32 bits: written as one word. The kernel
/// reads and clears the flags in it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Head(u32);

const _: () = {
    assert!(offset_of!(Sqe, flags) == Head::AT && offset_of!(Rqe, flags) == Head::AT);
    assert!(offset_of!(Sqe, num_sge) == Head::AT + 2 && offset_of!(Rqe, num_sge) == Head::AT + 2);
    assert!(offset_of!(Sqe, opcode) == Head::AT + 3 && offset_of!(Rqe, opcode) == Head::AT + 3);
};

impl Head {
    /// How many bytes into an entry it is.
    pub(super) const AT: usize = 8;

    /// That of an entry which the kernel has taken, or flushed.
    pub(super) const TAKEN: Self = Self::of(0, 0, 0);

    /// That of a mark: a flag that the kernel's code does not use.
    pub(super) const MARK: Self = Self::of(flags::COMPLETED, 0, 0);

    const fn of(flags: u16, num_sge: u8, opcode: u8) -> Self {
        let [low, high] = flags.to_ne_bytes();
        Self(u32::from_ne_bytes([low, high, num_sge, opcode]))
    }

    /// That of an entry which is handed to the kernel: VALID, with `others`.
    pub(crate) const fn valid(others: u16, num_sge: u8, opcode: u8) -> Self {
        Self::of(flags::VALID | others, num_sge, opcode)
    }

    /// The same of an entry with another number of list entries.
    #[inline(always)]
    pub(crate) const fn with_num_sge(self, num_sge: u8) -> Self {
        let [low, high, _, opcode] = self.0.to_ne_bytes();
        Self(u32::from_ne_bytes([low, high, num_sge, opcode]))
    }

    #[inline(always)]
    pub(super) const fn from_word(word: u32) -> Self {
        Self(word)
    }

    #[inline(always)]
    pub(super) const fn word(self) -> u32 {
        self.0
    }

    #[inline(always)]
    const fn flags(self) -> u16 {
        let [low, high, ..] = self.0.to_ne_bytes();
        u16::from_ne_bytes([low, high])
    }

    /// Whether the kernel has taken the entry, or there was none.
    #[inline(always)]
    pub(super) const fn is_taken(self) -> bool {
        self.flags() == 0
    }

    /// Whether the entry is the kernel's.
    #[inline(always)]
    pub(super) const fn is_valid(self) -> bool {
        self.flags() & flags::VALID != 0
    }

    #[inline(always)]
    pub(super) const fn is_mark(self) -> bool {
        self.flags() == flags::COMPLETED
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_has_the_bytes_of_an_entry() {
        let head = Head::valid(flags::SIGNALLED, 1, 7).with_num_sge(2);
        let [low, high, num_sge, opcode] = head.word().to_ne_bytes();
        let flags = u16::from_ne_bytes([low, high]);
        assert_eq!(flags, flags::VALID | flags::SIGNALLED);
        assert_eq!((num_sge, opcode), (2, 7));
        assert!(head.is_valid() && !head.is_taken() && !head.is_mark());
        assert!(Head::MARK.is_mark() && !Head::MARK.is_valid() && !Head::MARK.is_taken());
        // The kernel clears the flags alone.
        assert!(Head::of(0, 2, 7).is_taken());
    }
}
