// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause

//! A mapping of kernel memory, accessed by checked byte offsets.

use std::os::fd::RawFd;

use memmap2::{MmapOptions, MmapRaw};

use crate::errno::{Errno, Result};

/// A shared, writable mapping of a ring; unmapped when dropped.
#[derive(Debug)]
pub(super) struct Mapping(MmapRaw);

impl Mapping {
    /// Maps `len` bytes that the driver offers at `offset` of the command fd.
    ///
    /// # Errors
    ///
    /// `EIO` for a length or offset that no driver gives; else what `mmap(2)` says.
    pub(super) fn new(cmd_fd: RawFd, offset: u64, len: usize) -> Result<Self> {
        if len == 0 || isize::try_from(len).is_err() {
            return Err(Errno::EIO);
        }
        Ok(Self(
            MmapOptions::new().offset(offset).len(len).map_raw(cmd_fd)?,
        ))
    }

    /// The bytes mapped.
    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    /// Where the `size` bytes at `offset` are.
    ///
    /// # Errors
    ///
    /// `EIO` if they are not all inside the mapping.
    pub(super) fn span(&self, offset: usize, size: usize) -> Result<*mut u8> {
        let end = offset.checked_add(size).ok_or(Errno::EIO)?;
        if end > self.len() {
            return Err(Errno::EIO);
        }
        Ok(self.0.as_mut_ptr().wrapping_add(offset))
    }
}

#[cfg(test)]
impl Mapping {
    /// A mapping of anonymous memory, in place of a driver's.
    pub(super) fn anonymous(len: usize) -> Self {
        Self(MmapOptions::new().len(len).map_anon().unwrap().into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_span_stays_inside() {
        let map = Mapping::anonymous(64);
        assert!(map.span(0, 64).is_ok());
        assert!(map.span(60, 5).is_err());
        assert!(map.span(usize::MAX, 2).is_err());
    }

    #[test]
    fn an_impossible_length_is_refused() {
        assert!(Mapping::new(-1, 0, 0).is_err());
        assert!(Mapping::new(-1, 0, usize::MAX).is_err());
        assert!(Mapping::new(-1, 0, 4096).is_err());
    }
}
