// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause

//! What is read from the file of asynchronous events.

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

use crate::layout::assert_layout;

/// One event (`struct ib_uverbs_async_event_desc`), 16 bytes.
///
/// A `read(2)` of the file gives one, and waits for it unless the file is non-blocking
/// (linux 6.1 `core/uverbs_main.c: ib_uverbs_event_read`).
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
#[repr(C)]
#[derive(FromBytes, Immutable, IntoBytes, KnownLayout)]
pub struct AsyncEventDesc {
    /// The user's handle of the object, which libibverbs makes its address; or the number of a port.
    pub element: u64,
    /// `enum ib_event_type`.
    pub event_type: u32,
    /// Not used.
    pub reserved: u32,
}

assert_layout!(AsyncEventDesc, size 16, align 8, { element: 0, event_type: 8, reserved: 12 });
