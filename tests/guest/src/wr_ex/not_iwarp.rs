// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause

//! What iWARP does not have, and siw neither: immediate data, atomics, windows. It is refused by either
//! API, and what was posted with it is posted as far as that API has it.

use guest::links::Device;
use guest::suite::{Outcome, Suite};
use guest::verbs::{BadWr, Caps, Refused, SendWr, Transport, sys};
use guest::wr_call;

use super::{assert_works, case, pair};

pub(super) fn add(suite: &mut Suite) {
    case(suite, Device::Siw, "not_iwarp/posted", |_| refused(false));
    case(suite, Device::Siw, "not_iwarp/drafted", |_| refused(true));
    case(suite, Device::Siw, "not_iwarp/atomic_write", |_| {
        atomic_write()
    });
}

fn refused(by_draft: bool) -> Outcome {
    let pair = pair(Device::Siw, Transport::Rc, Caps::default())?;
    let (near, far) = (pair.bench.memory(64)?, pair.bench.memory(64)?);
    let (sge, there) = (near.sge(0, 8), far.remote(8));
    near.write(0, b"not here");
    let write = |id| SendWr::write(&[sge], far.remote(0)).id(id).signaled();
    for bad in [
        SendWr::send(&[sge]).imm(1),
        SendWr::write(&[sge], there).imm(1),
        SendWr::compare_swap(sge, there, 0, 1),
        SendWr::fetch_add(sge, there, 1),
        SendWr::new(sys::IBV_WR_BIND_MW, &[]),
    ] {
        let list = [write(1), bad.id(2).signaled(), write(3)];
        if by_draft {
            let said = pair.a.qp.post_draft(&list).map_err(|no| no.returned);
            assert_eq!(said, Err(libc::EINVAL), "{:?}", list[1]);
            assert!(pair.a.send_cq.poll_one()?.is_none(), "a part was posted");
        } else {
            let refused = Refused {
                returned: libc::EINVAL,
                bad: BadWr::At(1),
            };
            assert_eq!(pair.a.qp.post_send(&list), Err(refused), "{:?}", list[1]);
            assert_eq!(pair.a.send_cq.take_one()?.ok().wr_id, 1);
        }
    }
    assert_works(&pair)?;
    assert_eq!(far.read(8..16), [0; 8], "what was refused was done");
    Ok(())
}

/// Eight bytes at once, which no `ibv_send_wr` can ask for.
fn atomic_write() -> Outcome {
    let pair = pair(Device::Siw, Transport::Rc, Caps::default())?;
    let far = pair.bench.memory(64)?;
    let draft = pair.a.qp.draft();
    let word = 7_u64;
    // SAFETY: the QP is alive, and the word is there.
    unsafe {
        let (rkey, address) = (far.rkey(), far.remote(0).address);
        wr_call!(
            draft.raw(),
            wr_atomic_write,
            rkey,
            address,
            (&raw const word).cast()
        );
    }
    let said = draft.complete().map_err(|no| no.returned);
    assert_eq!(said, Err(libc::EINVAL));
    assert_works(&pair)?;
    assert_eq!(far.read(0..8), [0; 8], "what was refused was done");
    Ok(())
}
