// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause

//! The ledger of an SRQ.

use std::cell::Cell;

use super::entries::Entries;
use super::{FreeRecv, Receives};
use crate::cookie::{Cookie, CookieBase, VOID};
use crate::errno::{Errno, Result};
use crate::rarely::rarely;

/// The most receives an SRQ's ledger can have; above both drivers' limits (rxe 2^20, siw 327680).
pub(crate) const MAX_DEPTH: u32 = 1 << 30;

/// Whether sequence number `a` is before `b`.
pub(crate) fn is_before(a: u32, b: u32) -> bool {
    a != b && b.wrapping_sub(a) < 1 << 31
}

/// An outstanding receive, or room for one. Cells, so that another place can be looked for while places are gone
/// through in turn.
#[derive(Debug, Clone)]
pub(crate) struct Place {
    /// The caller's.
    wr_id: Cell<u64>,
    /// The receive's, or [`FREE`].
    cookie: Cell<u64>,
}

/// Of a place that is free, which no CQE has: it is neither a cookie nor a mark, nor what is left of one.
const FREE: u64 = {
    assert!(VOID != 3);
    3
};

/// Of the first place, which is never free: no CQE that leads to it has this one, which leads to the last.
const NOBODYS: u64 = u64::MAX;

impl Default for Place {
    fn default() -> Self {
        Self {
            wr_id: Cell::new(0),
            cookie: Cell::new(FREE),
        }
    }
}

impl Place {
    #[inline(always)]
    fn is_free(&self) -> bool {
        self.cookie.get() == FREE
    }

    /// Has it be that of this receive.
    #[inline(always)]
    fn enter(&self, wr_id: u64, cookie: u64) {
        self.wr_id.set(wr_id);
        self.cookie.set(cookie);
    }

    /// Frees it, if it is that of this receive; the `wr_id`.
    #[inline(always)]
    fn retire(&self, cookie: u64) -> Option<u64> {
        let wr_id = self.wr_id.get();
        if self.cookie.get() != cookie {
            return None;
        }
        self.cookie.set(FREE);
        Some(wr_id)
    }
}

/// Free places, twice as many as `depth` or more.
///
/// # Errors
///
/// `ENOMEM`; `EINVAL` if `depth` is above [`MAX_DEPTH`].
fn places(depth: u32) -> Result<Entries<Place>> {
    if depth > MAX_DEPTH {
        return Err(Errno::EINVAL);
    }
    let places = Entries::<Place>::new(depth.max(1).wrapping_mul(2))?;
    places.get(0).cookie.set(NOBODYS);
    Ok(places)
}

/// Outstanding receives of an SRQ, which complete in any order.
///
/// An entry's name is a number that counts up with each post, and says where its place is. Where an older
/// receive still has that place, the number is passed over. So of two receives the one that was posted later has the
/// higher one (its *sequence number*), and none has that of another before 2^32 are used.
///
/// # Invariants
///
/// There are at least twice as many places as `depth`, of which `outstanding` are taken, no more than the largest `depth`
/// there was. Each of these has the place that the entry of its cookie says.
#[derive(Debug)]
pub(crate) struct SharedLedger {
    places: Entries<Place>,
    depth: u32,
    outstanding: u32,
    /// The name of the next receive, if its place is free.
    next: u32,
}

/// An outstanding receive of an SRQ that the kernel has taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Taken {
    pub(crate) cookie: u64,
}

impl Taken {
    /// Which of all that were ever posted it is.
    pub(crate) fn sequence(self) -> u32 {
        Cookie::entry(self.cookie)
    }
}

/// The free place that the next receive gets.
#[derive(Debug)]
pub(crate) struct FreePlace<'l> {
    cookie: u64,
    place: &'l Place,
    next: &'l mut u32,
    outstanding: &'l mut u32,
}

impl FreeRecv for FreePlace<'_> {
    #[inline(always)]
    fn cookie(&self) -> u64 {
        self.cookie
    }

    #[inline(always)]
    fn enter(self, wr_id: u64) {
        self.place.enter(wr_id, self.cookie);
        *self.next = self.next.wrapping_add(1);
        *self.outstanding = self.outstanding.wrapping_add(1);
    }
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
            next: 0,
        })
    }

    /// As [`new`](Self::new), when names up to this one have been used.
    #[cfg(test)]
    pub(super) fn with_next(depth: u32, next: u32) -> Result<Self> {
        let new = Self::new(depth)?;
        Ok(Self { next, ..new })
    }

    /// Changes how many receives may be outstanding; those that are keep their names.
    ///
    /// # Errors
    ///
    /// As [`new`](Self::new); the ledger is then unchanged.
    pub(crate) fn resize(&mut self, depth: u32) -> Result<()> {
        let more = places(depth)?;
        if more.count() > self.places.count() {
            // No two that were apart come together: their names end in what they did, and more.
            for taken in self.taken() {
                let cookie = taken.cookie.get();
                more.get(Cookie::entry(cookie))
                    .enter(taken.wr_id.get(), cookie);
            }
            self.places = more;
        }
        self.depth = depth;
        Ok(())
    }

    /// Accepts no more receives.
    pub(crate) fn close(&mut self) {
        self.depth = 0;
    }

    /// Retires the receive of this cookie for its CQE; its `wr_id`, or `None` if it is not outstanding.
    #[inline(always)]
    pub(crate) fn complete(&mut self, cookie: u64) -> Option<u64> {
        let wr_id = self.place_of(cookie).retire(cookie)?;
        self.outstanding = self.outstanding.wrapping_sub(1);
        Some(wr_id)
    }

    #[inline(always)]
    fn place_of(&self, cookie: u64) -> &Place {
        self.places.get(Cookie::entry(cookie))
    }

    /// The place of the receive of this cookie, and those behind it, in which later ones mostly are.
    #[inline(always)]
    pub(crate) fn places_from(&self, cookie: u64) -> &[Place] {
        self.places.from(Cookie::entry(cookie))
    }

    /// As [`complete`](Self::complete), of a receive whose place is perhaps this one. [`pass`](Self::pass) counts it.
    #[inline(always)]
    pub(crate) fn retire(&self, place: &Place, cookie: u64) -> Option<u64> {
        match place.retire(cookie) {
            None => {
                rarely();
                self.place_of(cookie).retire(cookie)
            }
            wr_id => wr_id,
        }
    }

    /// Counts those that were [retired](Self::retire).
    #[inline(always)]
    pub(crate) fn pass(&mut self, count: u32) {
        self.outstanding = self.outstanding.wrapping_sub(count);
    }

    /// Whether the receive of this cookie is outstanding.
    pub(crate) fn has(&self, cookie: u64) -> bool {
        self.place_of(cookie).cookie.get() == cookie
    }

    /// Where the receives are.
    fn taken(&self) -> impl Iterator<Item = &Place> {
        // The first place is nobody's.
        self.places.all().iter().skip(1).filter(|it| !it.is_free())
    }

    /// The sequence number of the first of the last `untaken` receives, which the kernel has not taken; that of the
    /// next one if there are none.
    pub(crate) fn first_untaken(&self, untaken: u32) -> u32 {
        let mut first = self.next;
        let mut left = untaken;
        // They are outstanding, and within one round of the places: of each round, half or more was free for a post.
        for _ in 0..self.places.count() {
            if left == 0 {
                break;
            }
            first = first.wrapping_sub(1);
            let place = self.places.get(first);
            let is_one = !place.is_free() && Cookie::entry(place.cookie.get()) == first;
            left = left.wrapping_sub(u32::from(is_one));
        }
        first
    }

    /// The outstanding receives that came before sequence number `end`, oldest first.
    pub(crate) fn taken_before(&self, end: u32) -> Vec<Taken> {
        let mut taken: Vec<_> = self
            .taken()
            .map(|place| Taken {
                cookie: place.cookie.get(),
            })
            .filter(|taken| is_before(taken.sequence(), end))
            .collect();
        taken.sort_unstable_by_key(|taken| std::cmp::Reverse(end.wrapping_sub(taken.sequence())));
        taken
    }
}

impl<'l> Receives for &'l mut SharedLedger {
    #[inline(always)]
    fn fill(self, cookies: CookieBase, mut accept: impl FnMut(u64) -> Option<u64>) -> u32 {
        let room = self.depth.saturating_sub(self.outstanding);
        let first = self.next;
        let (mut name, mut passed_over) = (first, 0_u32);
        'all: loop {
            let entered = name.wrapping_sub(first).wrapping_sub(passed_over);
            if entered >= room {
                break;
            }
            let mut cookie = cookies.with(name);
            for place in self.places.run(name, room.wrapping_sub(entered)) {
                if place.is_free() {
                    let Some(wr_id) = accept(cookie) else {
                        name = Cookie::entry(cookie);
                        break 'all;
                    };
                    place.enter(wr_id, cookie);
                } else {
                    passed_over = passed_over.wrapping_add(1);
                }
                cookie = Cookie::next(cookie);
            }
            name = Cookie::entry(cookie);
        }
        self.next = name;
        let count = name.wrapping_sub(first).wrapping_sub(passed_over);
        self.outstanding = self.outstanding.wrapping_add(count);
        count
    }

    type Free = FreePlace<'l>;

    /// Where an older receive has the place of the next one, it takes a [list](Receives::fill) of one.
    #[inline(always)]
    fn free(self, cookies: CookieBase) -> Option<FreePlace<'l>> {
        if self.outstanding >= self.depth {
            return None;
        }
        let place = self.places.get(self.next);
        place.is_free().then_some(FreePlace {
            cookie: cookies.with(self.next),
            place,
            next: &mut self.next,
            outstanding: &mut self.outstanding,
        })
    }
}
