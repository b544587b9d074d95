// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause

//! How an object of libibverbs' holds what it shares with others.

use std::fmt;
use std::ops::Deref;
use std::ptr::NonNull;
use std::sync::Arc;

/// An [`Arc`] that points to the value, not to the counts in front of it: whoever follows it on each post or poll needs
/// no second register for where the value begins.
///
/// # Invariants
///
/// It is of `Arc::into_raw`, and owns one of the counts.
pub(crate) struct Held<T>(NonNull<T>);

// SAFETY: as an `Arc`.
unsafe impl<T: Send + Sync> Send for Held<T> {}
// SAFETY: as an `Arc`.
unsafe impl<T: Send + Sync> Sync for Held<T> {}

impl<T> Held<T> {
    pub(crate) fn new(shared: Arc<T>) -> Self {
        // SAFETY: an `Arc` points to a value.
        Self(unsafe { NonNull::new_unchecked(Arc::into_raw(shared).cast_mut()) })
    }

    /// One more reference.
    pub(crate) fn arc(&self) -> Arc<T> {
        // SAFETY: a count of this value's is there (invariant), and one more for what is returned.
        unsafe {
            Arc::increment_strong_count(self.0.as_ptr());
            Arc::from_raw(self.0.as_ptr())
        }
    }
}

impl<T> Deref for Held<T> {
    type Target = T;

    #[inline(always)]
    fn deref(&self) -> &T {
        // SAFETY: it is there as long as its count (invariant).
        unsafe { self.0.as_ref() }
    }
}

impl<T> Drop for Held<T> {
    fn drop(&mut self) {
        // SAFETY: the count of this value's (invariant), which is gone with it.
        drop(unsafe { Arc::from_raw(self.0.as_ptr()) });
    }
}

impl<T: fmt::Debug> fmt::Debug for Held<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_keeps_its_value_and_lets_go_of_it() {
        let shared = Arc::new(7);
        let held = Held::new(Arc::clone(&shared));
        assert_eq!((*held, Arc::strong_count(&shared)), (7, 2));
        let more = held.arc();
        assert!(Arc::ptr_eq(&more, &shared));
        drop(held);
        assert_eq!(Arc::strong_count(&more), 2);
    }
}
