// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause

//! The 64-bit value that stands in a ring's `wr_id` field in place of the caller's.
//!
//! Both drivers carry `wr_id` through untouched (linux 6.1 `rxe_comp.c: make_send_cqe`,
//! `siw_qp.c: siw_sqe_complete`), and on an error CQE it is the only field that still tells which
//! queue the work request came from. The cookie therefore names the queue, its owner and the
//! ledger entry; the caller's own `wr_id` waits in the ledger.
//!
//! | bits | field | meaning |
//! |---|---|---|
//! | 63..62 | queue | 1 send, 2 receive, 3 shared receive; 0 is a [`Mark`], or nothing |
//! | 61..52 | generation | of the owner's place in [`Owners`](crate::owners::Owners) |
//! | 51..32 | owner | index in [`Owners`](crate::owners::Owners) |
//! | 31..0 | entry | the ledger's name for the entry |

/// The queue a work request was posted to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Queue {
    Send = 1,
    Recv = 2,
    /// The receive queue of an SRQ; the owner is the SRQ, not the QP that took the entry.
    Shared = 3,
}

/// Who owns a queue: a place in [`Owners`](crate::owners::Owners) and how often it was reused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct OwnerId {
    index: u32,
    generation: u32,
}

impl OwnerId {
    /// How many owners a context can name at a time.
    pub(crate) const COUNT: u32 = 1 << OWNER_BITS;

    /// `None` if `index` is not below [`OwnerId::COUNT`]; the generation wraps.
    pub(crate) fn new(index: u32, generation: u32) -> Option<Self> {
        (index < Self::COUNT).then_some(Self {
            index,
            generation: generation & GENERATION_MASK,
        })
    }

    pub(crate) fn index(self) -> u32 {
        self.index
    }

    pub(crate) fn generation(self) -> u32 {
        self.generation
    }

    /// The generation of whoever gets this place next.
    pub(crate) fn next_generation(self) -> u32 {
        self.generation.wrapping_add(1) & GENERATION_MASK
    }
}

const OWNER_BITS: u32 = 20;
const GENERATION_BITS: u32 = 10;
const GENERATION_MASK: u32 = (1 << GENERATION_BITS) - 1;
const OWNER_SHIFT: u32 = 32;
const GENERATION_SHIFT: u32 = OWNER_SHIFT + OWNER_BITS;
const QUEUE_SHIFT: u32 = GENERATION_SHIFT + GENERATION_BITS;
const _: () = assert!(QUEUE_SHIFT == 62);

/// A decoded cookie.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Cookie {
    pub(crate) queue: Queue,
    pub(crate) owner: OwnerId,
    pub(crate) entry: u32,
}

/// The value that no accepted work request carries: what a voided CQE is overwritten with.
pub(crate) const VOID: u64 = 0;

/// The part of a cookie that is the same for every entry of one queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct CookieBase(u64);

impl CookieBase {
    pub(crate) fn new(queue: Queue, owner: OwnerId) -> Self {
        Self(
            u64::from(queue as u8) << QUEUE_SHIFT
                | u64::from(owner.generation) << GENERATION_SHIFT
                | u64::from(owner.index) << OWNER_SHIFT,
        )
    }

    /// The value to write into the ring for ledger entry `entry`.
    pub(crate) fn with(self, entry: u32) -> u64 {
        self.0 | u64::from(entry)
    }
}

impl Cookie {
    /// The cookie of the entry behind that of another one, which is not the last of a ledger's places: names begin anew
    /// behind one of those. Behind such a one it still has the next entry, but not the queue.
    #[inline(always)]
    pub(crate) fn next(raw: u64) -> u64 {
        raw.wrapping_add(1)
    }

    /// The queue that a cookie names.
    pub(crate) fn queue(raw: u64) -> Option<Queue> {
        match raw >> QUEUE_SHIFT {
            1 => Some(Queue::Send),
            2 => Some(Queue::Recv),
            3 => Some(Queue::Shared),
            _ => None,
        }
    }

    /// The entry that a cookie names.
    pub(crate) fn entry(raw: u64) -> u32 {
        let [a, b, c, d, ..] = raw.to_le_bytes();
        u32::from_le_bytes([a, b, c, d])
    }

    /// The part of a cookie that names the queue: 32 bits.
    #[inline(always)]
    pub(crate) fn key(raw: u64) -> u64 {
        raw >> OWNER_SHIFT
    }

    /// The cookie of entry 0 of the same queue.
    pub(crate) fn with_entry_0(raw: u64) -> u64 {
        raw >> OWNER_SHIFT << OWNER_SHIFT
    }

    /// Reads a value that came back from the kernel; `None` if it names no queue.
    pub(crate) fn decode(raw: u64) -> Option<Self> {
        let queue = Self::queue(raw)?;
        let above = raw >> OWNER_SHIFT;
        let [o0, o1, o2, o3, ..] = above.to_le_bytes();
        let above = u32::from_le_bytes([o0, o1, o2, o3]);
        Some(Self {
            queue,
            owner: OwnerId {
                index: above & (OwnerId::COUNT - 1),
                generation: (above >> OWNER_BITS) & GENERATION_MASK,
            },
            entry: Self::entry(raw),
        })
    }
}

/// What the library's own entry in a ring carries, in place of a work request's cookie: the kernel
/// flushes it behind all others, which tells that the queue is dead and that it is done with it.
///
/// Queue 0; the entry has the number of the queue that it stands in, and above it the attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Mark {
    /// [`Queue::Send`] or [`Queue::Recv`].
    pub(crate) queue: Queue,
    pub(crate) owner: OwnerId,
    /// How many were put there before; of one that stands in a send queue ahead of death, the name of
    /// the entry in whose place it stands. 30 bits.
    pub(crate) attempt: u32,
}

impl Mark {
    /// The encoded mark that stands in a ring ahead of death.
    pub(crate) fn first(queue: Queue, owner: OwnerId) -> u64 {
        Self {
            queue,
            owner,
            attempt: 0,
        }
        .encode()
    }

    /// The encoded [`first`](Self::first) mark for the place of entry `name`.
    pub(crate) fn at(first: u64, name: u32) -> u64 {
        first | u64::from(name << 2)
    }

    /// Whether `name` is at or behind the entry in whose place the mark of this `attempt` stood.
    pub(crate) fn is_behind(name: u32, attempt: u32) -> bool {
        // Both without the two bits that the mark has no room for.
        (name.wrapping_sub(attempt) << 2) < 1 << 31
    }

    pub(crate) fn encode(self) -> u64 {
        CookieBase::new(self.queue, self.owner).0 & !(3 << QUEUE_SHIFT)
            | u64::from(self.queue as u8)
            | u64::from(self.attempt << 2)
    }

    /// Reads a value that came back from the kernel; `None` if it is no mark.
    pub(crate) fn decode(raw: u64) -> Option<Self> {
        let Cookie { owner, entry, .. } = Cookie::decode(raw | 1 << QUEUE_SHIFT)?;
        let queue = match entry & 3 {
            1 => Queue::Send,
            2 => Queue::Recv,
            _ => return None,
        };
        let attempt = entry >> 2;
        (raw >> QUEUE_SHIFT == 0).then_some(Self {
            queue,
            owner,
            attempt,
        })
    }
}

/// Whose a value is that came back from the kernel, a cookie or a mark.
pub(crate) fn owner(raw: u64) -> Option<OwnerId> {
    Cookie::decode(raw)
        .map(|cookie| cookie.owner)
        .or_else(|| Mark::decode(raw).map(|mark| mark.owner))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_cookie_survives_the_ring(
            queue in prop_oneof![Just(Queue::Send), Just(Queue::Recv), Just(Queue::Shared)],
            index in 0..OwnerId::COUNT,
            generation: u32,
            entry: u32,
        ) {
            let owner = OwnerId::new(index, generation).unwrap();
            let raw = CookieBase::new(queue, owner).with(entry);
            prop_assert_ne!(raw, VOID);
            prop_assert_eq!(Cookie::decode(raw), Some(Cookie { queue, owner, entry }));
        }

        #[test]
        fn any_value_decodes_or_is_refused(raw: u64) {
            match (Cookie::decode(raw), Mark::decode(raw)) {
                (Some(c), None) => prop_assert_eq!(CookieBase::new(c.queue, c.owner).with(c.entry), raw),
                (None, Some(mark)) => prop_assert_eq!(mark.encode(), raw),
                (None, None) => prop_assert_eq!(raw >> QUEUE_SHIFT, 0),
                both => prop_assert!(false, "{both:?}"),
            }
        }

        #[test]
        fn a_mark_survives_the_ring_and_is_no_cookie(
            queue in prop_oneof![Just(Queue::Send), Just(Queue::Recv)],
            index in 0..OwnerId::COUNT,
            generation: u32,
            attempt in 0..1_u32 << 30,
        ) {
            let mark = Mark { queue, owner: OwnerId::new(index, generation).unwrap(), attempt };
            let raw = mark.encode();
            prop_assert_ne!(raw, VOID);
            prop_assert_eq!(Cookie::decode(raw), None);
            prop_assert_eq!(Mark::decode(raw), Some(mark));
            prop_assert_eq!(owner(raw), Some(mark.owner));
        }
    }

    #[test]
    fn an_owner_out_of_range_is_refused() {
        assert_eq!(OwnerId::new(OwnerId::COUNT, 0), None);
    }
}
