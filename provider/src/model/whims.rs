// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause

//! What the kernel does in its own time.

use std::fmt;

/// Choices that a test case makes for the kernel.
#[derive(Clone)]
pub(super) struct Tape(pub(super) Vec<u8>);

impl fmt::Debug for Tape {
    /// On one line.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&format!("{:?}", self.0))
    }
}

/// A tape that is used up byte by byte; 0, the least, ever after.
pub(super) struct Whims {
    tape: Tape,
    at: usize,
}

impl Whims {
    pub(super) fn new(tape: Tape) -> Self {
        Self { tape, at: 0 }
    }

    /// A number below `n`.
    pub(super) fn below(&mut self, n: usize) -> usize {
        let whim = self.tape.0.get(self.at).copied().unwrap_or_default();
        self.at += 1;
        usize::from(whim) % n.max(1)
    }

    /// Yes in one of `n` cases, and never when the tape is at its end.
    pub(super) fn once_in(&mut self, n: usize) -> bool {
        self.below(n) == n - 1
    }
}
