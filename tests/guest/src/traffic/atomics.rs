// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause

//! Atomic operations, which rxe has on RC.

use guest::links::Device;
use guest::pair::Pair;
use guest::suite::{Outcome, Suite};
use guest::verbs::{Mr, SendWr, Transport, sys};

pub(super) fn add(suite: &mut Suite) {
    suite.case("traffic/rxe/rc/compare_swap", compare_swap);
    suite.case("traffic/rxe/rc/fetch_add", fetch_add);
}

fn word(mr: &Mr, offset: usize) -> u64 {
    let mut word = [0; 8];
    word.copy_from_slice(&mr.read(offset..offset + 8));
    u64::from_ne_bytes(word)
}

fn compare_swap() -> Outcome {
    let pair = Pair::new(Device::Rxe, Transport::Rc)?;
    let (found, target) = (pair.bench.memory(8)?, pair.bench.memory(64)?);
    let start = 0x0123_4567_89ab_cdef;
    target.write(16, &u64::to_ne_bytes(start));
    // The first finds what it expects; the second does not, and must change nothing.
    for (expected, swap, before, after) in [(start, 7, start, 7), (start, 9, 7, 7)] {
        let swap = SendWr::compare_swap(found.sge(0, 8), target.remote(16), expected, swap);
        pair.a.qp.post_send(&[swap.id(5).signaled()])?;
        let wc = pair.a.send_cq.take_one()?.ok();
        assert_eq!((wc.wr_id, wc.opcode), (5, sys::IBV_WC_COMP_SWAP));
        assert_eq!((word(&found, 0), word(&target, 16)), (before, after));
    }
    assert_eq!(
        (word(&target, 8), word(&target, 24)),
        (0, 0),
        "the neighbours changed"
    );
    Ok(())
}

fn fetch_add() -> Outcome {
    let pair = Pair::new(Device::Rxe, Transport::Rc)?;
    let (found, target) = (pair.bench.memory(8 * 64)?, pair.bench.memory(8)?);
    target.write(0, &u64::to_ne_bytes(u64::MAX));
    let adds: Vec<_> = (0..64)
        .map(|at| SendWr::fetch_add(found.sge(8 * at, 8), target.remote(0), 3).signaled())
        .collect();
    pair.a.qp.post_send(&adds)?;
    for wc in pair.a.send_cq.take(64)? {
        assert_eq!(wc.ok().opcode, sys::IBV_WC_FETCH_ADD);
    }
    let mut expected = u64::MAX;
    for at in 0..64 {
        assert_eq!(word(&found, 8 * at), expected, "add number {at}");
        expected = expected.wrapping_add(3);
    }
    assert_eq!(word(&target, 0), expected);
    Ok(())
}
