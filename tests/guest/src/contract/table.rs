// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause

//! Calls of one verb, and what each must say.

use std::ffi::c_int;
use std::fmt;
use std::io;

use guest::links::Device;
use guest::suite::{Outcome, Stop, Suite};

use crate::leaks::usage::{Usage, returns_resources};

/// How often what is refused is asked for again, while the process and the device are watched: so often
/// that malloc's smallest chunk, lost each time, is no noise.
const ROUNDS: usize = 150;

/// What a verb said.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Said {
    /// It did it; an object that it made is destroyed again.
    Done,
    /// It did not: what it returned, or the errno that it set beside NULL.
    Refused(c_int),
}

impl fmt::Debug for Said {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Done => write!(f, "done"),
            Self::Refused(errno) => {
                write!(f, "{errno} ({})", io::Error::from_raw_os_error(*errno))
            }
        }
    }
}

impl Said {
    /// Of a verb that returns 0 or an errno. A negative one is kept as it is, and never right.
    pub(super) fn returned(returned: c_int) -> Self {
        match returned {
            0 => Self::Done,
            errno => Self::Refused(errno),
        }
    }

    /// Of a verb that a wrapper has called, which failed.
    pub(super) fn failed(error: &io::Error) -> Self {
        Self::Refused(error.raw_os_error().unwrap_or(0))
    }

    /// Of a verb that returns an object, or NULL and sets errno. `undo` destroys the object.
    pub(super) fn made<T>(
        verb: impl FnOnce() -> *mut T,
        undo: unsafe extern "C" fn(*mut T) -> c_int,
    ) -> Self {
        // SAFETY: the calling thread's own errno.
        unsafe { *libc::__errno_location() = 0 };
        let object = verb();
        if object.is_null() {
            return Self::failed(&io::Error::last_os_error());
        }
        // SAFETY: the verb has just made the object, and nobody else knows it.
        let undone = unsafe { undo(object) };
        assert_eq!(undone, 0, "what was made is not destroyed");
        Self::Done
    }
}

/// One call.
pub(super) struct Row<T> {
    what: &'static str,
    must: Said,
    call: Box<dyn Fn(&T) -> Said>,
    stock_fault: Option<&'static str>,
}

impl<T> Row<T> {
    /// A call that must be refused with `errno`.
    pub(super) fn refused(
        what: &'static str,
        errno: c_int,
        call: impl Fn(&T) -> Said + 'static,
    ) -> Self {
        Self {
            what,
            must: Said::Refused(errno),
            call: Box::new(call),
            stock_fault: None,
        }
    }

    /// A call that must do what it says.
    pub(super) fn done(what: &'static str, call: impl Fn(&T) -> Said + 'static) -> Self {
        Self {
            must: Said::Done,
            ..Self::refused(what, 0, call)
        }
    }

    /// Says that the stock provider does something else, and what, if it does.
    pub(super) fn beyond_stock(mut self, fault: impl Into<Option<&'static str>>) -> Self {
        self.stock_fault = fault.into();
        self
    }
}

/// The tests of one verb on one device.
pub(super) struct Table<T> {
    pub(super) verb: &'static str,
    pub(super) device: Device,
    /// Makes what the calls are made on.
    pub(super) stage: fn(Device) -> Result<T, Stop>,
    pub(super) rows: fn(Device) -> Vec<Row<T>>,
    /// Shows that it still works afterwards.
    pub(super) works: fn(&T) -> Outcome,
}

impl<T: 'static> Table<T> {
    /// Adds a case for the rows in which the stock provider is right, and `beyond` for the others.
    pub(super) fn add(self, suite: &mut Suite) {
        self.add_beyond(suite, None);
    }

    /// As [`Self::add`]; if there is a `fault`, the stock provider fails all of them for it.
    pub(super) fn add_beyond(self, suite: &mut Suite, fault: Option<&'static str>) {
        let Self {
            verb,
            device,
            stage,
            rows,
            works,
        } = self;
        let name = format!("contract/{device}/{verb}");
        let rows = move || {
            let mut rows = rows(device);
            for row in &mut rows {
                row.stock_fault = row.stock_fault.or(fault);
            }
            rows
        };
        let faults: Vec<_> = rows().iter().map(|row| row.stock_fault).collect();
        let run = move |is_beyond: bool| {
            let mut rows = rows();
            rows.retain(|row| row.stock_fault.is_some() == is_beyond);
            let stage = stage(device)?;
            check(device, &stage, &rows)?;
            works(&stage)
        };
        if faults.contains(&None) {
            suite.case(name.clone(), move || run(false)).within(60);
        }
        if let Some(fault) = faults.into_iter().flatten().next() {
            suite
                .case(format!("{name}/beyond"), move || run(true))
                .within(60)
                .beyond_stock(fault);
        }
    }
}

/// Each row says what it must. What is refused says so whenever it is asked, and leaves nothing.
fn check<T>(device: Device, stage: &T, rows: &[Row<T>]) -> Outcome {
    let wrong: Vec<_> = rows
        .iter()
        .map(|row| (row, (row.call)(stage)))
        .filter(|(row, said)| *said != row.must)
        .map(|(row, said)| format!("{}: {said:?} instead of {:?}", row.what, row.must))
        .collect();
    if !wrong.is_empty() {
        return Err(Stop::Fail(wrong.join("; ")));
    }
    let refused: Vec<_> = rows.iter().filter(|row| row.must != Said::Done).collect();
    if refused.is_empty() {
        return Ok(());
    }
    returns_resources(device, || {
        // malloc counts what it keeps of the first look as in use.
        let _first_look = Usage::now()?;
        let before = Usage::now()?;
        for _ in 0..ROUNDS {
            for row in &refused {
                assert_eq!((row.call)(stage), row.must, "{}, again", row.what);
            }
        }
        before.assert_flat(&Usage::now()?);
        Ok(())
    })
}
