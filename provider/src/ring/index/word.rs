// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause

//! A word of a slot that the kernel changes while it works on it, also where somebody looks without the lock of
//! the queue.

use kernel_abi::rxe::queue;

use super::super::atomic::AtomicU64;
use super::super::order;

/// 64 bits of a slot, `AT` bytes into it: a status in the lower half, a state in the upper.
///
/// # Invariants
///
/// The slot is inside the mapping of a ring, and so is the word, which is aligned.
#[derive(Debug)]
pub(crate) struct Word<const AT: usize>(*mut u8);

impl<const AT: usize> Word<AT> {
    /// That of a slot, which begins with a `T`.
    #[inline(always)]
    pub(super) fn of<T>(slot: *mut u8) -> Self {
        // Mappings are page aligned, and slots at multiples of their size, a power of two.
        const { assert!(AT.is_multiple_of(8) && queue::DATA.is_multiple_of(8)) };
        const { assert!(AT + 8 <= size_of::<T>() && size_of::<T>() >= 8) };
        Self(slot)
    }

    fn at(&self) -> *mut u64 {
        self.0.wrapping_add(AT).cast()
    }

    /// The state.
    ///
    /// # Safety
    ///
    /// The ring is still mapped.
    pub(crate) unsafe fn state(&self) -> u32 {
        // SAFETY: see the invariant; the caller's promise.
        let [.., a, b, c, d] =
            order::wqe_state(unsafe { AtomicU64::from_ptr(self.at()) }).to_le_bytes();
        u32::from_le_bytes([a, b, c, d])
    }

    /// Has both be 0.
    ///
    /// # Safety
    ///
    /// As [`state`](Self::state).
    pub(super) unsafe fn reset(&self) {
        // SAFETY: as above.
        order::reset_wqe_state(unsafe { AtomicU64::from_ptr(self.at()) });
    }
}
