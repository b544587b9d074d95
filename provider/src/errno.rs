// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause

//! Error numbers as the verbs return them.

use std::ffi::c_int;

/// A positive `errno` value.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Errno(c_int);

pub(crate) type Result<T> = std::result::Result<T, Errno>;

impl Errno {
    pub(crate) const EBUSY: Self = Self(libc::EBUSY);
    pub(crate) const EINVAL: Self = Self(libc::EINVAL);
    pub(crate) const EIO: Self = Self(libc::EIO);
    pub(crate) const ENOENT: Self = Self(libc::ENOENT);
    pub(crate) const ENOTCONN: Self = Self(libc::ENOTCONN);
    pub(crate) const ENOMEM: Self = Self(libc::ENOMEM);
    pub(crate) const EOPNOTSUPP: Self = Self(libc::EOPNOTSUPP);

    /// The calling thread's `errno`, or `EIO` where a failed call left it 0.
    pub(crate) fn last() -> Self {
        // SAFETY: __errno_location returns the calling thread's own, always valid `errno`.
        Self::from_positive(unsafe { *libc::__errno_location() })
    }

    fn from_positive(value: c_int) -> Self {
        if value > 0 { Self(value) } else { Self::EIO }
    }

    /// Turns the answer of an `ibv_cmd_*` function (0, a positive errno, or a negative value with
    /// `errno` set) into a result.
    pub(crate) fn check(answer: c_int) -> Result<()> {
        match answer {
            0 => Ok(()),
            1.. => Err(Self(answer)),
            _ => Err(Self::last()),
        }
    }

    /// The positive number.
    pub(crate) fn get(self) -> c_int {
        self.0
    }

    /// Stores the number in the calling thread's `errno`, as verbs that return a pointer do.
    pub(crate) fn set(self) {
        // SAFETY: as in `last`.
        unsafe { *libc::__errno_location() = self.0 };
    }
}

impl std::fmt::Debug for Errno {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}", std::io::Error::from_raw_os_error(self.0))
    }
}

impl From<std::io::Error> for Errno {
    fn from(error: std::io::Error) -> Self {
        Self::from_positive(error.raw_os_error().unwrap_or(libc::EIO))
    }
}

impl From<std::collections::TryReserveError> for Errno {
    fn from(_: std::collections::TryReserveError) -> Self {
        Self::ENOMEM
    }
}
