// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause

//! `ibv_create_cq`, `ibv_destroy_cq`, `ibv_poll_cq`, `ibv_req_notify_cq`, `ibv_destroy_comp_channel`.

use std::ffi::c_int;
use std::ptr;
use std::sync::Arc;

use guest::links::Device;
use guest::pair::{Bench, Pair};
use guest::suite::{Stop, Suite};
use guest::verbs::{CompChannel, Cq, PATIENCE, Transport, sys};

use super::table::{Row, Said, Table};
use super::{pair_works, works};

pub(super) fn add(suite: &mut Suite, device: Device) {
    Table {
        verb: "create_cq",
        device,
        stage: Stage::set,
        rows: create_rows,
        works: |stage: &Stage| works(&stage.bench),
    }
    .add(suite);
    Table {
        verb: "destroy_cq",
        device,
        stage: |device| Pair::new(device, Transport::Rc),
        rows: |_| {
            vec![
                Row::refused("of a QP's sends", libc::EBUSY, |pair: &Pair| {
                    destroy(&pair.a.send_cq)
                }),
                Row::refused("of a QP's receives", libc::EBUSY, |pair: &Pair| {
                    destroy(&pair.b.recv_cq)
                }),
            ]
        },
        works: pair_works,
    }
    .add_beyond(
        suite,
        device.pick(None, Some("libsiw frees a CQ that is in use")),
    );
    Table {
        verb: "poll_cq",
        device,
        stage: |device| Pair::new(device, Transport::Rc),
        rows: |_| {
            vec![
                Row::done("for nothing", |pair: &Pair| poll(&pair.a.send_cq, 0)),
                Row::done("for fewer than none", |pair: &Pair| {
                    // Nothing, or a failure: negative, as ibv_poll_cq(3) has it.
                    match poll(&pair.a.send_cq, -1) {
                        Said::Refused(errno) if errno > 0 => Said::Refused(errno),
                        _ => Said::Done,
                    }
                }),
                Row::done("for some", |pair: &Pair| poll(&pair.a.send_cq, 4)),
            ]
        },
        works: pair_works,
    }
    .add(suite);
    Table {
        verb: "req_notify_cq",
        device,
        stage: |device| Pair::new(device, Transport::Rc),
        rows: |_| {
            [0, 1, 2, -1]
                .map(|solicited| {
                    Row::done("solicited or not", move |pair: &Pair| {
                        // SAFETY: the CQ is alive.
                        Said::returned(unsafe {
                            sys::inline::req_notify_cq(pair.a.send_cq.raw(), solicited)
                        })
                    })
                })
                .into()
        },
        works: pair_works,
    }
    .add(suite);
    Table {
        verb: "destroy_comp_channel",
        device,
        stage: Stage::set,
        rows: |_| {
            vec![Row::refused("of a CQ", libc::EBUSY, |stage: &Stage| {
                // SAFETY: the channel is alive. If it goes all the same, so does the case.
                let said =
                    Said::returned(unsafe { sys::ibv_destroy_comp_channel(stage.channel.raw()) });
                assert_ne!(said, Said::Done, "a channel in use is gone");
                said
            })]
        },
        works: |stage: &Stage| {
            assert!(stage.channel.next_event(PATIENCE / 1000)?.is_none());
            works(&stage.bench)
        },
    }
    .add(suite);
}

struct Stage {
    bench: Bench,
    channel: Arc<CompChannel>,
    /// The device's most entries.
    max: c_int,
    _cq: Arc<Cq>,
}

impl Stage {
    fn set(device: Device) -> Result<Self, Stop> {
        let bench = Bench::open(device)?;
        let channel = CompChannel::create(&bench.context)?;
        Ok(Self {
            max: bench.context.limits()?.max_cqe,
            _cq: Cq::on_channel(&channel, 16)?,
            bench,
            channel,
        })
    }

    fn create(&self, entries: c_int, vector: c_int) -> Said {
        let (context, channel) = (self.bench.context.raw(), self.channel.raw());
        // SAFETY: context and channel are alive.
        Said::made(
            || unsafe { sys::ibv_create_cq(context, entries, ptr::null_mut(), channel, vector) },
            sys::ibv_destroy_cq,
        )
    }
}

fn create_rows(_: Device) -> Vec<Row<Stage>> {
    vec![
        Row::done("one entry", |stage: &Stage| stage.create(1, 0)),
        Row::done("most entries", |stage: &Stage| match stage.bench.device {
            Device::Rxe => stage.create(stage.max, 0),
            // A hundred megabytes.
            Device::Siw => Said::Done,
        }),
        Row::done("without a channel", |stage: &Stage| {
            let context = stage.bench.context.raw();
            // SAFETY: the context is open; the channel is optional.
            Said::made(
                || unsafe { sys::ibv_create_cq(context, 1, ptr::null_mut(), ptr::null_mut(), 0) },
                sys::ibv_destroy_cq,
            )
        }),
        Row::refused("no entries", libc::EINVAL, |stage: &Stage| {
            stage.create(0, 0)
        }),
        Row::refused("-1 entries", libc::EINVAL, |stage: &Stage| {
            stage.create(-1, 0)
        }),
        Row::refused("fewest entries", libc::EINVAL, |stage: &Stage| {
            stage.create(c_int::MIN, 0)
        }),
        Row::refused("too many entries", libc::EINVAL, |stage: &Stage| {
            stage.create(stage.max + 1, 0)
        }),
        Row::refused("far too many entries", libc::EINVAL, |stage: &Stage| {
            stage.create(c_int::MAX, 0)
        }),
        Row::refused(
            "a vector that is not there",
            libc::EINVAL,
            |stage: &Stage| stage.create(1, 1 << 20),
        ),
        Row::refused("a negative vector", libc::EINVAL, |stage: &Stage| {
            stage.create(1, -1)
        }),
    ]
}

fn destroy(cq: &Cq) -> Said {
    Said::failed(&cq.destroy_in_use())
}

/// Polls a CQ that has nothing.
fn poll(cq: &Cq, entries: c_int) -> Said {
    let mut room = [sys::ibv_wc::default(); 4];
    // SAFETY: the CQ is alive, and the room holds at least as many.
    Said::returned(unsafe { sys::inline::poll_cq(cq.raw(), entries, room.as_mut_ptr()) })
}
