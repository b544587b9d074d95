// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause

//! A draft is posted whole or not at all, and in its place among other posts.

use std::thread;

use guest::links::Device;
use guest::pair::Pair;
use guest::roll::{LineId, Roll};
use guest::suite::{Outcome, Stop, Suite};
use guest::verbs::{Caps, Mr, RecvWr, SendWr, Transport};

use super::{ENOSPC, FLAGLESS, case, pair};

pub(super) fn add(suite: &mut Suite) {
    for device in Device::ALL {
        case(suite, device, "drafts_of_sixteen", sixteen);
        case(suite, device, "aborted", aborted);
        case(suite, device, "mixed", mixed).beyond_stock(device.pick(FLAGLESS, super::NONE));
        case(suite, device, "never_signaled", never_signaled);
        case(suite, device, "full", full)
            .beyond_stock(device.pick(Some(ENOSPC), Some(super::NONE)));
        case(suite, device, "threads", threads);
        case(suite, device, "unseen_before_complete", unseen)
            .beyond_stock(device.pick(FLAGLESS, super::NONE));
    }
}

/// A pair and the roll of what `a` sends to `b`, which writes.
struct Ground {
    pair: Pair,
    memory: Mr,
    roll: Roll,
    line: LineId,
}

impl Ground {
    fn new(device: Device, send_wr: u32) -> Result<Self, Stop> {
        let caps = Caps {
            send_wr,
            ..Caps::default()
        };
        let pair = pair(device, Transport::Rc, caps)?;
        let roll = Roll::new();
        Ok(Self {
            memory: pair.bench.memory(64)?,
            line: roll.sends_of(&pair.a.qp),
            pair,
            roll,
        })
    }

    fn write(&self) -> SendWr<'_> {
        SendWr::write(&[self.memory.sge(0, 8)], self.memory.remote(8))
    }

    fn settle(&self) -> Outcome {
        self.roll.settle(&[&self.pair.a.send_cq])
    }
}

/// More of them than the ring has entries.
fn sixteen(device: Device) -> Outcome {
    let ground = Ground::new(device, 32)?;
    for _ in 0..20 {
        let list = ground
            .roll
            .sends(ground.line, 16, &ground.write().signaled());
        ground.pair.a.qp.post_draft(&list)?;
        ground.settle()?;
    }
    Ok(())
}

fn aborted(device: Device) -> Outcome {
    let ground = Ground::new(device, 32)?;
    let qp = &ground.pair.a.qp;
    ground.memory.fill(0);
    for round in 0..40 {
        let draft = qp.draft();
        for _ in 0..round % 20 {
            draft.add(&ground.write().id(u64::MAX).signaled());
            draft.add(&ground.write().id(u64::MAX).inline().signaled());
        }
        draft.abort();
        let list = ground
            .roll
            .sends(ground.line, 1, &ground.write().signaled());
        qp.post_draft(&list)?;
        ground.settle()?;
    }
    // An empty one is complete, too.
    qp.draft().complete()?;
    ground.roll.listen(&[&ground.pair.a.send_cq])?;
    ground.settle()
}

/// By turns, drafts and lists of many lengths: they complete in the order in which they were posted.
fn mixed(device: Device) -> Outcome {
    let ground = Ground::new(device, 64)?;
    let read = SendWr::read(&[ground.memory.sge(16, 8)], ground.memory.remote(8)).signaled();
    for round in 0..60 {
        let qp = &ground.pair.a.qp;
        let count = round % 7 + 1;
        let list = ground
            .roll
            .sends(ground.line, count, &ground.write().signaled());
        qp.post_draft(&list)?;
        qp.post_send(
            &ground
                .roll
                .sends(ground.line, count, &ground.write().signaled()),
        )?;
        qp.post_draft(&ground.roll.sends(ground.line, 1, &read))?;
        qp.post_send(&ground.roll.sends(ground.line, 1, &read))?;
        qp.post_draft(
            &ground
                .roll
                .sends(ground.line, count, &ground.write().inline().signaled()),
        )?;
        ground.settle()?;
    }
    Ok(())
}

/// An application that never asks for a completion does not fill its queue.
fn never_signaled(device: Device) -> Outcome {
    let ground = Ground::new(device, 16)?;
    let mut posted = 0;
    while posted < 500 {
        // No room yet is no fault: nothing tells when there is.
        if ground
            .pair
            .a
            .qp
            .post_draft(&vec![ground.write(); 5])
            .is_ok()
        {
            posted += 1;
        }
    }
    let last = ground
        .roll
        .sends(ground.line, 1, &ground.write().signaled());
    while ground.pair.a.qp.post_draft(&last).is_err() {}
    ground.settle()
}

/// A draft that is longer than there is room for is refused, and nothing of it posted; one that fills
/// the queue is not.
fn full(device: Device) -> Outcome {
    let ground = Ground::new(device, 15)?;
    let qp = &ground.pair.a.qp;
    let too_long = vec![ground.write().id(u64::MAX).signaled(); 40];
    for held in [0, 1, 7, 14, 15] {
        let list = ground
            .roll
            .sends(ground.line, held, &ground.write().signaled());
        qp.post_draft(&list)?;
        let said = qp.post_draft(&too_long).map_err(|refused| refused.returned);
        assert_eq!(said, Err(libc::ENOMEM), "with {held} outstanding");
        let rest = ground
            .roll
            .sends(ground.line, 15 - held, &ground.write().signaled());
        qp.post_draft(&rest)?;
        let one = [ground.write().id(u64::MAX).signaled()];
        let said = qp.post_draft(&one).map_err(|refused| refused.returned);
        assert_eq!(said, Err(libc::ENOMEM), "full");
        ground.settle()?;
    }
    ground.roll.listen(&[&ground.pair.a.send_cq])?;
    ground.settle()
}

/// Threads that build drafts on one QP: each draft stays together.
fn threads(device: Device) -> Outcome {
    let ground = Ground::new(device, 256)?;
    let (qp, memory) = (&ground.pair.a.qp, &ground.memory);
    let seen = thread::scope(|scope| {
        for thread in 0..3_u64 {
            scope.spawn(move || {
                let mut done = 0;
                while done < 60 {
                    let draft = qp.draft();
                    for at in 0..4 {
                        let write = SendWr::write(&[memory.sge(0, 8)], memory.remote(8));
                        draft.add(&write.id(thread << 32 | done << 8 | at).signaled());
                        thread::yield_now();
                    }
                    // No room is no fault here.
                    done += u64::from(draft.complete().is_ok());
                }
            });
        }
        let mut seen = Vec::new();
        while seen.len() < 3 * 60 * 4 {
            match ground.pair.a.send_cq.poll_one() {
                Ok(Some(wc)) => seen.push(wc.ok().wr_id),
                Ok(None) => thread::yield_now(),
                Err(error) => panic!("{error}"),
            }
        }
        seen
    });
    for draft in seen.chunks(4) {
        let expected: Vec<u64> = (0..4).map(|at| draft[0] & !0xff | at).collect();
        assert_eq!(draft, expected, "a draft was torn");
    }
    Ok(())
}

/// Before it is complete, nothing of a draft is sent, whatever else is; the setters have copied what is
/// inline.
fn unseen(device: Device) -> Outcome {
    let ground = Ground::new(device, 32)?;
    let (a, b) = (&ground.pair.a, &ground.pair.b);
    let (memory, to) = (&ground.memory, ground.pair.bench.memory(64)?);
    b.qp.post_recv(&[
        RecvWr::new(1, &[to.sge(0, 8)]),
        RecvWr::new(2, &[to.sge(8, 8)]),
    ])?;
    memory.write(0, b"draft ed");
    let draft = a.qp.draft();
    draft.add(&SendWr::send(&[memory.sge(0, 8)]).inline().id(1).signaled());
    memory.write(0, b"afterwrd");
    draft.add(&SendWr::send(&[memory.sge(0, 8)]).id(2).signaled());
    thread::sleep(std::time::Duration::from_millis(100));
    for cq in [&a.send_cq, &b.recv_cq] {
        if let Some(wc) = cq.poll_one()? {
            panic!("seen before it is complete: {wc:?}");
        }
    }
    draft.complete()?;
    for number in [1, 2] {
        assert_eq!(a.send_cq.take_one()?.ok().wr_id, number);
        assert_eq!(b.recv_cq.take_one()?.ok().wr_id, number);
    }
    assert_eq!(to.read(0..16), b"draft edafterwrd");
    Ok(())
}
