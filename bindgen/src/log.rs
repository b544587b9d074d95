// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
//! Lines through libibverbs' own logging, which `VERBS_LOG_LEVEL` and `VERBS_LOG_FILE` steer.
//!
//! C counterpart: rdma-core `libibverbs/init.c`: `__verbs_log` (since v37). It drops a line above
//! the chosen level, and every line before the first device list was asked for.

use std::{
    ffi::{CStr, c_char},
    mem::transmute,
    ptr::null_mut,
    sync::OnceLock,
};

use crate::{provider::verbs_context, symbols::Symbols};

type VerbsLog =
    unsafe extern "C" fn(context: *mut verbs_context, level: u32, format: *const c_char, ...);

/// Logs one line, given without its newline, at a `VERBS_LOG_*` level.
///
/// Needs no [`Library`](crate::Library), so that a [`Decline`](crate::Decline) can be told too.
/// Keeps `errno`. Without a libibverbs that logs, nothing happens.
pub fn log(level: u32, line: &CStr) {
    static VERBS_LOG: OnceLock<Option<(Symbols, VerbsLog)>> = OnceLock::new();

    let found = VERBS_LOG.get_or_init(|| {
        let symbols = Symbols::of_loaded_libibverbs()?;
        let address = symbols.default_version(c"__verbs_log")?;
        // SAFETY: libibverbs' function of this name has this type in v37 to v65.
        let verbs_log = unsafe { transmute::<*mut std::ffi::c_void, VerbsLog>(address.as_ptr()) };
        Some((symbols, verbs_log))
    });
    if let Some((_, verbs_log)) = found {
        // SAFETY: the context is not read by any release that has the function (v37 to v65); the
        // format takes the one string that follows.
        unsafe { verbs_log(null_mut(), level, c"%s\n".as_ptr(), line.as_ptr()) };
    }
}
