// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause

//! `ibv_modify_srq` with `IBV_SRQ_MAX_WR`, whose new ring cannot be used: rxe has moved to it.

use std::ffi::c_int;
use std::io;

use guest::links::Device;
use guest::pair::Bench;
use guest::suite::{Outcome, Suite};
use guest::verbs::{BadWr, Caps, QpInit, RecvWr, Srq, Transport, sys};

use super::libfault::{MMAP_ERRNO, case, fails};
use super::{BELIEVES, messages_arrive};

/// A size and another, to have something to change.
const SIZES: [u32; 2] = [100, 200];

pub(super) fn add(suite: &mut Suite) {
    for (kind, stock_fault, faults) in [
        (
            "mmap",
            "the SRQ is left without a ring",
            [("mmap:1", MMAP_ERRNO)].as_slice(),
        ),
        (
            "answer",
            BELIEVES,
            &[
                ("answer:1:ones", libc::EOVERFLOW),
                ("answer:1:zeros", libc::EIO),
                ("answer:1:8=1000", libc::EIO),
                ("answer:1:0^1", libc::EINVAL),
            ],
        ),
        (
            "header",
            BELIEVES,
            &[
                ("ring:1:0=3f", libc::EIO),
                ("ring:1:4=2", libc::EIO),
                ("ring:1:4=f", libc::EIO),
            ],
        ),
    ] {
        let name = format!("faults/rxe/resize_srq/{kind}");
        case(suite, name, move || {
            faults
                .iter()
                .try_for_each(|&(fault, errno)| resize(fault, errno))
        })
        .beyond_stock(stock_fault);
    }
}

/// A resize succeeds, fails under the fault, and succeeds again: it finds what was posted.
fn resize(fault: &str, errno: i32) -> Outcome {
    let [size, other] = SIZES;
    let bench = Bench::open(Device::Rxe)?;
    let init = bench.init(Transport::Rc, Caps::default())?;
    let srq = Srq::create(&bench.pd, size, 1)?;
    let memory = bench.memory(8)?;
    let recv = |wr_id| RecvWr::new(wr_id, &[memory.sge(0, 8)]);
    set_max_wr(&srq, other)?;
    set_max_wr(&srq, size)?;
    srq.post_recv(&[recv(0)])?;

    fails(Device::Rxe, fault, errno, || set_max_wr(&srq, other))?;
    // The kernel does not look at the old ring any more.
    let refused = srq.post_recv(&[recv(1)]).err().map(|refused| refused.bad);
    assert_eq!(
        refused,
        Some(BadWr::At(0)),
        "{fault}: a receive without a ring"
    );

    set_max_wr(&srq, other)?;
    srq.post_recv(&[recv(1)])?;
    let srq = Some(srq);
    messages_arrive(&bench, &QpInit { srq, ..init }, 2)
}

fn set_max_wr(srq: &Srq, max_wr: u32) -> io::Result<()> {
    let mut attr = sys::ibv_srq_attr {
        max_wr,
        ..Default::default()
    };
    let mask = c_int::try_from(sys::IBV_SRQ_MAX_WR).map_err(io::Error::other)?;
    // SAFETY: the SRQ is alive, and the attribute that the mask names is filled in.
    match unsafe { sys::ibv_modify_srq(srq.raw(), &raw mut attr, mask) } {
        0 => Ok(()),
        errno => Err(io::Error::from_raw_os_error(errno)),
    }
}
