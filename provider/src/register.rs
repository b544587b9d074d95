// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause

//! How libibverbs finds us: the constructor, the two drivers, and the devices they match.

use std::ffi::CString;
use std::fmt::Display;
use std::panic::{self, PanicHookInfo};
use std::ptr;

use rdma_core_sys::Library;
use rdma_core_sys::log::log;
use rdma_core_sys::provider::{
    VERBS_LOG_ERR, verbs_device, verbs_device_ops, verbs_match_ent, verbs_sysfs_dev,
};

use crate::boundary::{guard, pointer};
use crate::context;
use crate::driver::Driver;
use crate::object;
use crate::rxe::Rxe;
use crate::siw::Siw;

/// Runs when the library is loaded, from `.init_array` as stock providers do.
#[used]
#[unsafe(link_section = ".init_array")]
static CONSTRUCTOR: extern "C" fn() = constructor;

extern "C" fn constructor() {
    // A failure is logged, and leaves the devices to the stock providers.
    let _ = guard(|| {
        match Library::get() {
            Ok(library) => {
                panic::set_hook(Box::new(log_panic));
                library.register_driver(const { &Table::<Rxe>::OPS });
                library.register_driver(const { &Table::<Siw>::OPS });
            }
            Err(decline) => say(VERBS_LOG_ERR, &decline),
        }
        Ok(())
    });
}

/// One line in libibverbs' log.
fn say(level: u32, what: &dyn Display) {
    if let Ok(line) = CString::new(format!("lastwqe: {what}")) {
        log(level, &line);
    }
}

/// In place of the default hook, which writes to the application's stderr. The standard library in
/// a cdylib is its own copy, so an application in Rust keeps its hook.
fn log_panic(panic: &PanicHookInfo<'_>) {
    say(VERBS_LOG_ERR, panic);
}

/// One driver's tables.
struct Table<D>(D);

impl<D: Driver> Table<D> {
    const MATCH: [verbs_match_ent; 2] = [
        verbs_match_ent::driver_id(D::ID),
        verbs_match_ent::sentinel(),
    ];

    const OPS: verbs_device_ops = verbs_device_ops {
        name: D::NAME.as_ptr(),
        match_min_abi_version: *D::ABI.start(),
        match_max_abi_version: *D::ABI.end(),
        match_table: Self::MATCH.as_ptr(),
        static_providers: ptr::null_mut(),
        match_device: None,
        alloc_context: Some(context::open::<D>),
        import_context: None,
        alloc_device: Some(alloc_device),
        uninit_device: Some(uninit_device),
    };
}

/// `verbs_device_ops.alloc_device`.
///
/// # Safety
///
/// Called by libibverbs.
unsafe extern "C" fn alloc_device(_sysfs: *mut verbs_sysfs_dev) -> *mut verbs_device {
    pointer(|| Ok(Box::into_raw(object::allocate::<verbs_device>()?).cast()))
}

/// `verbs_device_ops.uninit_device`.
///
/// # Safety
///
/// Called by libibverbs, once, with a device from [`alloc_device`].
unsafe extern "C" fn uninit_device(device: *mut verbs_device) {
    // SAFETY: a box from `alloc_device`, given back.
    drop(unsafe { Box::from_raw(device) });
}
