// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause

//! What a case is: a name, a deadline and a function.

use std::fmt;
use std::panic::Location;
use std::time::Duration;

use crate::links::Device;

/// Time that a case has unless it asks for another.
pub const DEADLINE: Duration = Duration::from_secs(20);

/// Why a case ended without proving anything.
#[derive(Debug)]
pub enum Stop {
    /// The case does not apply here; the text says why.
    Skip(String),
    /// The case failed; the text says how.
    Fail(String),
}

/// What a case returns. A panic counts as [`Stop::Fail`] with the panic's message.
pub type Outcome = Result<(), Stop>;

impl Stop {
    /// Skips the case for `reason`.
    #[must_use]
    pub fn skip(reason: impl Into<String>) -> Self {
        Self::Skip(reason.into())
    }

    /// Says in front of a failure when or where it happened.
    #[must_use]
    pub fn during(self, what: impl fmt::Display) -> Self {
        match self {
            Self::Fail(how) => Self::Fail(format!("{what}: {how}")),
            Self::Skip(_) => self,
        }
    }
}

impl<E: std::error::Error> From<E> for Stop {
    /// Turns an unexpected error into a failure that names the line of the `?`.
    #[track_caller]
    fn from(error: E) -> Self {
        Self::Fail(format!("{error} ({})", Location::caller()))
    }
}

/// Notes something beside the verdict, in the log.
pub fn remark(what: impl fmt::Display) {
    eprintln!("guest: {what}");
}

/// One test case; the runner gives it its own process.
pub struct Case {
    /// `THEME/DEVICE/…`, unique in the suite.
    pub name: String,
    /// The case is killed, and has failed, when this has passed.
    pub deadline: Duration,
    /// The known fault of the stock provider that makes this case fail there, if there is one.
    pub stock_fault: Option<&'static str>,
    /// The case itself.
    pub run: Box<dyn Fn() -> Outcome>,
}

impl fmt::Debug for Case {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Case")
            .field("name", &self.name)
            .field("deadline", &self.deadline)
            .field("stock_fault", &self.stock_fault)
            .finish_non_exhaustive()
    }
}

impl Case {
    /// Gives the case `seconds` instead of [`DEADLINE`].
    pub fn within(&mut self, seconds: u64) -> &mut Self {
        self.deadline = Duration::from_secs(seconds);
        self
    }

    /// Says that the stock provider fails this case, and why, if there is a reason: the case states
    /// what a correct provider does, so that the difference shows.
    pub fn beyond_stock(&mut self, fault: impl Into<Option<&'static str>>) -> &mut Self {
        self.stock_fault = fault.into();
        self
    }
}

/// All cases, in the order in which they run.
#[derive(Debug, Default)]
pub struct Suite {
    /// The cases added so far.
    pub cases: Vec<Case>,
}

impl Suite {
    /// Adds a case.
    pub fn case(
        &mut self,
        name: impl Into<String>,
        run: impl Fn() -> Outcome + 'static,
    ) -> &mut Case {
        self.cases.push(Case {
            name: name.into(),
            deadline: DEADLINE,
            stock_fault: None,
            run: Box::new(run),
        });
        let last = self.cases.len() - 1;
        &mut self.cases[last]
    }

    /// Adds a case that is run on `device`, `THEME/DEVICE/NAME`.
    pub fn on(
        &mut self,
        theme: &str,
        device: Device,
        name: &str,
        run: impl Fn(Device) -> Outcome + 'static,
    ) -> &mut Case {
        self.case(format!("{theme}/{device}/{name}"), move || run(device))
    }
}
