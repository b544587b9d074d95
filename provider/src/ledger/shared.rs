// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause

//! The ledger of an SRQ.

use super::{FreeRecv, Receives, entries};
use crate::errno::{Errno, Result};

/// Bits of an entry's name that say which place it has.
const PLACE_BITS: u32 = 21;
const PLACE_MASK: u32 = (1 << PLACE_BITS) - 1;
/// The next bit, which is set while the place is taken. The bits above count its reuses, so that adding this one
/// turns the name of a free place into that of its next entry, and the name of an entry into that of its place
/// when it is free again.
const TAKEN: u32 = 1 << PLACE_BITS;

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
    /// The entry's while taken; see [`TAKEN`].
    name: u32,
    /// Which of all that were ever posted it is, while taken.
    sequence: u32,
}

impl Place {
    /// Whether it is that of entry `name`, and taken.
    #[inline(always)]
    fn has(&self, name: u32) -> bool {
        self.name == name && name & TAKEN != 0
    }

    /// The name of the next entry in it, which is free.
    #[inline(always)]
    fn next_name(&self) -> u32 {
        self.name.wrapping_add(TAKEN)
    }

    /// Has an entry in it; the next free place.
    #[inline(always)]
    fn take(&mut self, sequence: u32, wr_id: u64) -> u32 {
        let [a, b, c, d, ..] = self.content.to_le_bytes();
        *self = Self {
            content: wr_id,
            name: self.next_name(),
            sequence,
        };
        u32::from_le_bytes([a, b, c, d])
    }
}

/// The free place that the next receive gets.
#[derive(Debug)]
pub(crate) struct FreePlace<'l> {
    name: u32,
    place: &'l mut Place,
    first_free: &'l mut u32,
    posted: &'l mut u32,
    outstanding: &'l mut u32,
}

impl FreeRecv for FreePlace<'_> {
    #[inline(always)]
    fn name(&self) -> u32 {
        self.name
    }

    #[inline(always)]
    fn enter(self, wr_id: u64) {
        *self.first_free = self.place.take(*self.posted, wr_id);
        *self.posted = self.posted.wrapping_add(1);
        *self.outstanding = self.outstanding.wrapping_add(1);
    }
}

/// Free places, in a list from the first to beyond the last; at least `depth`.
///
/// # Errors
///
/// `ENOMEM`; `EINVAL` if `depth` is above [`MAX_DEPTH`].
fn places(depth: u32) -> Result<Box<[Place]>> {
    if depth > MAX_DEPTH {
        return Err(Errno::EINVAL);
    }
    let (mut places, _) = entries::<Place>(depth)?;
    for (at, place) in (0..).zip(&mut places) {
        place.name = at;
        place.content = u64::from(at).wrapping_add(1);
    }
    Ok(places)
}

/// Outstanding receives of an SRQ, which complete in any order.
///
/// An entry's name is its place and a count of how often that place was used, so that a CQE which
/// comes twice is recognised.
///
/// # Invariants
///
/// There are no fewer places than `depth`, and those that are not taken are in a list from `first_free` on. It
/// ends at a place that there is not.
#[derive(Debug)]
pub(crate) struct SharedLedger {
    places: Box<[Place]>,
    depth: u32,
    outstanding: u32,
    first_free: u32,
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
        Ok(Self {
            places: places(depth)?,
            depth,
            outstanding: 0,
            first_free: 0,
            posted: 0,
        })
    }

    /// Changes how many receives may be outstanding; those that are keep their names.
    ///
    /// # Errors
    ///
    /// As [`new`](Self::new); the ledger is then unchanged.
    pub(crate) fn resize(&mut self, depth: u32) -> Result<()> {
        if Self::index(depth) > self.places.len() {
            let mut places = places(depth)?;
            // The list of the free ones ended where the new ones begin: it goes on there.
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
    #[inline(always)]
    pub(crate) fn complete(&mut self, name: u32) -> Option<u64> {
        let at = name & PLACE_MASK;
        let place = self.places.get_mut(Self::index(at))?;
        if !place.has(name) {
            return None;
        }
        let wr_id = place.content;
        place.content = u64::from(self.first_free);
        place.name = name.wrapping_add(TAKEN);
        self.first_free = at;
        self.outstanding = self.outstanding.wrapping_sub(1);
        Some(wr_id)
    }

    /// The sequence number of an outstanding receive.
    pub(crate) fn sequence(&self, name: u32) -> Option<u32> {
        let place = self.places.get(Self::index(name & PLACE_MASK))?;
        place.has(name).then_some(place.sequence)
    }

    /// The sequence number that the next receive will have when the last `untaken` are not counted:
    /// that of the first which the kernel has not taken.
    pub(crate) fn first_untaken(&self, untaken: u32) -> u32 {
        self.posted.wrapping_sub(untaken)
    }

    /// The outstanding receives that came before sequence number `end`, oldest first.
    pub(crate) fn taken_before(&self, end: u32) -> Vec<Taken> {
        let mut taken: Vec<_> = self
            .places
            .iter()
            .filter(|place| place.name & TAKEN != 0)
            .map(|place| Taken {
                name: place.name,
                sequence: place.sequence,
            })
            .filter(|taken| is_before(taken.sequence, end))
            .collect();
        taken.sort_unstable_by_key(|taken| std::cmp::Reverse(end.wrapping_sub(taken.sequence)));
        taken
    }

    fn index(place: u32) -> usize {
        // CAST: u32 fits usize on every target that libibverbs supports.
        place as usize
    }
}

impl Receives for SharedLedger {
    #[inline(always)]
    fn fill(&mut self, mut accept: impl FnMut(u32) -> Option<u64>) -> u32 {
        let first = self.posted;
        let (mut first_free, mut posted) = (self.first_free, first);
        let mut room = self.depth.saturating_sub(self.outstanding);
        while room > 0
            && let Some(place) = self.places.get_mut(Self::index(first_free))
        {
            let Some(wr_id) = accept(place.next_name()) else {
                break;
            };
            first_free = place.take(posted, wr_id);
            posted = posted.wrapping_add(1);
            room = room.wrapping_sub(1);
        }
        self.first_free = first_free;
        self.posted = posted;
        let count = posted.wrapping_sub(first);
        self.outstanding = self.outstanding.wrapping_add(count);
        count
    }

    type Free<'l> = FreePlace<'l>;

    #[inline(always)]
    fn free(&mut self) -> Option<FreePlace<'_>> {
        if self.outstanding >= self.depth {
            return None;
        }
        let place = self.places.get_mut(Self::index(self.first_free))?;
        Some(FreePlace {
            name: place.next_name(),
            place,
            first_free: &mut self.first_free,
            posted: &mut self.posted,
            outstanding: &mut self.outstanding,
        })
    }
}
