// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause

//! The ledger of an SRQ.

use super::{Receives, entries};
use crate::errno::Result;

/// Bits of an entry's name that say which place it has; the rest count the reuses of that place.
const PLACE_BITS: u32 = 21;
const PLACE_MASK: u32 = (1 << PLACE_BITS) - 1;
/// Marks the end of the list of free places.
const NONE: u32 = u32::MAX;

/// The most entries an SRQ's ledger can have; above both drivers' limits (rxe 2^20, siw 327680).
pub(crate) const MAX_DEPTH: u32 = 1 << PLACE_BITS;

/// Whether sequence number `a` is before `b`.
pub(crate) fn is_before(a: u32, b: u32) -> bool {
    a != b && b.wrapping_sub(a) < 1 << 31
}

#[derive(Debug, Clone, Copy, Default)]
struct Place {
    /// The caller's `wr_id` while taken, the next free place otherwise.
    content: u64,
    /// The name's reuse count, shifted above the place; odd while taken.
    life: u32,
    /// Which of all that were ever posted it is, while taken.
    sequence: u32,
}

/// Outstanding receives of an SRQ, which complete in any order.
///
/// An entry's name is its place and a count of how often that place was used, so that a CQE which
/// comes twice is recognised.
#[derive(Debug)]
pub(crate) struct SharedLedger {
    places: Box<[Place]>,
    depth: u32,
    outstanding: u32,
    first_free: u32,
    /// Places from here on were never used.
    fresh: u32,
    /// How many were ever posted; wraps.
    posted: u32,
}

/// An outstanding receive of an SRQ that the kernel has taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Taken {
    pub(crate) name: u32,
    /// Which of all that were ever posted it is.
    pub(crate) sequence: u32,
}

impl SharedLedger {
    /// An empty ledger for at most `depth` outstanding receives.
    ///
    /// # Errors
    ///
    /// `ENOMEM`; `EINVAL` if `depth` is above [`MAX_DEPTH`].
    pub(crate) fn new(depth: u32) -> Result<Self> {
        let (places, _) = entries(Self::checked(depth)?)?;
        Ok(Self {
            places,
            depth,
            outstanding: 0,
            first_free: NONE,
            fresh: 0,
            posted: 0,
        })
    }

    /// Changes how many receives may be outstanding; those that are keep their names.
    ///
    /// # Errors
    ///
    /// As [`new`](Self::new); the ledger is then unchanged.
    pub(crate) fn resize(&mut self, depth: u32) -> Result<()> {
        if Self::index(Self::checked(depth)?) > self.places.len() {
            let (mut places, _) = entries(depth)?;
            for (new, old) in places.iter_mut().zip(&self.places) {
                *new = *old;
            }
            self.places = places;
        }
        self.depth = depth;
        Ok(())
    }

    /// Accepts no more receives.
    pub(crate) fn close(&mut self) {
        self.depth = 0;
    }

    /// Retires entry `name` for its CQE; `None` if it is not outstanding.
    pub(crate) fn complete(&mut self, name: u32) -> Option<u64> {
        let at = name & PLACE_MASK;
        let place = self.places.get_mut(Self::index(at))?;
        if place.life & 1 == 0 || Self::name(at, place.life) != name {
            return None;
        }
        let wr_id = place.content;
        place.content = u64::from(self.first_free);
        place.life = place.life.wrapping_add(1);
        self.first_free = at;
        self.outstanding = self.outstanding.wrapping_sub(1);
        Some(wr_id)
    }

    /// The sequence number of an outstanding receive.
    pub(crate) fn sequence(&self, name: u32) -> Option<u32> {
        let at = name & PLACE_MASK;
        let place = self.places.get(Self::index(at))?;
        (place.life & 1 == 1 && Self::name(at, place.life) == name).then_some(place.sequence)
    }

    /// The sequence number that the next receive will have when the last `untaken` are not counted:
    /// that of the first which the kernel has not taken.
    pub(crate) fn first_untaken(&self, untaken: u32) -> u32 {
        self.posted.wrapping_sub(untaken)
    }

    /// The outstanding receives that came before sequence number `end`, oldest first.
    pub(crate) fn taken_before(&self, end: u32) -> Vec<Taken> {
        let mut taken: Vec<_> = (0..self.fresh)
            .zip(&self.places)
            .filter(|(_, place)| place.life & 1 == 1)
            .map(|(at, place)| Taken {
                name: Self::name(at, place.life),
                sequence: place.sequence,
            })
            .filter(|taken| is_before(taken.sequence, end))
            .collect();
        taken.sort_unstable_by_key(|taken| std::cmp::Reverse(end.wrapping_sub(taken.sequence)));
        taken
    }

    fn checked(depth: u32) -> Result<u32> {
        if depth > MAX_DEPTH {
            Err(crate::errno::Errno::EINVAL)
        } else {
            Ok(depth)
        }
    }

    fn name(place: u32, life: u32) -> u32 {
        place | (life >> 1) << PLACE_BITS
    }

    fn index(place: u32) -> usize {
        // CAST: u32 fits usize on every target that libibverbs supports.
        place as usize
    }
}

#[expect(
    clippy::indexing_slicing,
    reason = "free and fresh places are inside: no more than depth are taken, and there are at least depth"
)]
impl Receives for SharedLedger {
    fn is_full(&self) -> bool {
        self.outstanding >= self.depth
    }

    fn next(&self) -> u32 {
        let place = if self.first_free == NONE {
            self.fresh
        } else {
            self.first_free
        };
        Self::name(place, self.places[Self::index(place)].life.wrapping_add(1))
    }

    fn push(&mut self, wr_id: u64) {
        debug_assert!(!self.is_full());
        let place = if self.first_free == NONE {
            let place = self.fresh;
            self.fresh = place.wrapping_add(1);
            place
        } else {
            let place = self.first_free;
            let [a, b, c, d, ..] = self.places[Self::index(place)].content.to_le_bytes();
            self.first_free = u32::from_le_bytes([a, b, c, d]);
            place
        };
        let place = &mut self.places[Self::index(place)];
        place.content = wr_id;
        place.life = place.life.wrapping_add(1);
        place.sequence = self.posted;
        self.posted = self.posted.wrapping_add(1);
        self.outstanding = self.outstanding.wrapping_add(1);
    }
}
