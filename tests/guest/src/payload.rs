// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause

//! Message contents that identify themselves, and random numbers that can be replayed.

use std::env;
use std::sync::OnceLock;
use std::time::{SystemTime, UNIX_EPOCH};

static SEED: OnceLock<u64> = OnceLock::new();

/// The seed of this process's random numbers, if it has drawn any.
#[must_use]
pub fn seed_in_use() -> Option<u64> {
    SEED.get().copied()
}

/// A small random number generator (splitmix64).
#[derive(Debug, Clone)]
pub struct Random(u64);

impl Random {
    /// Starts from the environment variable `SEED`, or from the clock; a failing case reports the
    /// seed, so that it can be replayed.
    ///
    /// # Panics
    ///
    /// If `SEED` is set but is no number.
    #[must_use]
    pub fn replayable() -> Self {
        let seed = SEED.get_or_init(|| match env::var("SEED") {
            Ok(text) => match text.parse() {
                Ok(seed) => seed,
                Err(error) => panic!("SEED={text}: {error}"),
            },
            Err(_) => SystemTime::now()
                .duration_since(UNIX_EPOCH)
                .map_or(0, |elapsed| u64::from(elapsed.subsec_nanos())),
        });
        eprintln!("guest: SEED={seed}");
        Self(*seed)
    }

    /// The next number.
    pub fn draw(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number from `low` to `high`, both included.
    pub fn between(&mut self, low: usize, high: usize) -> usize {
        let span = u64::try_from(high - low + 1).unwrap_or(u64::MAX);
        low + usize::try_from(self.draw() % span).unwrap_or(0)
    }
}

/// `len` bytes that belong to message `number`: any two messages differ, and so do any two places
/// of one message.
#[must_use]
pub fn message(number: u64, len: usize) -> Vec<u8> {
    let mut random = Random(number);
    let mut bytes = Vec::with_capacity(len + 8);
    while bytes.len() < len {
        bytes.extend_from_slice(&random.draw().to_le_bytes());
    }
    bytes.truncate(len);
    bytes
}

/// Cuts `len` bytes into `pieces` random pieces, none of them empty if there are enough bytes.
#[must_use]
pub fn cut(random: &mut Random, len: usize, pieces: usize) -> Vec<usize> {
    let least = usize::from(len >= pieces);
    let spare = len - least * pieces;
    let mut marks: Vec<usize> = (1..pieces).map(|_| random.between(0, spare)).collect();
    marks.sort_unstable();
    marks.push(spare);
    let mut from = 0;
    marks
        .iter()
        .map(|&mark| mark - std::mem::replace(&mut from, mark) + least)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_add_up() {
        let mut random = Random(7);
        for pieces in 1..40 {
            let lengths = cut(&mut random, 1000, pieces);
            assert_eq!(lengths.len(), pieces);
            assert_eq!(lengths.iter().sum::<usize>(), 1000);
            assert!(!lengths.contains(&0));
            let lengths = cut(&mut random, pieces - 1, pieces);
            assert_eq!((lengths.len(), lengths.iter().sum()), (pieces, pieces - 1));
        }
    }

    #[test]
    fn messages_differ() {
        assert_eq!(message(1, 100), message(1, 100));
        assert_ne!(message(1, 100), message(2, 100));
        assert_eq!(message(1, 100)[..7], message(1, 7)[..]);
    }

    #[test]
    fn numbers_stay_between() {
        let mut random = Random(7);
        let drawn: Vec<usize> = (0..1000).map(|_| random.between(3, 5)).collect();
        assert!((3..=5).all(|number| drawn.contains(&number)));
        assert!(drawn.iter().all(|number| (3..=5).contains(number)));
    }
}
