// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause

//! The program that is measured: each verb of the hot path, a number of times, on healthy QPs.
//!
//! Each round posts receives and sends, waits until all of their CQEs are there, and polls. What it waits
//! for is a READ behind the sends: rxe completes in order before it stores the answer's data, and both
//! drivers' responders have completed the receives before they answer.

use std::ffi::c_int;
use std::sync::Arc;
use std::thread;

use guest::links::Device;
use guest::pair::{Bench, Pair};
use guest::suite::{Outcome, Stop};
use guest::verbs::sys::{self, ibv_sge, ibv_wc};
use guest::verbs::{
    Caps, Cq, Mr, QpInit, RecvWr, SendWr, Srq, Transport, attributes_ex, chain_recvs, chain_sends,
    send_ops,
};

use crate::measured::{
    Poll, PostRecv, PostSend, PostSrqRecv, measured_arm, measured_poll_empty, measured_poll_ex_16,
    measured_poll_recvs_1, measured_poll_recvs_16, measured_poll_sends_1, measured_poll_sends_16,
    measured_poll_srq_recvs_1, measured_poll_srq_recvs_16, measured_poll_writes_16,
    measured_post_recv_1, measured_post_recv_16, measured_post_send_1, measured_post_send_3_sges,
    measured_post_send_16, measured_post_send_inline, measured_post_srq_recv_1,
    measured_post_srq_recv_16, measured_post_write_16, measured_wr_post_16,
};

/// Bytes of each message: more than siw sends within a packet's header.
const MESSAGE: usize = 64;
/// Bytes of an inline one.
const INLINE: usize = 32;
/// Receives that are outstanding all the time.
const SPARE: usize = 8;
/// Where the word is that a READ fetches, and where it puts it.
const SOURCE: usize = 2048;
const SINK: usize = 2056;

/// Runs all rows `rounds` times.
///
/// # Errors
///
/// A failure of any verb.
pub(crate) fn run(device: Device, rounds: u32) -> Outcome {
    let bench = Bench::open(device)?;
    let init = || bench.init(Transport::Rc, caps());
    let lane = Lane::new(&bench, init()?, init()?)?;
    let srq = Srq::create(&bench.pd, 64, 4)?;
    let with_srq = QpInit {
        srq: Some(Arc::clone(&srq)),
        ..init()?
    };
    let shared = Lane::new(&bench, init()?, with_srq)?;
    let extended = extended(&bench)?;
    // Queues that are never empty, as an application keeps them.
    for _ in 0..SPARE {
        lane.pair.b.qp.post_recv(&[lane.receive()])?;
        srq.post_recv(&[shared.receive()])?;
        if let Some(extended) = &extended {
            extended.pair.b.qp.post_recv(&[extended.receive()])?;
        }
    }
    for _ in 0..rounds {
        lane.round(&ONE)?;
        lane.round(&SIXTEEN)?;
        lane.round(&INLINED)?;
        lane.round(&THREE_SGES)?;
        lane.round(&WRITES)?;
        lane.idle()?;
        shared.shared_round(&srq, 1, measured_post_srq_recv_1, measured_poll_srq_recvs_1)?;
        shared.shared_round(
            &srq,
            16,
            measured_post_srq_recv_16,
            measured_poll_srq_recvs_16,
        )?;
        if let Some(extended) = &extended {
            extended.extended_round()?;
        }
    }
    Ok(())
}

fn caps() -> Caps {
    Caps {
        send_wr: 64,
        recv_wr: 64,
        send_sge: 4,
        recv_sge: 4,
        inline: 64,
    }
}

/// A connection whose first end has what extends a CQ and a QP, where the provider has it.
fn extended(bench: &Bench) -> Result<Option<Lane>, Stop> {
    let attributes = attributes_ex(64, sys::IBV_WC_EX_WITH_BYTE_LEN);
    let Ok(cq) = Cq::create_ex(&bench.context, None, attributes) else {
        return Ok(None);
    };
    let a = QpInit {
        send_cq: cq,
        send_ops: Some(send_ops(bench.device, Transport::Rc)),
        ..bench.init(Transport::Rc, caps())?
    };
    Lane::new(bench, a, bench.init(Transport::Rc, caps())?).map(Some)
}

/// What a round posts, and by which functions.
struct Load {
    count: usize,
    kind: Kind,
    /// Bytes of each entry.
    lengths: &'static [usize],
    post_send: PostSend,
    poll_sends: Poll,
    /// A WRITE takes no receive.
    receives: Option<(PostRecv, Poll)>,
}

/// What the sends of a round are.
enum Kind {
    Send,
    Inline,
    Write,
}

const ONE: Load = Load {
    count: 1,
    kind: Kind::Send,
    lengths: &[MESSAGE],
    post_send: measured_post_send_1,
    poll_sends: measured_poll_sends_1,
    receives: Some((measured_post_recv_1, measured_poll_recvs_1)),
};
const SIXTEEN: Load = Load {
    count: 16,
    post_send: measured_post_send_16,
    poll_sends: measured_poll_sends_16,
    receives: Some((measured_post_recv_16, measured_poll_recvs_16)),
    ..ONE
};
const INLINED: Load = Load {
    kind: Kind::Inline,
    lengths: &[INLINE],
    post_send: measured_post_send_inline,
    ..ONE
};
const THREE_SGES: Load = Load {
    lengths: &[MESSAGE, MESSAGE, MESSAGE],
    post_send: measured_post_send_3_sges,
    ..ONE
};
const WRITES: Load = Load {
    count: 16,
    kind: Kind::Write,
    post_send: measured_post_write_16,
    poll_sends: measured_poll_writes_16,
    receives: None,
    ..ONE
};

/// A connection and the memory of both ends.
struct Lane {
    pair: Pair,
    memory: Mr,
}

impl Lane {
    fn new(bench: &Bench, a: QpInit, b: QpInit) -> Result<Self, Stop> {
        let bench = Bench {
            device: bench.device,
            context: Arc::clone(&bench.context),
            pd: Arc::clone(&bench.pd),
        };
        Ok(Self {
            memory: bench.memory(4096)?,
            pair: Pair::of(bench, a, b)?,
        })
    }

    fn sge(&self, offset: usize, len: usize) -> ibv_sge {
        // SAFETY: the region is alive.
        let lkey = unsafe { (*self.memory.raw()).lkey };
        ibv_sge {
            addr: self.memory.remote(offset).address,
            // CAST: less than the memory's 4096 bytes.
            length: u32::try_from(len).unwrap_or(0),
            lkey,
        }
    }

    fn receive(&self) -> RecvWr<'_> {
        RecvWr::new(0, &[self.memory.sge(1024, 4 * MESSAGE)])
    }

    fn round(&self, load: &Load) -> Outcome {
        let Pair { a, b, .. } = &self.pair;
        if let Some((post, _)) = load.receives {
            let receives = vec![self.receive(); load.count];
            let mut list = chain_recvs(&receives);
            // SAFETY: a QP that is alive; a list whose entries name memory of ours.
            ok(unsafe { post(b.qp.raw(), list.as_mut_ptr()) })?;
        }
        let sends = self.sends(load);
        let mut list = chain_sends(&sends);
        // SAFETY: as above.
        ok(unsafe { (load.post_send)(a.qp.raw(), list.as_mut_ptr()) })?;
        self.wait()?;
        poll(&a.send_cq, load.count, load.poll_sends)?;
        a.send_cq.take_one()?.ok();
        match load.receives {
            Some((_, poll_recvs)) => poll(&b.recv_cq, load.count, poll_recvs),
            None => Ok(()),
        }
    }

    /// Calls that find nothing.
    fn idle(&self) -> Outcome {
        let cq = &self.pair.a.send_cq;
        poll_for(cq, 0, 1, measured_poll_empty)?;
        // SAFETY: a CQ that is alive.
        ok(unsafe { measured_arm(cq.raw()) })
    }

    fn shared_round(&self, srq: &Srq, count: usize, post: PostSrqRecv, get: Poll) -> Outcome {
        let receives = vec![self.receive(); count];
        let mut list = chain_recvs(&receives);
        // SAFETY: as in `round`.
        ok(unsafe { post(srq.raw(), list.as_mut_ptr()) })?;
        let from = [self.memory.sge(0, MESSAGE)];
        let sends = vec![SendWr::send(&from).signaled(); count];
        self.pair.a.qp.post_send(&sends)?;
        self.wait()?;
        for wc in self.pair.a.send_cq.take(count + 1)? {
            wc.ok();
        }
        poll(&self.pair.b.recv_cq, count, get)
    }

    /// Sixteen sends by one draft, polled in one batch.
    fn extended_round(&self) -> Outcome {
        let Pair { a, b, .. } = &self.pair;
        b.qp.post_recv(&vec![self.receive(); 16])?;
        let (qp, sge) = (a.qp.extended_view(), self.sge(0, MESSAGE));
        // SAFETY: a QP that is alive and was created with send operations.
        ok(unsafe { measured_wr_post_16(qp, sge) })?;
        self.wait()?;
        // SAFETY: an extended CQ that is alive.
        let count = unsafe { measured_poll_ex_16(a.send_cq.raw().cast()) };
        assert_eq!(count, 16, "completions in a batch");
        a.send_cq.take_one()?.ok();
        for wc in b.recv_cq.take(16)? {
            wc.ok();
        }
        Ok(())
    }

    fn sends(&self, load: &Load) -> Vec<SendWr<'_>> {
        let data: Vec<_> = load
            .lengths
            .iter()
            .map(|len| self.memory.sge(0, *len))
            .collect();
        let wr = match load.kind {
            Kind::Send => SendWr::send(&data),
            Kind::Inline => SendWr::send(&data).inline(),
            Kind::Write => SendWr::write(&data, self.memory.remote(1024)),
        };
        vec![wr.signaled(); load.count]
    }

    /// Waits until what was sent has completed at both ends.
    fn wait(&self) -> Outcome {
        let word = |at: usize| self.memory.read(at..at + 1)[0];
        let next = word(SOURCE).wrapping_add(1);
        self.memory.write(SOURCE, &[next]);
        let (sink, source) = (self.memory.sge(SINK, 1), self.memory.remote(SOURCE));
        self.pair
            .a
            .qp
            .post_send(&[SendWr::read(&[sink], source).signaled()])?;
        while word(SINK) != next {
            thread::yield_now();
        }
        Ok(())
    }
}

fn small(count: usize) -> c_int {
    c_int::try_from(count).unwrap_or(c_int::MAX)
}

fn ok(returned: c_int) -> Outcome {
    match returned {
        0 => Ok(()),
        errno => Err(std::io::Error::from_raw_os_error(errno.abs()).into()),
    }
}

/// Polls for `count` completions, all of which are there.
fn poll(cq: &Cq, count: usize, get: Poll) -> Outcome {
    poll_for(cq, count, count, get)
}

fn poll_for(cq: &Cq, count: usize, room: usize, get: Poll) -> Outcome {
    let mut wcs = vec![ibv_wc::default(); room];
    // SAFETY: a CQ that is alive, and room for as many.
    let got = unsafe { get(cq.raw(), small(room), wcs.as_mut_ptr()) };
    assert_eq!(got, small(count), "completions at once");
    for wc in wcs.iter().take(count) {
        assert_eq!(wc.status, sys::IBV_WC_SUCCESS, "a completion's status");
    }
    Ok(())
}
