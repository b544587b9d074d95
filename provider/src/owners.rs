// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause

//! The table that leads from a cookie to the QP or SRQ whose ledger has the entry.
//!
//! `poll_cq` reads it without a lock and without hashing. It may follow what it finds because of
//! the CQ lock it holds: a QP leaves the table under the locks of both its CQs before it is freed,
//! and an SRQ outlives its QPs, whose unread CQEs are voided before they go (`qp.rs: destroy`).

use std::ptr::{self, NonNull};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicPtr, AtomicU32, AtomicUsize, Ordering};

use crate::cookie::{OwnerId, Queue};
use crate::errno::{Errno, Result};
use crate::lock::{Mutex, lock};

/// Shelf `n` has `FIRST_SHELF << n` places.
const FIRST_SHELF: u32 = 64;
const SHELVES: usize = (OwnerId::COUNT / FIRST_SHELF).ilog2() as usize + 1;

/// One place of the table.
///
/// `at` is the publication: stored with Release after the others, loaded with Acquire by
/// [`Owners::find`].
#[derive(Debug, Default)]
struct Place {
    at: AtomicPtr<()>,
    generation: AtomicU32,
    send_key: AtomicUsize,
    recv_key: AtomicUsize,
}

/// An object that can be found: where it is, and the keys of the CQs that may look for it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Owner {
    pub(crate) at: NonNull<()>,
    pub(crate) send_key: usize,
    pub(crate) recv_key: usize,
}

impl Owner {
    /// The key of an SRQ, which every CQ may look for. No CQ has it: it is not a multiple of 2.
    const ANY_CQ: usize = usize::MAX;

    /// A QP whose completions go to the CQs of these keys.
    pub(crate) fn qp<T>(qp: NonNull<T>, send_key: usize, recv_key: usize) -> Self {
        Self {
            at: qp.cast(),
            send_key,
            recv_key,
        }
    }

    /// An SRQ.
    pub(crate) fn srq<T>(srq: NonNull<T>) -> Self {
        Self {
            at: srq.cast(),
            send_key: Self::ANY_CQ,
            recv_key: Self::ANY_CQ,
        }
    }
}

#[derive(Debug, Default)]
struct Ids {
    free: Vec<u32>,
    /// Indices from here on were never used.
    fresh: u32,
}

/// The owners of a context's queues.
#[derive(Debug, Default)]
pub(crate) struct Owners {
    shelves: [OnceLock<Box<[Place]>>; SHELVES],
    ids: Mutex<Ids>,
}

/// Which shelf `index` is on, and where there.
fn locate(index: u32) -> (usize, usize) {
    let from_first = index.wrapping_add(FIRST_SHELF);
    let shelf = (from_first / FIRST_SHELF).ilog2();
    let start = FIRST_SHELF << shelf;
    // CAST: u32 fits usize on every target that libibverbs supports.
    (shelf as usize, from_first.wrapping_sub(start) as usize)
}

impl Owners {
    fn place(&self, index: u32) -> Option<&Place> {
        let (shelf, at) = locate(index);
        self.shelves.get(shelf)?.get()?.get(at)
    }

    /// Reserves a name; it leads nowhere until [`publish`](Self::publish).
    ///
    /// # Errors
    ///
    /// `ENOMEM` if there is no memory or no name left.
    pub(crate) fn reserve(&self) -> Result<OwnerId> {
        let mut ids = lock(&self.ids);
        // Room for the way back, so that `release` cannot fail.
        let known = usize::try_from(ids.fresh).map_err(|_| Errno::ENOMEM)?;
        let listed = ids.free.len();
        ids.free
            .try_reserve(known.saturating_add(1).saturating_sub(listed))?;
        let index = match ids.free.pop() {
            Some(index) => index,
            None => {
                let index = ids.fresh;
                if index >= OwnerId::COUNT {
                    return Err(Errno::ENOMEM);
                }
                self.build_shelf(index)?;
                ids.fresh = index.wrapping_add(1);
                index
            }
        };
        let place = self.place(index).ok_or(Errno::ENOMEM)?;
        // Relaxed: written under the mutex only, which is held.
        let generation = place.generation.load(Ordering::Relaxed);
        OwnerId::new(index, generation).ok_or(Errno::ENOMEM)
    }

    fn build_shelf(&self, index: u32) -> Result<()> {
        let (shelf, _) = locate(index);
        let Some(cell) = self.shelves.get(shelf) else {
            return Err(Errno::ENOMEM);
        };
        if cell.get().is_none() {
            let len = usize::try_from(FIRST_SHELF << shelf).map_err(|_| Errno::ENOMEM)?;
            let mut places = Vec::new();
            places.try_reserve_exact(len)?;
            places.resize_with(len, Place::default);
            // The mutex is held: nobody else has filled it meanwhile.
            cell.get_or_init(|| places.into_boxed_slice());
        }
        Ok(())
    }

    /// Lets `id` lead to `owner`.
    pub(crate) fn publish(&self, id: OwnerId, owner: Owner) {
        if let Some(place) = self.place(id.index()) {
            // Relaxed: published by the Release below.
            place.send_key.store(owner.send_key, Ordering::Relaxed);
            place.recv_key.store(owner.recv_key, Ordering::Relaxed);
            // Release: pairs with the Acquire in `find`, so that a poller sees a finished object.
            place.at.store(owner.at.as_ptr(), Ordering::Release);
        }
    }

    /// Lets `id` lead nowhere, now and when its place is reused.
    pub(crate) fn release(&self, id: OwnerId) {
        let mut ids = lock(&self.ids);
        if let Some(place) = self.place(id.index()) {
            // Relaxed: a poller that must not find the old owner any more takes the CQ lock after
            // the caller released it.
            place.at.store(ptr::null_mut(), Ordering::Relaxed);
            place
                .generation
                .store(id.next_generation(), Ordering::Relaxed);
            ids.free.push(id.index());
        }
    }

    /// The owner that `id` leads to, for a CQ with key `key` that has a completion of its `queue`.
    ///
    /// `None` for one that is gone, that never was, or whose completions do not go there: a QP for
    /// [`Queue::Send`] and [`Queue::Recv`], an SRQ for [`Queue::Shared`].
    pub(crate) fn find(&self, id: OwnerId, queue: Queue, key: usize) -> Option<NonNull<()>> {
        let place = self.place(id.index())?;
        // Acquire: pairs with the Release in `publish`.
        let at = NonNull::new(place.at.load(Ordering::Acquire))?;
        let (kept, wanted) = match queue {
            Queue::Send => (&place.send_key, key),
            Queue::Recv => (&place.recv_key, key),
            Queue::Shared => (&place.recv_key, Owner::ANY_CQ),
        };
        // Relaxed: what was published with the pointer, or later by the next life of the place,
        // whose generation then differs.
        let same_life = place.generation.load(Ordering::Relaxed) == id.generation();
        (same_life && kept.load(Ordering::Relaxed) == wanted).then_some(at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shelves_follow_each_other_without_gap() {
        assert_eq!(locate(0), (0, 0));
        assert_eq!(locate(63), (0, 63));
        assert_eq!(locate(64), (1, 0));
        assert_eq!(locate(191), (1, 127));
        assert_eq!(locate(192), (2, 0));
        let (shelf, _) = locate(OwnerId::COUNT - 1);
        assert_eq!(shelf, SHELVES - 1);
    }

    const KEYS: (usize, usize) = (16, 32);

    fn a_qp(mark: &u8) -> Owner {
        Owner::qp(NonNull::from(mark), KEYS.0, KEYS.1)
    }

    #[test]
    fn a_released_name_leads_nowhere_even_after_reuse() {
        let owners = Owners::default();
        let (a, b) = (1_u8, 2_u8);
        let find = |id| owners.find(id, Queue::Send, KEYS.0);
        let first = owners.reserve().unwrap();
        assert_eq!(find(first), None);
        owners.publish(first, a_qp(&a));
        assert_eq!(find(first), Some(NonNull::from(&a).cast()));
        owners.release(first);
        assert_eq!(find(first), None);

        let second = owners.reserve().unwrap();
        assert_eq!(second.index(), first.index());
        owners.publish(second, a_qp(&b));
        assert_eq!(find(first), None);
        assert_eq!(find(second), Some(NonNull::from(&b).cast()));
    }

    #[test]
    fn only_the_right_cq_and_the_right_queue_find_an_owner() {
        let owners = Owners::default();
        let (qp, srq) = (1_u8, 2_u8);
        let (qp_id, srq_id) = (owners.reserve().unwrap(), owners.reserve().unwrap());
        owners.publish(qp_id, a_qp(&qp));
        owners.publish(srq_id, Owner::srq(NonNull::from(&srq)));
        let found = |id, queue, key| owners.find(id, queue, key).is_some();
        for (queue, key, qp_found, srq_found) in [
            (Queue::Send, KEYS.0, true, false),
            (Queue::Send, KEYS.1, false, false),
            (Queue::Recv, KEYS.1, true, false),
            (Queue::Recv, KEYS.0, false, false),
            (Queue::Shared, KEYS.0, false, true),
        ] {
            assert_eq!(found(qp_id, queue, key), qp_found, "{queue:?} {key}");
            assert_eq!(found(srq_id, queue, key), srq_found, "{queue:?} {key}");
        }
    }

    #[test]
    fn many_owners_have_different_names() {
        let owners = Owners::default();
        let marks = [0_u8; 1000];
        let ids: Vec<_> = marks
            .iter()
            .map(|m| (owners.reserve().unwrap(), m))
            .collect();
        for (id, mark) in &ids {
            owners.publish(*id, a_qp(mark));
        }
        for (id, mark) in ids {
            assert_eq!(
                owners.find(id, Queue::Recv, KEYS.1),
                Some(NonNull::from(mark).cast())
            );
        }
    }
}
