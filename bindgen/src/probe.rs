// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
//! A throwaway context of the loaded libibverbs, to be measured.
//!
//! libibverbs makes it for a device that exists in our memory only, with no descriptor, and a
//! table with a different marker in each slot is installed in it. The markers are addresses that
//! nobody calls. Dropping the context leaves no trace.

use std::{
    ffi::c_void,
    mem::{size_of, size_of_val},
    ptr::null_mut,
    slice,
};

use crate::{
    calls::Calls,
    provider::{VERBS_QP_EX, verbs_device},
    public::{RDMA_DRIVER_UNKNOWN, ibv_qp},
};

/// Slots of the table that is handed to `verbs_set_ops`: more than any known generation has.
///
/// libibverbs reads as many as its own table has, so the table of a later release must fit too.
pub(crate) const TABLE_SLOTS: usize = 128;

/// Words allocated for the context: more than any known `verbs_context` has.
const CONTEXT_WORDS: usize = 512;

/// One address for each slot.
static MARKERS: [u8; TABLE_SLOTS] = [0; TABLE_SLOTS];

/// The word that stands for `slot`.
pub(crate) fn marker(slot: usize) -> usize {
    MARKERS.as_ptr().addr().wrapping_add(slot)
}

/// The slot that `word` stands for.
pub(crate) fn slot_of_marker(word: usize) -> Option<usize> {
    let slot = word.wrapping_sub(MARKERS.as_ptr().addr());
    (slot < TABLE_SLOTS).then_some(slot)
}

/// A device that libibverbs' list does not have, with a margin behind it.
#[repr(C)]
struct Device {
    device: verbs_device,
    margin: [u64; 128],
}

/// The throwaway context.
pub(crate) struct Probe<'a> {
    calls: &'a Calls,
    device: *mut Device,
    context: *mut c_void,
}

impl<'a> Probe<'a> {
    /// Makes the context with the markers installed; `None` if libibverbs could not.
    pub(crate) fn new(calls: &'a Calls) -> Option<Self> {
        // SAFETY: all zeroes is a valid device; providers make theirs by `calloc`.
        let mut device: Box<Device> = unsafe { Box::new_zeroed().assume_init() };
        // A reference of our own, so that libibverbs does not free the device with the context.
        *device.device.refcount.get_mut() = 1;
        let device = Box::into_raw(device);

        // SAFETY: the device is valid until this object is dropped. No descriptor (−1) is what
        // libibverbs itself passes for a device without a character device
        // (rdma-core v44.0 libibverbs/device.c: verbs_open_device).
        let context = unsafe {
            (calls._verbs_init_and_alloc_context)(
                device.cast(),
                -1,
                size_of::<[usize; CONTEXT_WORDS]>(),
                null_mut(),
                RDMA_DRIVER_UNKNOWN,
            )
        };
        if context.is_null() {
            // SAFETY: the pointer is from `Box::into_raw`, and libibverbs kept nothing of it.
            drop(unsafe { Box::from_raw(device) });
            return None;
        }

        let table: [usize; TABLE_SLOTS] = std::array::from_fn(marker);
        // SAFETY: the context begins where its allocation does; the table outlives the call.
        unsafe { (calls.verbs_set_ops)(context.cast(), table.as_ptr().cast()) };
        Some(Self {
            calls,
            device,
            context,
        })
    }

    /// The address of the context's device.
    pub(crate) fn device(&self) -> usize {
        self.device.addr()
    }

    /// The context, with zeroes behind its end.
    pub(crate) fn context(&self) -> &[usize] {
        // SAFETY: the allocation has that many words, was zeroed, and nobody writes to it.
        unsafe { slice::from_raw_parts(self.context.cast(), CONTEXT_WORDS) }
    }

    /// libibverbs' private part of the context: the block whose address the context's word
    /// `index` is.
    ///
    /// # Safety
    ///
    /// * The word is the address of a block from `calloc`, or null.
    pub(crate) unsafe fn private(&self, index: usize) -> &[usize] {
        let address = self.context().get(index).map_or(null_mut(), |_| {
            // SAFETY: the context has this word; read as a pointer, it keeps its provenance.
            unsafe { self.context.cast::<*mut usize>().add(index).read() }
        });
        if address.is_null() {
            return &[];
        }
        // SAFETY: the caller knows the block, whose size only the allocator does.
        let size = unsafe { libc::malloc_usable_size(address.cast()) };
        // SAFETY: the block has that many bytes, is aligned as `calloc` aligns, and lives as long
        // as the context.
        unsafe { slice::from_raw_parts(address, size.div_euclid(size_of::<usize>())) }
    }

    /// The offset of `verbs_qp`'s `comp_mask`: where a set bit makes a QP an extended one.
    pub(crate) fn qp_comp_mask(&self) -> Option<usize> {
        let mut qp = [0_u32; 256];
        (0..size_of_val(&qp))
            .step_by(size_of::<u32>())
            .zip(0..)
            .find_map(|(offset, index)| {
                if offset < size_of::<ibv_qp>() {
                    return None;
                }
                *qp.get_mut(index)? = VERBS_QP_EX;
                // SAFETY: the function reads one word of a `verbs_qp`, and this is larger than any.
                let extended = unsafe { (self.calls.ibv_qp_to_qp_ex)(qp.as_mut_ptr().cast()) };
                *qp.get_mut(index)? = 0;
                (!extended.is_null()).then_some(offset)
            })
    }
}

impl Drop for Probe<'_> {
    fn drop(&mut self) {
        // SAFETY: the context is from `_verbs_init_and_alloc_context` at offset 0, so it goes as
        // a provider's `free_context` lets it go: uninit, then `free`. libibverbs then has nothing
        // left of the device, which is from `Box::into_raw`.
        unsafe {
            (self.calls.verbs_uninit_context)(self.context.cast());
            libc::free(self.context);
            drop(Box::from_raw(self.device));
        }
    }
}
