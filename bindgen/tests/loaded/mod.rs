// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
//! libibverbs in the process, as every provider finds it.

/// Loads the installed libibverbs for good.
pub(crate) fn libibverbs() {
    // SAFETY: the name is a NUL-terminated string; libibverbs' constructors ask for nothing.
    let handle = unsafe { libc::dlopen(c"libibverbs.so.1".as_ptr(), libc::RTLD_NOW) };
    assert!(!handle.is_null(), "libibverbs.so.1 is not installed");
}
