// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause

//! The provider against a kernel that does what the real ones do, at the worst moments.
//!
//! The provider is all there, with both drivers and their rings: its verbs are called as an
//! application calls them. Below it, [`calls`] stands in for libibverbs' commands, and [`rxe`] and
//! [`siw`] for the kernel's side of the rings, each with a table of what it does and where the real
//! one does it. Whatever the kernel may do in its own time is a step of the test, or a *whim*.
//!
//! | | |
//! |---|---|
//! | [`steps`] | what can happen |
//! | [`application`], [`posts`], [`polling`], [`resizing`], [`moves`], [`reaping`] | verbs, and what may be expected of them |
//! | [`reference`] | what is outstanding: the promise |
//! | [`kernel`] | what has truly become of each work request |
//! | [`finale`] | nothing is left, and nobody sleeps |

#![expect(clippy::arithmetic_side_effects, reason = "counts of a test")]

mod application;
mod calls;
mod cq;
mod entries;
mod events;
mod finale;
mod found;
mod kernel;
mod memory;
mod moves;
mod polling;
mod posts;
mod queue;
mod reaping;
mod reference;
mod resizing;
mod rxe;
mod siw;
mod srq;
mod steps;
mod watchdog;
mod whims;

pub(crate) use calls::write;

use proptest::prelude::*;
use proptest::test_runner::TestCaseError;

use application::Application;
use kernel::Kind;
use steps::{Setup, Step, setup, step};
use watchdog::Watchdog;

use crate::driver::Driver;
use crate::rxe::Rxe;
use crate::siw::Siw;

/// The local key of a buffer that the kernel finds faulty.
const FAULTY: u32 = 0xbad;

fn run<D: Driver>(setup: Setup, steps: &[Step]) -> Result<(), TestCaseError> {
    let mut application = Application::<D>::new(setup).map_err(TestCaseError::fail)?;
    let _watchdog = Watchdog::new(&application.device);
    let mut play = || {
        for step in steps {
            application.step(step)?;
        }
        application.finish()
    };
    play().map_err(|fault: String| {
        let log = &application.kernel().core.log;
        TestCaseError::fail(format!("{fault}\n{}\n", log.join("\n")))
    })
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    prop::collection::vec(step(), 1..80)
}

proptest! {
    #[test]
    fn rxe_6_1_completes_each_once(setup in setup(Kind::Rxe61, false), steps in steps()) {
        run::<Rxe>(setup, &steps)?;
    }

    #[test]
    fn rxe_6_12_completes_each_once(setup in setup(Kind::Rxe612, false), steps in steps()) {
        run::<Rxe>(setup, &steps)?;
    }

    #[test]
    fn siw_completes_each_once(setup in setup(Kind::Siw, false), steps in steps()) {
        run::<Siw>(setup, &steps)?;
    }

    #[test]
    fn rxe_6_1_loses_no_shared_receive(setup in setup(Kind::Rxe61, true), steps in steps()) {
        run::<Rxe>(setup, &steps)?;
    }

    #[test]
    fn rxe_6_12_loses_no_shared_receive(setup in setup(Kind::Rxe612, true), steps in steps()) {
        run::<Rxe>(setup, &steps)?;
    }

    #[test]
    fn siw_loses_no_shared_receive(setup in setup(Kind::Siw, true), steps in steps()) {
        run::<Siw>(setup, &steps)?;
    }
}
