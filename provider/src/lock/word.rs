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
/// Somebody has it.
const TAKEN: u32 = 1;
/// Somebody may sleep until it is given back.
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
    // One bit that is set and asked for takes fewer instructions than a comparison with the whole word.
    // Acquire: pairs with the Release of whoever has given it back.
    word.fetch_or(TAKEN, Ordering::Acquire) & TAKEN == 0
}

/// Whether somebody has it.
#[inline(always)]
pub(super) fn is_taken(word: &AtomicU32) -> bool {
    // Relaxed: only a look.
    word.load(Ordering::Relaxed) & TAKEN != 0
}

/// Gives it back.
#[inline(always)]
pub(super) fn give_back(word: &AtomicU32) {
    if !is_free_at_once(word) {
        wake(word);
    }
}

/// Gives it back, which is the last that a verb does; the verb's `answer`.
#[inline(always)]
pub(super) fn answer(word: &AtomicU32, answer: c_int) -> c_int {
    if is_free_at_once(word) {
        answer
    } else {
        wake_and_answer(word, answer)
    }
}

/// As [`answer`], of two. Whoever waits for the first is woken before the second is given back, which may keep the
/// memory of the first.
#[inline(always)]
pub(super) fn answer_for_both(first: &AtomicU32, second: &AtomicU32, answer: c_int) -> c_int {
    if is_free_at_once(first) {
        self::answer(second, answer)
    } else {
        wake_and_answer_for(first, second, answer)
    }
}

/// Gives it back; whether nobody waits. Else it is for [`wake`] to go on.
#[inline(always)]
pub(super) fn is_free_at_once(word: &AtomicU32) -> bool {
    // Release: pairs with the Acquire of whoever takes it next.
    word.fetch_sub(TAKEN, Ordering::Release) == TAKEN
}

/// Wakes one who waits, when it was given back. If another has taken it meanwhile, that one wakes in turn: it finds that
/// somebody may sleep.
///
/// So the word must be there for longer than the lock is taken. That of a queue is: it is freed by whoever has had the
/// lock of its CQ since, under which polls use it, or by an `Arc` that all others hold who do.
#[cold]
#[inline(never)]
pub(super) fn wake(word: &AtomicU32) {
    // Relaxed: nothing is passed on; it was given back by `is_free_at_once`.
    let is_free = word.compare_exchange(AWAITED, FREE, Ordering::Relaxed, Ordering::Relaxed);
    if is_free.is_ok() {
        futex::wake_one(word);
    }
}

// They end the verb in its stead: functions that cannot unwind, and whose answer the compiler does not foresee. So it
// needs no stack for a call.
#[cold]
#[inline(never)]
extern "C" fn wake_and_answer(word: &AtomicU32, answer: c_int) -> c_int {
    wake(word);
    black_box(answer)
}

#[cold]
#[inline(never)]
extern "C" fn wake_and_answer_for(first: &AtomicU32, second: &AtomicU32, answer: c_int) -> c_int {
    wake(first);
    give_back(second);
    black_box(answer)
}

#[cold]
#[inline(never)]
fn wait(word: &AtomicU32) {
    let mut looks = futex::LOOKS;
    while looks > 0 && is_taken(word) {
        spin_loop();
        looks = looks.wrapping_sub(1);
    }
    // Acquire: as in `is_taken_at_once`. Whoever takes it here does not know whether others sleep, and says so.
    while word.swap(TAKEN | AWAITED, Ordering::Acquire) & TAKEN != 0 {
        futex::sleep_while(word, TAKEN | AWAITED);
    }
}
