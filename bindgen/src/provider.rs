// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
//! The structs that libibverbs shares with its providers.
//!
//! C counterpart: rdma-core `libibverbs/driver.h`, which no distribution installs. Sizes and
//! offsets hold for every release from v35 to v65 unless an item says otherwise, and are asserted
//! here; what changed between those releases is opaque and reached through
//! [`Library`](crate::Library).

use std::{
    ffi::{CStr, c_char, c_int, c_uint, c_void},
    fmt,
    marker::{PhantomData, PhantomPinned},
    mem::{offset_of, size_of},
    ptr::null_mut,
    sync::atomic::AtomicI32,
};

use crate::public::{
    ibv_context, ibv_cq, ibv_cq_ex, ibv_device, ibv_mr, ibv_node_type, ibv_srq, ibv_srq_type,
    rdma_driver_id,
};

mod queue_pair;

pub use queue_pair::{
    QP_EX_WITH_FLUSH, VERBS_QP_EX, VERBS_QP_XRCD, WC_FLUSH, WR_FLUSH, WR_FLUSH_OFFSET, WrFlush,
    verbs_qp,
};

/// Logging is off: nothing is printed at this level.
pub const VERBS_LOG_LEVEL_NONE: u32 = 0;
/// Level of an error that makes an operation fail.
pub const VERBS_LOG_ERR: u32 = 1;
/// Level of a condition that is survived.
pub const VERBS_LOG_WARN: u32 = 2;
/// Level of what a user may want to know.
pub const VERBS_LOG_INFO: u32 = 3;
/// Level of what a developer may want to know.
pub const VERBS_LOG_DEBUG: u32 = 4;

/// Kind of a [`verbs_match_ent`] that ends a match table.
pub const VERBS_MATCH_SENTINEL: u8 = 0;
/// Kind of a [`verbs_match_ent`] that matches the kernel driver's number.
pub const VERBS_MATCH_DRIVER_ID: u8 = 3;

/// One entry of a driver's match table; 24 bytes.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct verbs_match_ent {
    /// The driver's own pointer, not read by libibverbs.
    pub driver_data: *mut c_void,
    /// The kernel's `rdma_driver_id`, or a `modalias` pointer for kinds this crate does not use.
    pub driver_id: u64,
    /// PCI vendor, for kinds this crate does not use.
    pub vendor: u16,
    /// PCI device, for kinds this crate does not use.
    pub device: u16,
    /// One of the `VERBS_MATCH_*` constants.
    pub kind: u8,
}

impl verbs_match_ent {
    /// An entry that matches the devices of the kernel driver `id`.
    pub const fn driver_id(id: rdma_driver_id) -> Self {
        // CAST: widening; `From` is not const.
        Self {
            driver_id: id as u64,
            kind: VERBS_MATCH_DRIVER_ID,
            ..Self::sentinel()
        }
    }

    /// The entry that ends a table.
    pub const fn sentinel() -> Self {
        Self {
            driver_data: null_mut(),
            driver_id: 0,
            vendor: 0,
            device: 0,
            kind: VERBS_MATCH_SENTINEL,
        }
    }
}

// SAFETY: an entry is never written after it was built, and libibverbs only reads it.
unsafe impl Sync for verbs_match_ent {}

const _: () = {
    assert!(size_of::<verbs_match_ent>() == 24);
    assert!(offset_of!(verbs_match_ent, driver_id) == 8);
    assert!(offset_of!(verbs_match_ent, vendor) == 16);
    assert!(offset_of!(verbs_match_ent, device) == 18);
    assert!(offset_of!(verbs_match_ent, kind) == 20);
};

/// What a provider registers for one kind of device; 72 bytes.
#[repr(C)]
#[derive(Debug)]
pub struct verbs_device_ops {
    /// The driver's name, a NUL-terminated string.
    pub name: *const c_char,
    /// Lowest kernel ABI version (`abi_ver`) the driver speaks.
    pub match_min_abi_version: u32,
    /// Highest kernel ABI version the driver speaks.
    pub match_max_abi_version: u32,
    /// The devices the driver serves, ended by [`verbs_match_ent::sentinel`].
    pub match_table: *const verbs_match_ent,
    /// Only for statically linked programs.
    pub static_providers: *mut *const verbs_device_ops,
    /// Decides about a device itself; returning false leaves it to the next driver.
    pub match_device: Option<unsafe extern "C" fn(*mut verbs_sysfs_dev) -> bool>,
    /// Opens a device; takes ownership of the descriptor also when it fails.
    pub alloc_context: Option<
        unsafe extern "C" fn(
            device: *mut ibv_device,
            cmd_fd: c_int,
            private_data: *mut c_void,
        ) -> *mut verbs_context,
    >,
    /// Opens a device on a descriptor that another process made (`ibv_import_device`).
    pub import_context:
        Option<unsafe extern "C" fn(device: *mut ibv_device, cmd_fd: c_int) -> *mut verbs_context>,
    /// Makes the zeroed device object of a matched device; NULL leaves it to the next driver.
    pub alloc_device: Option<unsafe extern "C" fn(*mut verbs_sysfs_dev) -> *mut verbs_device>,
    /// Frees what `alloc_device` made.
    pub uninit_device: Option<unsafe extern "C" fn(*mut verbs_device)>,
}

// SAFETY: the table is immutable once built, and libibverbs only reads it.
unsafe impl Sync for verbs_device_ops {}

const _: () = {
    assert!(size_of::<verbs_device_ops>() == 72);
    assert!(offset_of!(verbs_device_ops, match_min_abi_version) == 8);
    assert!(offset_of!(verbs_device_ops, match_max_abi_version) == 12);
    assert!(offset_of!(verbs_device_ops, match_table) == 16);
    assert!(offset_of!(verbs_device_ops, static_providers) == 24);
    assert!(offset_of!(verbs_device_ops, match_device) == 32);
    assert!(offset_of!(verbs_device_ops, alloc_context) == 40);
    assert!(offset_of!(verbs_device_ops, import_context) == 48);
    assert!(offset_of!(verbs_device_ops, alloc_device) == 56);
    assert!(offset_of!(verbs_device_ops, uninit_device) == 64);
};

/// libibverbs' list link; 16 bytes.
#[repr(C)]
#[derive(Debug)]
pub struct list_node {
    next: *mut list_node,
    prev: *mut list_node,
}

/// A device as a provider's `alloc_device` returns it; 712 bytes.
///
/// The provider hands it over zeroed (libibverbs asserts that the two retired operations in
/// `device` are NULL) and libibverbs fills it in. A provider's own fields go behind it.
#[repr(C)]
#[derive(Debug)]
pub struct verbs_device {
    /// The device the application sees.
    pub device: ibv_device,
    /// The operations this device was matched by.
    pub ops: *const verbs_device_ops,
    /// References held by libibverbs' device list and by open contexts.
    pub refcount: AtomicI32,
    /// Link in libibverbs' device list.
    pub entry: list_node,
    /// What libibverbs read about the device.
    pub sysfs: *mut verbs_sysfs_dev,
    /// Bits of what the kernel's RDMA core supports.
    pub core_support: u64,
}

const _: () = {
    assert!(size_of::<verbs_device>() == 712);
    assert!(offset_of!(verbs_device, ops) == 664);
    assert!(offset_of!(verbs_device, refcount) == 672);
    assert!(offset_of!(verbs_device, entry) == 680);
    assert!(offset_of!(verbs_device, sysfs) == 696);
    assert!(offset_of!(verbs_device, core_support) == 704);
};

/// An RDMA device that libibverbs found; owned by libibverbs, 992 bytes.
///
/// `num_ports` and what stands behind it are where v35 put them.
#[repr(C)]
#[derive(Debug)]
pub struct verbs_sysfs_dev {
    entry: list_node,
    provider_data: *mut c_void,
    match_: *const verbs_match_ent,
    flags: c_uint,
    sysfs_name: [c_char; 64],
    sysfs_cdev: u64,
    ibdev_name: [c_char; 64],
    ibdev_path: [c_char; 256],
    modalias: [c_char; 512],
    node_guid: u64,
    driver_id: rdma_driver_id,
    node_type: ibv_node_type,
    ibdev_idx: c_int,
    num_ports: u32,
    abi_ver: u32,
    time_created: [i64; 2],
}

impl verbs_sysfs_dev {
    /// The match table entry that selected the driver, set before `match_device` is asked.
    pub fn match_entry(&self) -> Option<&verbs_match_ent> {
        // SAFETY: libibverbs stores NULL or a pointer into a registered match table, and drivers
        // are never unregistered.
        unsafe { self.match_.as_ref() }
    }

    /// The device's name, as `rxe0`.
    pub fn name(&self) -> &CStr {
        // SAFETY: libibverbs fills the array with a NUL-terminated string.
        unsafe { CStr::from_ptr(self.ibdev_name.as_ptr()) }
    }

    /// The kernel driver's number, or `RDMA_DRIVER_UNKNOWN` where the kernel did not tell.
    pub fn driver_id(&self) -> rdma_driver_id {
        self.driver_id
    }

    /// The version of the interface the kernel driver shares with its provider.
    pub fn abi_version(&self) -> u32 {
        self.abi_ver
    }

    /// Number of ports.
    pub fn ports(&self) -> u32 {
        self.num_ports
    }
}

const _: () = {
    assert!(size_of::<verbs_sysfs_dev>() == 992);
    assert!(offset_of!(verbs_sysfs_dev, match_) == 24);
    assert!(offset_of!(verbs_sysfs_dev, ibdev_name) == 112);
    assert!(offset_of!(verbs_sysfs_dev, driver_id) == 952);
    assert!(offset_of!(verbs_sysfs_dev, num_ports) == 964);
    assert!(offset_of!(verbs_sysfs_dev, abi_ver) == 968);
};

/// A context as libibverbs and its providers know it: grows at the front with each generation.
///
/// The public [`ibv_context`] is always its last member, so that what lies behind that is at a
/// constant distance: [`private_data`].
#[repr(C)]
#[derive(Debug)]
pub struct verbs_context {
    _opaque: [u8; 0],
    _not_send_sync_unpin: PhantomData<(*mut u8, PhantomPinned)>,
}

/// Bytes from an [`ibv_context`] to the provider's private data behind it.
pub const PRIVATE_DATA_OFFSET: usize = size_of::<ibv_context>();

const _: () = assert!(PRIVATE_DATA_OFFSET == 328);

/// The provider's private data behind a context; aligned to 8 bytes.
///
/// # Safety
///
/// * `context` was made by [`Library::alloc_context`](crate::Library::alloc_context).
#[inline]
pub const unsafe fn private_data(context: *mut ibv_context) -> *mut c_void {
    // SAFETY: the caller's context has private data behind it, in the same allocation.
    unsafe { context.cast::<c_void>().byte_add(PRIVATE_DATA_OFFSET) }
}

/// A completion queue; 288 bytes.
#[repr(C)]
pub union verbs_cq {
    /// The plain queue.
    pub cq: ibv_cq,
    /// The extended queue, which begins with the plain one.
    pub cq_ex: ibv_cq_ex,
}

impl fmt::Debug for verbs_cq {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // SAFETY: both views begin with the same members, and hold for any bits.
        fmt::Debug::fmt(unsafe { &self.cq }, f)
    }
}

const _: () = {
    assert!(size_of::<ibv_cq>() == 128);
    assert!(size_of::<verbs_cq>() == 288);
};

/// A shared receive queue; 160 bytes.
#[repr(C)]
#[derive(Debug)]
pub struct verbs_srq {
    /// The public queue.
    pub srq: ibv_srq,
    /// Basic, XRC or tag matching.
    pub srq_type: ibv_srq_type,
    /// The XRC domain of an XRC queue.
    pub xrcd: *mut c_void,
    /// The completion queue of an XRC or tag matching queue.
    pub cq: *mut ibv_cq,
    /// The number of an XRC queue.
    pub srq_num: u32,
}

const _: () = {
    assert!(size_of::<verbs_srq>() == 160);
    assert!(offset_of!(verbs_srq, srq_type) == 128);
    assert!(offset_of!(verbs_srq, xrcd) == 136);
    assert!(offset_of!(verbs_srq, cq) == 144);
    assert!(offset_of!(verbs_srq, srq_num) == 152);
};

/// A memory region; 56 bytes.
#[repr(C)]
#[derive(Debug)]
pub struct verbs_mr {
    /// The public region.
    pub ibv_mr: ibv_mr,
    /// How it was made; set by the `ibv_cmd_*` function that made it.
    pub mr_type: u32,
    /// Its access flags.
    pub access: c_int,
}

const _: () = {
    assert!(size_of::<verbs_mr>() == 56);
    assert!(offset_of!(verbs_mr, mr_type) == 48);
    assert!(offset_of!(verbs_mr, access) == 52);
};
