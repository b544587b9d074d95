// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause

//! The lock of the queues (provider `lock/word.rs`): one thread has it at a time and sees what the last one did,
//! and none sleeps for ever.

use std::sync::Arc;

use loom::cell::UnsafeCell;
use loom::thread;

use crate::atomic::{AtomicU32, Ordering};
use crate::{futex, word};

const TAKEN: u32 = 1;
const AWAITED: u32 = 2;

struct Counted {
    word: AtomicU32,
    count: UnsafeCell<u32>,
}

// SAFETY: loom runs one thread at a time, and reports whether two could have reached the count at once.
unsafe impl Sync for Counted {}

/// So many threads add 1 under the lock, each once. The standard library's `Arc`, since loom's cannot be dropped
/// where it has found a deadlock.
///
/// Of three threads, all interleavings in which no thread is interrupted more than three times: more take hours.
fn count(threads: u32, take: fn(&AtomicU32), give_back: fn(&AtomicU32)) {
    let mut model = loom::model::Builder::new();
    model.preemption_bound = (threads > 2).then_some(3);
    model.check(move || {
        let counted = Arc::new(Counted {
            word: AtomicU32::new(word::FREE),
            count: UnsafeCell::new(0),
        });
        let add = move |counted: &Counted| {
            take(&counted.word);
            // SAFETY: the lock under test; loom reports a race if two have it.
            counted
                .count
                .with_mut(|count| unsafe { *count = (*count).wrapping_add(1) });
            give_back(&counted.word);
        };
        let others: Vec<_> = (1..threads)
            .map(|_| {
                let counted = Arc::clone(&counted);
                thread::spawn(move || add(&counted))
            })
            .collect();
        add(&counted);
        for other in others {
            other.join().unwrap();
        }
        // SAFETY: the others have ended.
        assert_eq!(counted.count.with(|count| unsafe { *count }), threads);
        assert_eq!(counted.word.load(Ordering::Relaxed), word::FREE);
    });
}

#[test]
fn two_threads_have_it_one_after_the_other() {
    count(2, word::take, word::give_back);
}

/// Two may sleep, and who gives it back wakes one.
#[test]
fn of_three_threads_none_sleeps_for_ever() {
    count(3, word::take, word::give_back);
}

/// Two locks, which one thread has at a time and gives back together; the others wait for one each.
#[test]
fn of_those_that_wait_for_two_locks_none_sleeps_for_ever() {
    let mut model = loom::model::Builder::new();
    model.preemption_bound = Some(3);
    model.check(|| {
        let words = Arc::new([(), ()].map(|()| AtomicU32::new(word::FREE)));
        let others: Vec<_> = (0..2)
            .map(|at| {
                let words = Arc::clone(&words);
                thread::spawn(move || {
                    word::take(&words[at]);
                    word::give_back(&words[at]);
                })
            })
            .collect();
        word::take(&words[0]);
        word::take(&words[1]);
        assert_eq!(word::answer_for_both(&words[1], &words[0], 7), 7);
        for other in others {
            other.join().unwrap();
        }
    });
}

#[test]
#[should_panic = "Causality violation"]
fn what_the_last_one_did_is_not_seen_without_release() {
    count(2, word::take, |word| {
        if word.fetch_sub(TAKEN, Ordering::Relaxed) != TAKEN {
            word::wake(word);
        }
    });
}

#[test]
#[should_panic = "Causality violation"]
fn what_the_last_one_did_is_not_seen_without_acquire() {
    count(
        2,
        |word| {
            if word.fetch_or(TAKEN, Ordering::Relaxed) & TAKEN != 0 {
                word::take(word);
            }
        },
        word::give_back,
    );
}

/// Takes it; once it had to wait, so that the word is `mark`.
fn take_marking(word: &AtomicU32, mark: u32) {
    if word.fetch_or(TAKEN, Ordering::Acquire) & TAKEN == 0 {
        return;
    }
    let both = TAKEN | AWAITED;
    while word.swap(both, Ordering::Acquire) & TAKEN != 0 {
        futex::sleep_while(word, both);
    }
    word.fetch_and(mark, Ordering::Relaxed);
}

#[test]
fn a_sleeper_is_woken_where_whoever_waited_says_that_others_may() {
    count(
        3,
        |word| take_marking(word, TAKEN | AWAITED),
        word::give_back,
    );
}

#[test]
#[should_panic = "deadlock"]
fn a_sleeper_is_forgotten_where_whoever_waited_says_that_none_does() {
    count(3, |word| take_marking(word, TAKEN), word::give_back);
}

#[test]
#[should_panic = "deadlock"]
fn a_sleeper_is_forgotten_without_waking() {
    count(2, word::take, |word| {
        word.store(word::FREE, Ordering::Release);
    });
}
