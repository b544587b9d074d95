// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause

//! A word to the compiler.

/// Says that this way is not often taken: the other one is laid out without jumps.
#[cold]
#[inline]
pub(crate) fn rarely() {}
