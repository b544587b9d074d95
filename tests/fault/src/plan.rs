// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause

//! The fault that the process is to suffer, and when.

use std::sync::atomic::{AtomicU32, Ordering};
use std::{env, process, slice};

const VARIABLE: &str = "LASTWQE_FAULT";

/// Where a fault can strike.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Event {
    /// A mapping is about to be made.
    Mmap,
    /// A mapping has been made.
    Ring,
    /// The kernel has answered with the place of a ring.
    Answer,
    /// libibverbs' register function is looked up.
    PrivateAbi,
    /// The function that fills in a context's operations is looked up.
    Layout,
    /// The user ABI version of a device is read.
    KernelAbi,
}

/// What a fault writes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Scribble {
    /// Nothing: the event itself is the fault.
    Nothing,
    /// This byte, everywhere.
    Fill(u8),
    /// A word at an offset.
    Word(usize, u32),
    /// A word at an offset, bits of which are flipped.
    Flip(usize, u32),
}

/// The fault, if it strikes this `event`; a counted one is disarmed by that.
pub(crate) fn struck(event: Event) -> Option<Scribble> {
    static SEEN: AtomicU32 = AtomicU32::new(0);
    let wanted = env::var(VARIABLE).ok()?;
    // A fault that never strikes would prove whatever the test says.
    let (when, times, scribble) = parse(&wanted).unwrap_or_else(|| process::abort());
    if when != event {
        return None;
    }
    if let Some((first, last)) = times {
        // Relaxed: the process has one thread.
        let seen = SEEN.fetch_add(1, Ordering::Relaxed).wrapping_add(1);
        if seen < first {
            return None;
        }
        if seen < last {
            return Some(scribble);
        }
        SEEN.store(0, Ordering::Relaxed);
        // SAFETY: the process has one thread, so nobody reads the environment meanwhile.
        unsafe { env::remove_var(VARIABLE) };
    }
    Some(scribble)
}

/// The first and the last of an event's numbers at which it strikes.
type Times = (u32, u32);

/// The event, its first and last number if it is counted, and what is written.
fn parse(wanted: &str) -> Option<(Event, Option<Times>, Scribble)> {
    let words: Vec<&str> = wanted.split(':').collect();
    let number = |word: &str| word.parse().ok().filter(|n: &u32| *n > 0);
    let once = |word: &str| number(word).map(|nth| (nth, nth));
    let times = |word: &str| match word.split_once('-') {
        Some((first, last)) => Some((number(first)?, number(last)?)),
        None => once(word),
    };
    Some(match *words.as_slice() {
        ["mmap", nth] => (Event::Mmap, Some(times(nth)?), Scribble::Nothing),
        ["ring", nth, how] => (Event::Ring, Some(once(nth)?), Scribble::parse(how)?),
        ["answer", nth, how] => (Event::Answer, Some(once(nth)?), Scribble::parse(how)?),
        ["private_abi"] => (Event::PrivateAbi, None, Scribble::Nothing),
        ["layout"] => (Event::Layout, None, Scribble::Nothing),
        ["kernel_abi"] => (Event::KernelAbi, None, Scribble::Nothing),
        _ => return None,
    })
}

impl Scribble {
    fn parse(how: &str) -> Option<Self> {
        let word = |offset, value| {
            let offset = usize::from_str_radix(offset, 16).ok()?;
            Some((offset, u32::from_str_radix(value, 16).ok()?))
        };
        if let Some((offset, value)) = how.split_once('=') {
            return word(offset, value).map(|(offset, value)| Self::Word(offset, value));
        }
        if let Some((offset, bits)) = how.split_once('^') {
            return word(offset, bits).map(|(offset, bits)| Self::Flip(offset, bits));
        }
        match how {
            "ones" => Some(Self::Fill(0xff)),
            "zeros" => Some(Self::Fill(0)),
            _ => None,
        }
    }

    /// Writes to the `len` bytes at `at`. A word that is not inside ends the process.
    ///
    /// # Safety
    ///
    /// The bytes may be read and written, and nobody else uses them meanwhile.
    pub(crate) unsafe fn over(self, at: *mut u8, len: usize) {
        // SAFETY: the caller's promise.
        let bytes = unsafe { slice::from_raw_parts_mut(at, len) };
        let mut change = |offset: usize, new: &dyn Fn(u32) -> u32| {
            let Some(word) = bytes.get_mut(offset..).and_then(<[u8]>::first_chunk_mut) else {
                process::abort()
            };
            *word = new(u32::from_ne_bytes(*word)).to_ne_bytes();
        };
        match self {
            Self::Nothing => {}
            Self::Fill(byte) => bytes.fill(byte),
            Self::Word(offset, value) => change(offset, &|_| value),
            Self::Flip(offset, bits) => change(offset, &|old| old ^ bits),
        }
    }
}
