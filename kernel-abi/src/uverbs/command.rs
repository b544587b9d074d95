// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause

//! How a command is framed: header, core struct, driver's part.

use crate::layout::assert_layout;
use zerocopy::{FromBytes, FromZeros, Immutable, IntoBytes, KnownLayout};

/// First 8 bytes of every command written to the device (`ib_uverbs_cmd_hdr`).
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
#[repr(C)]
#[derive(FromBytes, Immutable, IntoBytes, KnownLayout)]
pub struct CommandHeader {
    /// One of the `CMD_*` constants, with [`CMD_FLAG_EXTENDED`](super::CMD_FLAG_EXTENDED) for the
    /// extended form.
    pub command: u32,
    /// Length of the request: 4-byte words including this header, or, extended, 8-byte words of the
    /// core struct alone.
    pub in_words: u16,
    /// Length of the response: 4-byte words, or, extended, 8-byte words of the core struct alone.
    pub out_words: u16,
}

assert_layout!(CommandHeader, size 8, align 4, { command: 0, in_words: 4, out_words: 6 });

impl CommandHeader {
    /// The header of a plain command that is written as one `Req` and answered by one `Resp`.
    ///
    /// `Req` is the whole request, this header included, and must be written by one call: the
    /// kernel compares the lengths (linux 6.1 `drivers/infiniband/core/uverbs_main.c`:
    /// `verify_hdr`). `Resp` is `()` for a command without a response. A size that the header
    /// cannot express does not compile.
    #[must_use]
    pub const fn of<Req, Resp>(command: u32) -> Self {
        Self {
            command,
            in_words: const { words(size_of::<Req>()) },
            out_words: const { words(size_of::<Resp>()) },
        }
    }
}

/// `bytes` in the 4-byte words of a plain command's header.
const fn words(bytes: usize) -> u16 {
    assert!(
        bytes.is_multiple_of(4),
        "a command is a whole number of 4-byte words"
    );
    let words = bytes / 4;
    assert!(
        words <= u16::MAX as usize,
        "a command's length fits its header"
    );
    #[expect(clippy::cast_possible_truncation, reason = "the line above bounds it")]
    {
        words as u16
    }
}

/// Second header of an extended command (`ib_uverbs_ex_cmd_hdr`).
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
#[repr(C)]
#[derive(FromBytes, Immutable, IntoBytes, KnownLayout)]
pub struct ExCommandHeader {
    /// Address of the response.
    pub response: u64,
    /// Length of the driver's part of the request, in 8-byte words.
    pub provider_in_words: u16,
    /// Length of the driver's part of the response, in 8-byte words.
    pub provider_out_words: u16,
    /// Zero.
    pub cmd_hdr_reserved: u32,
}

assert_layout!(ExCommandHeader, size 16, align 8, {
    response: 0, provider_in_words: 8, provider_out_words: 10, cmd_hdr_reserved: 12,
});

/// A plain command: header, core struct `C`, driver's part `D`.
///
/// This is what libibverbs' `ibv_cmd_*` functions take as `cmd`. Their `cmd_size` is the size of
/// the whole request, header included; what exceeds header and core struct is the driver's part, a
/// whole number of 4-byte words. They fill the header and the core struct themselves, so a provider
/// starts from [`zeroed`](Self::zeroed) or [`new`](Self::new) and sets `driver` alone (rdma-core
/// v44.0 `libibverbs/cmd_fallback.c`: `_write_get_req`, `_execute_cmd_write`).
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
#[repr(C)]
#[derive(FromBytes, Immutable, KnownLayout)]
pub struct Request<C, D = ()> {
    /// Filled by libibverbs, except for the commands that a provider writes by itself.
    pub header: CommandHeader,
    /// The core struct.
    pub core: C,
    /// The driver's part.
    pub driver: D,
}

impl<C, D> Request<C, D> {
    /// A request with a zeroed header.
    #[must_use]
    pub const fn new(core: C, driver: D) -> Self {
        Self {
            header: CommandHeader {
                command: 0,
                in_words: 0,
                out_words: 0,
            },
            core,
            driver,
        }
    }
}

impl<C: FromZeros, D: FromZeros> Request<C, D> {
    /// A request of zero bytes, padding included.
    #[must_use]
    pub fn zeroed() -> Self {
        FromZeros::new_zeroed()
    }
}

/// An extended command: both headers, core struct `C`, driver's part `D`.
///
/// For libibverbs' `ibv_cmd_*_ex` functions; as with [`Request`], `cmd_size` is the size of the
/// whole request and the driver's part is what exceeds headers and core struct, here a whole number
/// of 8-byte words.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
#[repr(C)]
#[derive(FromBytes, Immutable, KnownLayout)]
pub struct ExRequest<C, D = ()> {
    /// Filled by libibverbs.
    pub header: CommandHeader,
    /// Filled by libibverbs.
    pub ex_header: ExCommandHeader,
    /// The core struct.
    pub core: C,
    /// The driver's part.
    pub driver: D,
}

impl<C: FromZeros, D: FromZeros> ExRequest<C, D> {
    /// A request of zero bytes, padding included.
    #[must_use]
    pub fn zeroed() -> Self {
        FromZeros::new_zeroed()
    }
}

/// An answer to a command: core struct `C`, driver's part `D`.
///
/// `resp_size` of libibverbs' `ibv_cmd_*` functions is the size of the whole. The kernel writes the
/// driver's part directly behind the core struct, which is why a core struct keeps the size *and*
/// the alignment of the C struct: a driver's part of 8-byte words must not slip.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
#[repr(C)]
#[derive(FromBytes, Immutable, KnownLayout)]
pub struct Response<C, D = ()> {
    /// The core struct.
    pub core: C,
    /// The driver's part.
    pub driver: D,
}

impl<C: FromZeros, D: FromZeros> Response<C, D> {
    /// A response of zero bytes, padding included.
    #[must_use]
    pub fn zeroed() -> Self {
        FromZeros::new_zeroed()
    }
}
