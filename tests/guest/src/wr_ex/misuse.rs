// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause

//! Drafts that cannot be posted: `ibv_wr_complete` says why, nothing of them is posted, and the QP
//! works.

use std::ptr;

use guest::links::Device;
use guest::pair::Pair;
use guest::suite::{Outcome, Stop, Suite};
use guest::verbs::{Caps, Mr, RecvWr, Remote, SendWr, Sge, Transport, sys};
use guest::wr_call;

use super::{ENOSPC, assert_works, case, pair};

pub(super) fn add(suite: &mut Suite) {
    for device in Device::ALL {
        for misuse in MISUSES {
            if misuse.device.is_none_or(|only| only == device) {
                case(
                    suite,
                    device,
                    &format!("misuse/{}", misuse.name),
                    |device| refused(device, misuse),
                )
                .beyond_stock(device.pick(misuse.on_rxe, Some(super::NONE)));
            }
        }
        case(suite, device, "misuse/outside_of_a_draft", outside).beyond_stock(device.pick(
            Some("what is called outside of a draft is done, and a lock is unlocked twice"),
            Some(super::NONE),
        ));
        case(suite, device, "misuse/posts_inside_a_draft", inside).beyond_stock(device.pick(
            Some("ibv_post_send waits for a lock that the draft holds"),
            Some(super::NONE),
        ));
    }
}

/// Something that is not done in a draft.
struct Misuse {
    name: &'static str,
    /// The only driver for which it is one.
    device: Option<Device>,
    errno: i32,
    /// What stock rxe does instead.
    on_rxe: Option<&'static str>,
    /// The QP has not been created for all operations.
    sends_only: bool,
    calls: fn(&Mr) -> Vec<Call<'_>>,
}

/// One of the calls of a misuse.
enum Call<'m> {
    Start,
    Fence,
    Send,
    Write(Remote),
    Read(Remote),
    CompareSwap(Remote),
    FetchAdd(Remote),
    LocalInv,
    BindNothing,
    Tso,
    Xrc,
    Receiver,
    Sge(Sge<'m>),
    /// The entries there are, and how many are claimed.
    Sges(Vec<Sge<'m>>, usize),
    /// A number of bytes.
    Inline(usize),
    /// A number of parts, each of some bytes.
    InlineList(usize, usize),
    InlineNowhere,
    InlineListNowhere,
}

impl Call<'_> {
    fn make(self, qp: *mut sys::ibv_qp_ex) {
        // SAFETY: the QP is alive and in a draft of this thread's. What is named is there as long as
        // the call, or claimed so that it must not be looked at.
        unsafe {
            match self {
                Self::Start => wr_call!(qp, wr_start),
                Self::Fence => (*qp).wr_flags |= sys::IBV_SEND_FENCE,
                Self::Send => wr_call!(qp, wr_send),
                Self::Write(to) => wr_call!(qp, wr_rdma_write, to.rkey, to.address),
                Self::Read(from) => wr_call!(qp, wr_rdma_read, from.rkey, from.address),
                Self::CompareSwap(at) => {
                    wr_call!(qp, wr_atomic_cmp_swp, at.rkey, at.address, 1, 2);
                }
                Self::FetchAdd(at) => wr_call!(qp, wr_atomic_fetch_add, at.rkey, at.address, 1),
                Self::LocalInv => wr_call!(qp, wr_local_inv, 0x1234),
                Self::BindNothing => {
                    wr_call!(qp, wr_bind_mw, ptr::null_mut(), 1, ptr::null());
                }
                Self::Tso => wr_call!(qp, wr_send_tso, ptr::null_mut(), 0, 0),
                Self::Xrc => wr_call!(qp, wr_set_xrc_srqn, 1),
                Self::Receiver => wr_call!(qp, wr_set_ud_addr, ptr::null_mut(), 1, 1),
                Self::Sge(sge) => {
                    let sge = *(&raw const sge).cast::<sys::ibv_sge>();
                    wr_call!(qp, wr_set_sge, sge.lkey, sge.addr, sge.length);
                }
                Self::Sges(list, claimed) => {
                    let list = if list.is_empty() {
                        ptr::null()
                    } else {
                        list.as_ptr()
                    };
                    wr_call!(qp, wr_set_sge_list, claimed, list.cast());
                }
                Self::Inline(len) => {
                    let mut bytes = vec![0_u8; len];
                    wr_call!(qp, wr_set_inline_data, bytes.as_mut_ptr().cast(), len);
                }
                Self::InlineList(parts, len) => {
                    let mut bytes = vec![0_u8; len];
                    let part = sys::ibv_data_buf {
                        addr: bytes.as_mut_ptr().cast(),
                        length: len,
                    };
                    let list = vec![part; parts];
                    wr_call!(qp, wr_set_inline_data_list, parts, list.as_ptr());
                }
                Self::InlineNowhere => wr_call!(qp, wr_set_inline_data, ptr::null_mut(), 8),
                Self::InlineListNowhere => {
                    wr_call!(qp, wr_set_inline_data_list, 2, ptr::null());
                }
            }
        }
    }
}

/// `EINVAL` for a misuse on both drivers that stock rxe does not see.
const fn unseen(name: &'static str, calls: fn(&Mr) -> Vec<Call<'_>>) -> Misuse {
    Misuse {
        name,
        device: None,
        errno: libc::EINVAL,
        on_rxe: Some("it is posted, or read from nowhere"),
        sends_only: false,
        calls,
    }
}

/// One of one driver only.
const fn only(device: Device, misuse: Misuse) -> Misuse {
    Misuse {
        device: Some(device),
        ..misuse
    }
}

const MISUSES: &[Misuse] = &[
    Misuse {
        on_rxe: Some(ENOSPC),
        ..unseen("too_many_sges", |mr| {
            vec![Call::Send, Call::Sges(vec![mr.sge(0, 1); 40], 40)]
        })
    },
    unseen("most_sges_there_are", |mr| {
        vec![Call::Send, Call::Sges(vec![mr.sge(0, 1)], usize::MAX / 2)]
    }),
    unseen("sges_nowhere", |_| vec![Call::Send, Call::Sges(vec![], 2)]),
    Misuse {
        on_rxe: Some(ENOSPC),
        ..unseen("inline_too_long", |_| vec![Call::Send, Call::Inline(1000)])
    },
    unseen("inline_list_too_long", |_| {
        vec![Call::Send, Call::InlineList(6, 100)]
    }),
    unseen("inline_nowhere", |_| vec![Call::Send, Call::InlineNowhere]),
    unseen("inline_list_nowhere", |_| {
        vec![Call::Send, Call::InlineListNowhere]
    }),
    unseen("inline_read", |mr| {
        vec![Call::Read(mr.remote(0)), Call::Inline(8)]
    }),
    unseen("data_twice", |mr| {
        vec![Call::Send, Call::Sge(mr.sge(0, 8)), Call::Sge(mr.sge(0, 8))]
    }),
    unseen("data_of_an_invalidation", |mr| {
        vec![Call::LocalInv, Call::Sge(mr.sge(0, 8))]
    }),
    unseen("receiver_of_no_datagram", |_| {
        vec![Call::Send, Call::Receiver]
    }),
    unseen("start_twice", |_| vec![Call::Start]),
    unseen("tso", |_| vec![Call::Tso]),
    unseen("xrc", |_| vec![Call::Send, Call::Xrc]),
    Misuse {
        sends_only: true,
        ..unseen("not_created_for_it", |mr| vec![Call::Write(mr.remote(0))])
    },
    Misuse {
        errno: libc::ENOMEM,
        on_rxe: Some(ENOSPC),
        ..unseen("longer_than_the_queue", |_| {
            (0..10_000).map(|_| Call::Send).collect()
        })
    },
    only(
        Device::Rxe,
        unseen("atomic_out_of_line", |mr| {
            vec![Call::FetchAdd(mr.remote(4)), Call::Sge(mr.sge(0, 8))]
        }),
    ),
    only(
        Device::Rxe,
        unseen("atomic_without_data", |mr| {
            vec![Call::CompareSwap(mr.remote(0))]
        }),
    ),
    only(
        Device::Rxe,
        unseen("bind_of_nothing", |_| vec![Call::BindNothing]),
    ),
    only(
        Device::Siw,
        unseen("fenced_read", |mr| {
            vec![
                Call::Fence,
                Call::Read(mr.remote(0)),
                Call::Sge(mr.sge(0, 8)),
            ]
        }),
    ),
    only(
        Device::Siw,
        unseen("read_into_two", |mr| {
            vec![
                Call::Read(mr.remote(0)),
                Call::Sges(vec![mr.sge(0, 8); 2], 2),
            ]
        }),
    ),
];

/// Good requests before and behind the misuse are not posted either.
fn refused(device: Device, misuse: &Misuse) -> Outcome {
    let pair = if misuse.sends_only {
        sends_only(device)?
    } else {
        pair(device, Transport::Rc, Caps::default())?
    };
    let memory = pair.bench.memory(64)?;
    let good = SendWr::send(&[memory.sge(0, 8)]).id(u64::MAX).signaled();
    for before in 0..3 {
        for behind in 0..3 {
            let draft = pair.a.qp.draft();
            for _ in 0..before {
                draft.add(&good);
            }
            // SAFETY: the QP is alive, and this thread alone uses it.
            unsafe {
                (*draft.raw()).wr_id = u64::MAX;
                (*draft.raw()).wr_flags = sys::IBV_SEND_SIGNALED;
            }
            for call in (misuse.calls)(&memory) {
                call.make(draft.raw());
            }
            for _ in 0..behind {
                draft.add(&good);
            }
            let said = draft.complete().map_err(|refused| refused.returned);
            assert_eq!(said, Err(misuse.errno), "{before} before, {behind} behind");
        }
    }
    assert_works(&pair)
}

fn sends_only(device: Device) -> Result<Pair, Stop> {
    use guest::pair::Bench;
    use guest::verbs::QpInit;

    let bench = Bench::open(device)?;
    let init = |bench: &Bench| -> Result<_, Stop> {
        Ok(QpInit {
            send_ops: Some(u64::from(sys::IBV_QP_EX_WITH_SEND)),
            ..bench.init(Transport::Rc, Caps::default())?
        })
    };
    let (a, b) = (init(&bench)?, init(&bench)?);
    Pair::of(bench, a, b)
}

/// Without a draft there is nothing to build, complete or abort.
fn outside(device: Device) -> Outcome {
    let pair = pair(device, Transport::Rc, Caps::default())?;
    let raw = pair.a.qp.extended_view();
    for _ in 0..3 {
        // SAFETY: the QP is alive.
        unsafe {
            wr_call!(raw, wr_send);
            wr_call!(raw, wr_set_sge, 1, 1, 1);
            wr_call!(raw, wr_abort);
            assert_eq!(wr_call!(raw, wr_complete), libc::EINVAL);
            // In a draft, but of no request.
            wr_call!(raw, wr_start);
            wr_call!(raw, wr_set_sge, 1, 1, 1);
            assert_eq!(wr_call!(raw, wr_complete), libc::EINVAL);
        }
    }
    assert_works(&pair)
}

/// The manual forbids it, but nothing hangs: what is posted inside of a draft comes before it.
fn inside(device: Device) -> Outcome {
    let pair = pair(device, Transport::Rc, Caps::default())?;
    let memory = pair.bench.memory(64)?;
    let write = SendWr::write(&[memory.sge(0, 8)], memory.remote(8)).signaled();
    for _ in 0..20 {
        let draft = pair.a.qp.draft();
        draft.add(&write.clone().id(2));
        pair.a.qp.post_send(&[write.clone().id(1)])?;
        pair.a
            .qp
            .post_recv(&[RecvWr::new(9, &[memory.sge(16, 8)])])?;
        assert_eq!(pair.a.send_cq.take_one()?.ok().wr_id, 1);
        draft.complete()?;
        assert_eq!(pair.a.send_cq.take_one()?.ok().wr_id, 2);
    }
    assert_works(&pair)
}
