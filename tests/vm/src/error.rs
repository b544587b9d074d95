// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
//! What the harness says when it cannot go on: one text that names the step and its cause.

use std::fmt::{self, Display};

/// A failure of the harness itself, never of a test.
#[derive(Debug)]
pub(crate) struct Error(String);

pub(crate) type Result<T> = std::result::Result<T, Error>;

impl Error {
    pub(crate) fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }
}

impl Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Puts the step that failed in front of its cause.
pub(crate) trait Context<T> {
    fn context(self, step: impl FnOnce() -> String) -> Result<T>;
}

impl<T, E: Display> Context<T> for std::result::Result<T, E> {
    fn context(self, step: impl FnOnce() -> String) -> Result<T> {
        self.map_err(|cause| Error(format!("{}: {cause}", step())))
    }
}
