// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause

//! The memory that the kernel and the provider share: a file that exists in memory only, which each
//! of them maps.

use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::sync::atomic::{AtomicU8, AtomicU16, AtomicU32};

use memmap2::{MmapOptions, MmapRaw};
use zerocopy::{FromBytes, Immutable, IntoBytes};

/// Bytes of the file; only what is touched is there.
const SIZE: usize = 256 << 20;
/// Where the first ring begins: behind the one offset that siw takes for an error.
const FIRST: usize = 1 << 20;
const PAGE: usize = 4096;

/// The kernel's own mapping of the file.
pub(super) struct Memory {
    file: OwnedFd,
    map: MmapRaw,
    used: usize,
}

impl Memory {
    pub(super) fn new() -> Self {
        // SAFETY: a NUL-terminated name.
        let fd = unsafe { libc::memfd_create(c"rings".as_ptr(), libc::MFD_CLOEXEC) };
        assert!(fd >= 0, "{}", std::io::Error::last_os_error());
        // SAFETY: just opened.
        let file = unsafe { OwnedFd::from_raw_fd(fd) };
        // SAFETY: an open file.
        let sized = unsafe { libc::ftruncate(fd, SIZE.try_into().unwrap()) };
        assert_eq!(sized, 0, "{}", std::io::Error::last_os_error());
        let map = MmapOptions::new().len(SIZE).map_raw(fd).unwrap();
        Self {
            file,
            map,
            used: FIRST,
        }
    }

    /// The file, which is the device's to the provider.
    pub(super) fn fd(&self) -> RawFd {
        self.file.as_raw_fd()
    }

    /// Zeroed pages for `len` bytes; the offset of the first.
    pub(super) fn allocate(&mut self, len: usize) -> usize {
        let at = self.used;
        self.used += len.next_multiple_of(PAGE);
        assert!(self.used <= SIZE, "the model needs more memory");
        at
    }

    fn at(&self, offset: usize, size: usize) -> *mut u8 {
        assert!(offset + size <= self.used);
        self.map.as_mut_ptr().wrapping_add(offset)
    }

    /// Copies what is at `offset`. It is not written meanwhile: the protocol sees to that.
    pub(super) fn read<T: FromBytes>(&self, offset: usize) -> T {
        // SAFETY: inside the mapping; any bytes make a `T`.
        unsafe { self.at(offset, size_of::<T>()).cast::<T>().read_unaligned() }
    }

    /// Stores `value` at `offset`, which nobody reads meanwhile.
    pub(super) fn write<T: IntoBytes + Immutable>(&self, offset: usize, value: T) {
        let at = self.at(offset, size_of::<T>()).cast::<T>();
        // SAFETY: inside the mapping.
        unsafe { at.write_unaligned(value) };
    }

    /// A word that both sides use.
    pub(super) fn word(&self, offset: usize) -> &AtomicU32 {
        assert!(offset.is_multiple_of(4));
        // SAFETY: inside the mapping, which is page aligned; both sides access it atomically.
        unsafe { AtomicU32::from_ptr(self.at(offset, 4).cast()) }
    }

    /// Half a word that both sides use.
    pub(super) fn half(&self, offset: usize) -> &AtomicU16 {
        assert!(offset.is_multiple_of(2));
        // SAFETY: as in `word`.
        unsafe { AtomicU16::from_ptr(self.at(offset, 2).cast()) }
    }

    /// A byte that both sides use.
    pub(super) fn byte(&self, offset: usize) -> &AtomicU8 {
        // SAFETY: as in `word`.
        unsafe { AtomicU8::from_ptr(self.at(offset, 1)) }
    }
}
