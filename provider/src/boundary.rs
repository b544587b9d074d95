// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause

//! Where C calls in: a verb's result becomes what its C caller expects, and a panic its failure.

use std::ffi::c_int;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr;

use crate::errno::{Errno, Result};

/// Runs a verb; a panic is `EIO`. The panic's own line was logged by the hook of `register.rs`.
pub(crate) fn guard<T>(verb: impl FnOnce() -> Result<T>) -> Result<T> {
    // What a panic may leave half done is behind mutexes, whose users do not rely on it.
    catch_unwind(AssertUnwindSafe(verb)).unwrap_or(Err(Errno::EIO))
}

/// Runs what has to follow when a verb has done its work, which a panic does not undo.
pub(crate) fn follow_up(rest: impl FnOnce()) {
    // It was logged, as in `guard`; the verb succeeds all the same.
    let _ = guard(|| {
        rest();
        Ok(())
    });
}

/// For a verb that returns 0 or a positive errno.
pub(crate) fn status(verb: impl FnOnce() -> Result<()>) -> c_int {
    match guard(verb) {
        Ok(()) => 0,
        Err(errno) => {
            // Not asked for by the man pages, but stock providers leave it set.
            errno.set();
            errno.get()
        }
    }
}

/// For a verb that returns an object, or NULL and sets `errno`.
pub(crate) fn pointer<T>(verb: impl FnOnce() -> Result<*mut T>) -> *mut T {
    guard(verb).unwrap_or_else(|errno| {
        errno.set();
        ptr::null_mut()
    })
}

/// For a verb that returns a count, or a negative errno.
pub(crate) fn count(verb: impl FnOnce() -> Result<usize>) -> c_int {
    match guard(verb) {
        Ok(count) => c_int::try_from(count).unwrap_or(c_int::MAX),
        Err(errno) => errno.get().wrapping_neg(),
    }
}

/// A work request list that a verb did not accept to its end.
#[derive(Debug)]
pub(crate) struct Refused<W> {
    pub(crate) errno: Errno,
    /// The first one not accepted.
    pub(crate) first: *mut W,
}

/// For a verb that posts a list: 0, or a positive errno with `*bad_wr`, if the caller has one, the first one not
/// accepted.
///
/// # Safety
///
/// `bad_wr` is NULL or points to where a pointer may be stored.
#[inline(always)]
pub(crate) unsafe fn post<W>(
    list: *mut W,
    bad_wr: *mut *mut W,
    verb: impl FnOnce() -> std::result::Result<(), Refused<W>>,
) -> c_int {
    let panicked = Refused {
        errno: Errno::EIO,
        first: list,
    };
    let Refused { errno, first } = match catch_unwind(AssertUnwindSafe(verb)) {
        Ok(Ok(())) => return 0,
        Ok(Err(refused)) => refused,
        Err(_) => panicked,
    };
    if !bad_wr.is_null() {
        // SAFETY: not NULL, so the caller's promise holds.
        unsafe { bad_wr.write(first) };
    }
    errno.set();
    errno.get()
}

/// A verb that posts a list: to what, the list, and its `bad_wr`.
pub(crate) type Post<Q, W> = unsafe extern "C" fn(*mut Q, *mut W, *mut *mut W) -> c_int;

/// Gives back a lock, and leaves the post to `verb`.
///
/// # Safety
///
/// As of `verb`.
// No C calls it: it is a function that cannot unwind, so that its caller has nothing to do for that.
#[cold]
#[inline(never)]
pub(crate) unsafe extern "C" fn post_behind<Q, W, Guard>(
    queue: *mut Q,
    list: *mut W,
    bad_wr: *mut *mut W,
    guard: Guard,
    verb: Post<Q, W>,
) -> c_int {
    drop(guard);
    // SAFETY: the caller's promise.
    unsafe { verb(queue, list, bad_wr) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn quietly<T>(f: impl FnOnce() -> T) -> T {
        let hook = std::panic::take_hook();
        std::panic::set_hook(Box::new(|_| {}));
        let result = f();
        std::panic::set_hook(hook);
        result
    }

    #[test]
    fn a_panic_is_the_verbs_failure() {
        quietly(|| {
            assert_eq!(status(|| panic!("in a verb")), libc::EIO);
            assert!(pointer::<u8>(|| panic!("in a verb")).is_null());
            assert_eq!(Errno::last(), Errno::EIO);
            assert_eq!(count(|| panic!("in a verb")), -libc::EIO);
            let mut wr = 7_u32;
            let mut bad = ptr::null_mut();
            // SAFETY: `bad` is a local.
            let answer = unsafe { post(&raw mut wr, &raw mut bad, || panic!("in a verb")) };
            assert_eq!((answer, bad), (libc::EIO, &raw mut wr));
        });
    }

    #[test]
    fn a_post_needs_no_bad_wr() {
        let mut wr = 7_u32;
        let first = &raw mut wr;
        let errno = Errno::ENOMEM;
        // SAFETY: NULL is allowed.
        unsafe {
            assert_eq!(post(first, ptr::null_mut(), || Ok(())), 0);
            let answer = post(first, ptr::null_mut(), || Err(Refused { errno, first }));
            assert_eq!(answer, errno.get());
        }
    }
}
