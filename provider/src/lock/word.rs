// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause

//! What the word of a lock says, and how it is taken and given back.
//!
//! The model tests (`tests/model`) run these very functions in all interleavings; `atomic` and `futex` are the
//! standard library's and the kernel's here, and loom's there.

use std::ffi::c_int;
use std::hint::black_box;

use super::atomic::{AtomicU32, Ordering, spin_loop};
use super::futex;

pub(super) const FREE: u32 = 0;
const TAKEN: u32 = 1;
/// Taken, and somebody may sleep until it is given back.
const AWAITED: u32 = 2;

/// Waits until nobody has it, and takes it.
#[inline(always)]
pub(super) fn take(word: &AtomicU32) {
    if !is_taken_at_once(word) {
        wait(word);
    }
}

/// Takes it, if nobody has it.
#[inline(always)]
pub(super) fn is_taken_at_once(word: &AtomicU32) -> bool {
    // Acquire: pairs with the Release of whoever has given it back.
    word.compare_exchange(FREE, TAKEN, Ordering::Acquire, Ordering::Relaxed)
        .is_ok()
}

/// Gives it back; nothing if nobody has it.
#[inline(always)]
pub(super) fn give_back(word: &AtomicU32) {
    if !is_free_at_once(word) {
        free(word);
    }
}

/// Gives it back, which is the last that a verb does; the verb's `answer`.
#[inline(always)]
pub(super) fn answer(word: &AtomicU32, answer: c_int) -> c_int {
    if is_free_at_once(word) {
        answer
    } else {
        free_and_answer(word, answer)
    }
}

/// As [`answer`], of two; nobody is woken before both are free.
#[inline(always)]
pub(super) fn answer_for_both(first: &AtomicU32, second: &AtomicU32, answer: c_int) -> c_int {
    if is_free_at_once(first) {
        self::answer(second, answer)
    } else {
        free_both_and_answer(first, second, answer)
    }
}

/// Gives it back, if nobody waits; else nobody can take it before [`free`].
#[inline(always)]
pub(super) fn is_free_at_once(word: &AtomicU32) -> bool {
    // Release: pairs with the Acquire of whoever takes it next.
    word.fetch_sub(1, Ordering::Release) == TAKEN
}

/// Gives it back, and wakes one who waits.
#[cold]
#[inline(never)]
pub(super) fn free(word: &AtomicU32) {
    // Release: as in `is_free_at_once`.
    word.swap(FREE, Ordering::Release);
    futex::wake_one(word);
}

// They end the verb in its stead: functions that cannot unwind, and whose answer the compiler does not foresee. So it
// needs no stack for a call.
#[cold]
#[inline(never)]
extern "C" fn free_and_answer(word: &AtomicU32, answer: c_int) -> c_int {
    free(word);
    black_box(answer)
}

#[cold]
#[inline(never)]
extern "C" fn free_both_and_answer(first: &AtomicU32, second: &AtomicU32, answer: c_int) -> c_int {
    let is_second_free = is_free_at_once(second);
    free(first);
    if !is_second_free {
        free(second);
    }
    black_box(answer)
}

#[cold]
#[inline(never)]
fn wait(word: &AtomicU32) {
    let mut looks = futex::LOOKS;
    // Relaxed: only a look.
    while looks > 0 && word.load(Ordering::Relaxed) != FREE {
        spin_loop();
        looks = looks.wrapping_sub(1);
    }
    // Acquire: as in `is_taken_at_once`. Whoever takes it here does not know whether others sleep, and says so.
    while word.swap(AWAITED, Ordering::Acquire) != FREE {
        futex::sleep_while(word, AWAITED);
    }
}
