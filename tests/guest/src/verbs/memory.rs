// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause

//! Registered memory and the scatter/gather elements that name parts of it.

use std::ffi::c_int;
use std::io;
use std::marker::PhantomData;
use std::ops::Range;
use std::ptr::{self, NonNull};
use std::sync::Arc;

use super::{Pd, check, destroyed, object, sys};

/// A memory region, `ibv_mr`, together with its memory.
///
/// The memory is only ever copied in and out by pointer: a peer may write to it at any time.
#[derive(Debug)]
pub struct Mr {
    raw: NonNull<sys::ibv_mr>,
    memory: NonNull<u8>,
    len: usize,
    _pd: Arc<Pd>,
}

// SAFETY: the memory belongs to the MR and is only accessed by copies; libibverbs allows any
// thread to use an MR.
unsafe impl Send for Mr {}
// SAFETY: as above. Two threads that copy to one place at one time would race on the bytes, as a
// peer's writes do; the cases do not.
unsafe impl Sync for Mr {}

/// A place in the peer's memory, for RDMA and atomics.
#[derive(Debug, Clone, Copy)]
pub struct Remote {
    /// Address of the first byte, in the peer's address space.
    pub address: u64,
    /// Key of the region.
    pub rkey: u32,
}

/// A scatter/gather element: a part of an [`Mr`] that outlives it.
#[derive(Debug, Clone, Copy)]
#[repr(transparent)]
pub struct Sge<'m>(sys::ibv_sge, PhantomData<&'m Mr>);

impl Sge<'_> {
    /// The same bytes under another key, which the kernel will refuse.
    #[must_use]
    pub fn with_lkey(mut self, lkey: u32) -> Self {
        self.0.lkey = lkey;
        self
    }

    /// Length in bytes.
    #[must_use]
    pub fn len(&self) -> u32 {
        self.0.length
    }

    /// Whether the element names no byte.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.length == 0
    }
}

impl Mr {
    /// Registers `len` bytes of fresh, zeroed memory with the access flags `access`
    /// (`IBV_ACCESS_*`).
    ///
    /// # Errors
    ///
    /// The errno of mmap(2) or `ibv_reg_mr`.
    pub fn register(pd: &Arc<Pd>, len: usize, access: u32) -> io::Result<Self> {
        let protection = libc::PROT_READ | libc::PROT_WRITE;
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
        // SAFETY: a fresh anonymous mapping at an address of the kernel's choice.
        let mapped = unsafe { libc::mmap(ptr::null_mut(), len, protection, flags, -1, 0) };
        if mapped == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let memory = object(mapped.cast::<u8>())?;
        let access = c_int::try_from(access).map_err(io::Error::other)?;
        // SAFETY: the PD is alive, and the memory is ours until after `ibv_dereg_mr`.
        let raw = object(unsafe { sys::ibv_reg_mr(pd.raw(), mapped, len, access) });
        if raw.is_err() {
            // SAFETY: nobody else knows the mapping.
            unsafe { libc::munmap(mapped, len) };
        }
        Ok(Self {
            raw: raw?,
            memory,
            len,
            _pd: Arc::clone(pd),
        })
    }

    /// The object that libibverbs knows.
    #[must_use]
    pub fn raw(&self) -> *mut sys::ibv_mr {
        self.raw.as_ptr()
    }

    /// Size in bytes.
    #[must_use]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether it has no byte; registration of nothing fails, so it never has.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Key for remote access.
    #[must_use]
    pub fn rkey(&self) -> u32 {
        // SAFETY: the MR is alive; libibverbs does not change the key.
        unsafe { (*self.raw()).rkey }
    }

    /// The bytes from `offset` on, as a peer names them.
    ///
    /// # Panics
    ///
    /// If `offset` is outside.
    #[must_use]
    pub fn remote(&self, offset: usize) -> Remote {
        Remote {
            address: self.at(offset..offset).addr() as u64,
            rkey: self.rkey(),
        }
    }

    /// The `len` bytes from `offset` on.
    ///
    /// # Panics
    ///
    /// If they are not inside.
    #[must_use]
    pub fn sge(&self, offset: usize, len: usize) -> Sge<'_> {
        let place = self.at(offset..offset + len);
        // SAFETY: the MR is alive; libibverbs does not change the key.
        let lkey = unsafe { (*self.raw()).lkey };
        let Ok(length) = u32::try_from(len) else {
            panic!("an SGE of {len} bytes")
        };
        Sge(
            sys::ibv_sge {
                addr: place.addr() as u64,
                length,
                lkey,
            },
            PhantomData,
        )
    }

    /// Consecutive elements from `offset` on, with the given lengths.
    ///
    /// # Panics
    ///
    /// If they are not inside.
    #[must_use]
    pub fn sges(&self, offset: usize, lengths: &[usize]) -> Vec<Sge<'_>> {
        let mut from = offset;
        lengths
            .iter()
            .map(|&len| {
                let sge = self.sge(from, len);
                from += len;
                sge
            })
            .collect()
    }

    /// Copies `bytes` to `offset`.
    ///
    /// # Panics
    ///
    /// If they do not fit.
    pub fn write(&self, offset: usize, bytes: &[u8]) {
        let place = self.at(offset..offset + bytes.len());
        // SAFETY: `at` has checked the range, which is our own mapping; `bytes` is not part of it,
        // since no reference to it is ever made.
        unsafe { ptr::copy_nonoverlapping(bytes.as_ptr(), place, bytes.len()) };
    }

    /// Copies the bytes of `range` out.
    ///
    /// # Panics
    ///
    /// If it is not inside.
    #[must_use]
    pub fn read(&self, range: Range<usize>) -> Vec<u8> {
        let place = self.at(range.clone());
        let mut bytes = vec![0; range.len()];
        // SAFETY: `at` has checked the range, which is our own mapping; `bytes` is as long.
        unsafe { ptr::copy_nonoverlapping(place, bytes.as_mut_ptr(), bytes.len()) };
        bytes
    }

    /// Sets every byte to `value`.
    pub fn fill(&self, value: u8) {
        // SAFETY: the mapping is ours and `len` bytes long.
        unsafe { ptr::write_bytes(self.memory.as_ptr(), value, self.len) };
    }

    fn at(&self, range: Range<usize>) -> *mut u8 {
        assert!(
            range.start <= range.end && range.end <= self.len,
            "{range:?} is outside of an MR of {} bytes",
            self.len
        );
        // SAFETY: the offset is inside of the mapping, or just behind it.
        unsafe { self.memory.as_ptr().add(range.start) }
    }
}

impl Pd {
    /// Gives advice about memory of regions of this domain.
    ///
    /// # Errors
    ///
    /// The errno of `ibv_advise_mr`.
    pub fn advise_mr(&self, advice: u32, flags: u32, list: &[Sge<'_>]) -> io::Result<()> {
        let entries = u32::try_from(list.len()).map_err(io::Error::other)?;
        let list = list.as_ptr().cast_mut().cast();
        // SAFETY: the PD is alive; the list has that many entries, each a transparent `ibv_sge`.
        check(unsafe { sys::extended::advise_mr(self.raw(), advice, flags, list, entries) })
    }
}

impl Drop for Mr {
    fn drop(&mut self) {
        // SAFETY: the MR is ours.
        destroyed("ibv_dereg_mr", unsafe { sys::ibv_dereg_mr(self.raw()) });
        // SAFETY: the mapping is ours, and the kernel has just let go of it.
        unsafe { libc::munmap(self.memory.as_ptr().cast(), self.len) };
    }
}
