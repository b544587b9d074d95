// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause

//! Inline data: the caller's bytes, copied into a slot.

use std::ptr;

/// Copies bytes of the caller's to where inline data stands in a slot, if they are what most inline data is, a few
/// dozen, which takes no call; whether they were copied.
///
/// # Safety
///
/// `to` has room for them, in a slot that is ours to be written. They are not in it.
#[inline(always)]
pub(super) unsafe fn copy_quickly(bytes: &[u8], to: *mut u8) -> bool {
    // SAFETY: the caller's promise.
    unsafe {
        match bytes.len() {
            32..=64 => copy_ends::<32>(bytes, to),
            16..32 => copy_ends::<16>(bytes, to),
            8..16 => copy_ends::<8>(bytes, to),
            _ => return false,
        }
    }
    true
}

/// As [`copy_quickly`], however many there are.
///
/// # Safety
///
/// As [`copy_quickly`].
pub(super) unsafe fn copy(bytes: &[u8], to: *mut u8) {
    // SAFETY: the caller's promise.
    unsafe { ptr::copy_nonoverlapping(bytes.as_ptr(), to, bytes.len()) };
}

/// Copies the first `N` bytes and the last `N`, which are all.
///
/// # Safety
///
/// As [`copy_quickly`]; there are at least `N` bytes, and no more than twice as many.
#[inline(always)]
unsafe fn copy_ends<const N: usize>(bytes: &[u8], to: *mut u8) {
    for at in [0, bytes.len().wrapping_sub(N)] {
        let from = bytes.as_ptr().wrapping_add(at).cast::<[u8; N]>();
        // SAFETY: `N` bytes, of the caller's and of the slot's (the caller's promise).
        unsafe { ptr::copy_nonoverlapping(from, to.wrapping_add(at).cast(), 1) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_bytes_are_copied_quickly_or_none_and_no_others() {
        let from: Vec<u8> = (1..=100).collect();
        for length in 0..=from.len() {
            let mut to = [0_u8; 128];
            let bytes = &from[..length];
            // SAFETY: there is room, in memory of this test's.
            let is_copied = unsafe { copy_quickly(bytes, to[8..].as_mut_ptr()) };
            assert_eq!(is_copied, (8..=64).contains(&length));
            if !is_copied {
                assert_eq!(to, [0; 128]);
                continue;
            }
            assert_eq!(&to[8..][..length], bytes);
            assert!(
                to[..8]
                    .iter()
                    .chain(&to[8..][length..])
                    .all(|byte| *byte == 0)
            );
        }
    }
}
