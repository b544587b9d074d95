// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause

//! Applications that sleep until a completion event wakes them.

use std::sync::Arc;
use std::thread;
use std::time::Duration;

use guest::links::Device;
use guest::pair::{Bench, End, Pair};
use guest::suite::{Outcome, Stop, Suite};
use guest::verbs::{Caps, CompChannel, Cq, Mr, PATIENCE, RecvWr, SendWr, Transport, Wc, sys};

pub(super) fn add(suite: &mut Suite) {
    for device in Device::ALL {
        suite.case(format!("traffic/{device}/rc/event_ping_pong"), move || {
            ping_pong(device)
        });
        suite.case(
            format!("traffic/{device}/rc/send_completion_event"),
            move || send_completion(device),
        );
        suite
            .case(format!("traffic/{device}/rc/solicited_event"), move || {
                solicited(device)
            })
            .beyond_stock(device.pick(None, Some("armed for solicited completions, never woken")));
    }
}

/// A pair whose CQs have one channel per end.
fn waiting_pair(device: Device) -> Result<(Pair, [Arc<CompChannel>; 2]), Stop> {
    let bench = Bench::open(device)?;
    let channels = [
        CompChannel::create(&bench.context)?,
        CompChannel::create(&bench.context)?,
    ];
    let mut inits = Vec::new();
    for channel in &channels {
        let mut init = bench.init(Transport::Rc, Caps::default())?;
        init.send_cq = Cq::on_channel(channel, 64)?;
        init.recv_cq = Cq::on_channel(channel, 64)?;
        inits.push(init);
    }
    let pair = Pair::of(bench, inits[0].clone(), inits[1].clone())?;
    Ok((pair, channels))
}

/// Waits for one completion as an application that sleeps does: arm, look, and only then sleep.
fn sleep_for_one(cq: &Cq, channel: &CompChannel) -> Result<Wc, Stop> {
    loop {
        cq.arm(false)?;
        if let Some(wc) = cq.poll_one()? {
            return Ok(wc);
        }
        channel.expect_event(cq, PATIENCE)?;
    }
}

/// Two threads answer each other and sleep in between: one lost event ends the game.
fn ping_pong(device: Device) -> Outcome {
    let (pair, channels) = waiting_pair(device)?;
    let (memory_a, memory_b) = (pair.bench.memory(16)?, pair.bench.memory(16)?);
    pair.a
        .qp
        .post_recv(&[RecvWr::new(0, &[memory_a.sge(8, 8)])])?;
    pair.b
        .qp
        .post_recv(&[RecvWr::new(0, &[memory_b.sge(8, 8)])])?;
    thread::scope(|scope| {
        let server = scope.spawn(|| play(&pair.b, &channels[1], &memory_b, false));
        let client = play(&pair.a, &channels[0], &memory_a, true);
        match server.join() {
            Ok(server) => client.and(server),
            Err(_) => panic!("the server panicked"),
        }
    })
}

fn play(end: &End, channel: &CompChannel, memory: &Mr, serves: bool) -> Outcome {
    let hit = |number: u64| -> Outcome {
        memory.write(0, &number.to_ne_bytes());
        end.qp
            .post_send(&[SendWr::send(&[memory.sge(0, 8)]).id(number).signaled()])?;
        Ok(())
    };
    for number in 0..300_u64 {
        if serves {
            hit(number)?;
        }
        assert_eq!(sleep_for_one(&end.recv_cq, channel)?.ok().wr_id, number);
        assert_eq!(memory.read(8..16), number.to_ne_bytes());
        end.qp
            .post_recv(&[RecvWr::new(number + 1, &[memory.sge(8, 8)])])?;
        if !serves {
            hit(number)?;
        }
        assert_eq!(end.send_cq.take_one()?.ok().wr_id, number);
    }
    Ok(())
}

fn send_completion(device: Device) -> Outcome {
    let (pair, channels) = waiting_pair(device)?;
    let (from, to) = (pair.bench.memory(8)?, pair.bench.memory(8)?);
    for number in 0..20 {
        pair.a.send_cq.arm(false)?;
        let write = SendWr::write(&[from.sge(0, 8)], to.remote(0))
            .id(number)
            .signaled();
        pair.a.qp.post_send(&[write])?;
        channels[0].expect_event(&pair.a.send_cq, PATIENCE)?;
        assert_eq!(pair.a.send_cq.take_one()?.ok().wr_id, number);
    }
    Ok(())
}

/// Armed for solicited completions, a CQ wakes for one. It may wake for another too: a provider that
/// also wakes for unsuccessful ones, which count as solicited, has to ask the kernel for any.
fn solicited(device: Device) -> Outcome {
    let (pair, channels) = waiting_pair(device)?;
    let (from, to) = (pair.bench.memory(8)?, pair.bench.memory(8)?);
    for (number, flags) in [(0, 0), (1, 0), (2, sys::IBV_SEND_SOLICITED)] {
        pair.b
            .qp
            .post_recv(&[RecvWr::new(number, &[to.sge(0, 8)])])?;
        pair.b.recv_cq.arm(true)?;
        let send = SendWr::send(&[from.sge(0, 8)]).flags(flags);
        pair.a.qp.post_send(&[send.id(number).signaled()])?;
        pair.a.send_cq.take_one()?.ok();
        assert_eq!(pair.b.recv_cq.take_one()?.ok().wr_id, number);
        // The completion is there, so its event is close behind, or never comes.
        let woken = channels[1]
            .next_event(Duration::from_millis(200))?
            .is_some();
        assert!(woken || flags == 0, "not woken by message {number}");
    }
    Ok(())
}
