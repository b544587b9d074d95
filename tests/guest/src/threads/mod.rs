// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause

//! Theme `threads`: every verb at once, from many threads. libibverbs is wholly thread safe, and so must
//! its provider be; the same cases run under ThreadSanitizer (`scripts/regress/data-races`).

mod own_objects;
mod shared_objects;

use std::thread::{Scope, ScopedJoinHandle};

use guest::suite::{Outcome, Suite};

/// Adds the cases of this theme.
pub(crate) fn add(suite: &mut Suite) {
    shared_objects::add(suite);
    own_objects::add(suite);
}

/// A thread of a case.
type Thread<'scope> = ScopedJoinHandle<'scope, Outcome>;

/// Starts a thread that repeats `step` `times` times.
fn repeat<'scope, 'env>(
    scope: &'scope Scope<'scope, 'env>,
    times: usize,
    step: impl Fn() -> Outcome + Send + 'scope,
) -> Thread<'scope> {
    scope.spawn(move || (0..times).try_for_each(|_| step()))
}

/// Waits for threads, and fails as the first of them.
pub(crate) fn join<'scope>(threads: impl IntoIterator<Item = Thread<'scope>>) -> Outcome {
    let ended: Vec<_> = threads.into_iter().map(ScopedJoinHandle::join).collect();
    for outcome in ended {
        match outcome {
            Ok(outcome) => outcome?,
            Err(_) => panic!("a thread panicked"),
        }
    }
    Ok(())
}
