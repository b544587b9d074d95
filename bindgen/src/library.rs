// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
//! The libibverbs that loaded us.

use std::{
    ffi::{CStr, c_int},
    ptr::{null, null_mut},
    sync::OnceLock,
};

use crate::{
    ContextOps, Decline,
    calls::Calls,
    discovery,
    generation::Generation,
    private_abi::{PrivateAbi, RegisterDriver},
    probe::{Probe, TABLE_SLOTS},
    provider::{verbs_context, verbs_device_ops},
    public::{ibv_context, ibv_device, rdma_driver_id},
    symbols::Symbols,
    variants::Variants,
};

/// The loaded libibverbs, known in all that a provider needs.
#[derive(Debug)]
pub struct Library {
    /// Its private ABI number, which is also the `N` of `-rdmavN.so`.
    pub pabi: u32,
    /// Its layout.
    pub generation: Generation,
    /// Its functions.
    pub calls: Calls,
    pub(crate) variants: Variants,
    register_driver: RegisterDriver,
    /// The functions above stay mapped while this lives.
    _symbols: Symbols,
}

impl Library {
    /// The libibverbs of this process, looked up and measured at the first call.
    ///
    /// The answer is the same ever after, so that a constructor may ask and an operation rely on
    /// it.
    ///
    /// # Errors
    ///
    /// Why it cannot be served.
    pub fn get() -> Result<&'static Self, Decline> {
        static LIBRARY: OnceLock<Result<Library, Decline>> = OnceLock::new();
        LIBRARY
            .get_or_init(Self::discover)
            .as_ref()
            .map_err(Clone::clone)
    }

    /// Looks up and measures the libibverbs of this process, whatever [`get`](Self::get) knows.
    ///
    /// Takes some 50 µs, one system call (on no descriptor) and no device; nothing stays behind.
    ///
    /// # Errors
    ///
    /// Why it cannot be served.
    pub fn discover() -> Result<Self, Decline> {
        let symbols = Symbols::of_loaded_libibverbs().ok_or(Decline::NotLoaded)?;
        let abi = PrivateAbi::of(&symbols)?;
        let calls = Calls::find(&abi)?;
        let variants = Variants::find(&abi)?;
        let measured = {
            let probe = Probe::new(&calls).ok_or(Decline::NoProbe)?;
            discovery::measure(&probe, abi.number)?
        };
        let generation = discovery::identify(abi.number, &measured)?;
        Ok(Self {
            pabi: abi.number,
            generation: *generation,
            calls,
            variants,
            register_driver: abi.register_driver,
            _symbols: symbols,
        })
    }

    /// Registers a driver; libibverbs keeps the reference until the process ends.
    pub fn register_driver(&self, ops: &'static verbs_device_ops) {
        // SAFETY: the table lives forever and is never written.
        unsafe { (self.register_driver)(ops) };
    }

    /// Makes a context with `private_size` zeroed bytes behind its `ibv_context`.
    ///
    /// Takes ownership of `cmd_fd`, also when it fails. Returns null with `errno` set on failure.
    /// [`free_context`](Self::free_context) undoes it.
    ///
    /// # Safety
    ///
    /// * `device` is the device that libibverbs asks to be opened.
    pub unsafe fn alloc_context(
        &self,
        device: *mut ibv_device,
        cmd_fd: c_int,
        private_size: usize,
        driver_id: rdma_driver_id,
    ) -> *mut verbs_context {
        let size = self.generation.sizes.context.saturating_add(private_size);
        // SAFETY: the device is the caller's; the context at offset 0 fits into the size.
        let allocated = unsafe {
            (self.calls._verbs_init_and_alloc_context)(device, cmd_fd, size, null_mut(), driver_id)
        };
        allocated.cast()
    }

    /// Releases what libibverbs keeps of a context, closes its descriptors and frees it.
    ///
    /// # Safety
    ///
    /// * `context` is from [`alloc_context`](Self::alloc_context) and used no more, nor is its
    ///   private data.
    pub unsafe fn free_context(&self, context: *mut verbs_context) {
        // SAFETY: the context is the caller's, begins its allocation, and that came from `calloc`
        // (rdma-core v44.0 libibverbs/device.c: _verbs_init_and_alloc_context).
        unsafe {
            (self.calls.verbs_uninit_context)(context);
            libc::free(context.cast());
        }
    }

    /// The context whose public part is `context`.
    ///
    /// # Safety
    ///
    /// * `context` is a context of this libibverbs.
    #[inline]
    pub unsafe fn verbs_context_of(&self, context: *mut ibv_context) -> *mut verbs_context {
        // SAFETY: the public part is the last member of the caller's `verbs_context`.
        unsafe { context.byte_sub(self.generation.public_offset()).cast() }
    }

    /// The public part of `context`.
    ///
    /// # Safety
    ///
    /// * `context` is a context of this libibverbs.
    #[inline]
    pub unsafe fn ibv_context_of(&self, context: *mut verbs_context) -> *mut ibv_context {
        // SAFETY: the public part is the last member of the caller's `verbs_context`.
        unsafe { context.byte_add(self.generation.public_offset()).cast() }
    }

    /// Installs the operations that are `Some`.
    ///
    /// # Safety
    ///
    /// * `context` is a context of this libibverbs that nobody else uses yet.
    /// * Each operation does what the verb it serves asks of it.
    pub unsafe fn set_ops(&self, context: *mut verbs_context, ops: &ContextOps) {
        let mut table = [null(); TABLE_SLOTS];
        for (op, slot) in self.generation.slots() {
            if let (Some(place), Some(address)) = (table.get_mut(slot), ops.address(op)) {
                *place = address;
            }
        }
        // SAFETY: the context is the caller's; the table has at least as many slots as
        // libibverbs reads, and each operation stands in its own slot.
        unsafe { (self.calls.verbs_set_ops)(context, table.as_ptr().cast()) };
    }

    /// Logs one line, as [`log::log`](crate::log::log) does.
    pub fn log(&self, level: u32, line: &CStr) {
        crate::log::log(level, line);
    }
}
