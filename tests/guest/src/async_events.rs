// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause

//! Theme `async`: asynchronous events arrive, name their object, and hold up no destruction once
//! they are acknowledged.

use std::sync::Arc;
use std::time::Duration;

use guest::links::{self, Device};
use guest::pair::{Bench, Pair};
use guest::suite::{Outcome, Stop, Suite};
use guest::verbs::{
    AsyncEvent, Caps, Context, Mr, PATIENCE, Qp, QpInit, RecvWr, SendWr, Srq, Transport, sys,
};

/// How long to look for an event that must not come.
const SILENCE: Duration = Duration::from_millis(200);

/// Adds the cases of this theme.
pub(crate) fn add(suite: &mut Suite) {
    for device in Device::ALL {
        suite.case(format!("async/{device}/srq_limit"), move || {
            srq_limit(device)
        });
        suite.case(
            format!("async/{device}/destroy_before_delivery"),
            move || destroy_before_delivery(device),
        );
        suite.case(format!("async/{device}/port_down_and_up"), move || {
            port(device)
        });
    }
    suite.case("async/rxe/sq_drained", sq_drained);
    suite.case("async/siw/qp_fatal", qp_fatal);
}

/// The next event, which must be of `kind`.
fn expect(context: &Arc<Context>, kind: sys::ibv_event_type) -> Result<AsyncEvent, Stop> {
    match context.next_event(PATIENCE)? {
        Some(event) if event.kind() == kind => Ok(event),
        Some(event) => Err(Stop::Fail(format!("{event:?} instead of event {kind}"))),
        None => Err(Stop::Fail(format!("no event {kind} within {PATIENCE:?}"))),
    }
}

fn expect_none(context: &Arc<Context>) -> Outcome {
    match context.next_event(SILENCE)? {
        None => Ok(()),
        Some(event) => Err(Stop::Fail(format!("unexpected {event:?}"))),
    }
}

/// Two QPs, the second of which takes its receives from an SRQ.
struct SharedPair {
    bench: Bench,
    srq: Arc<Srq>,
    sender: Qp,
    _receiver: Qp,
    to: QpInit,
    memory: Mr,
}

impl SharedPair {
    fn connect(device: Device) -> Result<Self, Stop> {
        let bench = Bench::open(device)?;
        let srq = Srq::create(&bench.pd, 16, 1)?;
        let from = bench.init(Transport::Rc, Caps::default())?;
        let own = bench.init(Transport::Rc, Caps::default())?;
        let to = QpInit {
            srq: Some(Arc::clone(&srq)),
            ..own
        };
        let (sender, receiver) = bench.connect(&from, &to)?;
        let memory = bench.memory(8)?;
        Ok(Self {
            bench,
            srq,
            sender,
            _receiver: receiver,
            to,
            memory,
        })
    }

    fn stock(&self, count: u64) -> Outcome {
        let recvs: Vec<_> = (0..count)
            .map(|at| RecvWr::new(at, &[self.memory.sge(0, 8)]))
            .collect();
        Ok(self.srq.post_recv(&recvs)?)
    }

    fn consume(&self, count: usize) -> Outcome {
        for _ in 0..count {
            self.sender
                .post_send(&[SendWr::send(&[self.memory.sge(0, 8)])])?;
            self.to.recv_cq.take_one()?.ok();
        }
        Ok(())
    }
}

/// The event comes when fewer are left than the limit, once per arming.
fn srq_limit(device: Device) -> Outcome {
    let shared = SharedPair::connect(device)?;
    let context = &shared.bench.context;
    for _ in 0..3 {
        shared.stock(10)?;
        shared.srq.arm_limit(5)?;
        shared.consume(5)?;
        expect_none(context)?;
        shared.consume(1)?;
        let event = expect(context, sys::IBV_EVENT_SRQ_LIMIT_REACHED)?;
        assert!(event.is_of_srq(&shared.srq), "the event is of another SRQ");
        drop(event);
        shared.consume(4)?;
        expect_none(context)?;
    }
    Ok(())
}

/// An event that nobody has taken does not keep its object alive.
fn destroy_before_delivery(device: Device) -> Outcome {
    let shared = SharedPair::connect(device)?;
    let context = Arc::clone(&shared.bench.context);
    shared.stock(10)?;
    shared.srq.arm_limit(8)?;
    shared.consume(5)?;
    drop(shared);
    expect_none(&context)
}

fn port(device: Device) -> Outcome {
    let context = Context::open(device.ibdev())?;
    links::set_down(device)?;
    assert_eq!(expect(&context, sys::IBV_EVENT_PORT_ERR)?.port(), 1);
    links::set_up(device)?;
    assert_eq!(expect(&context, sys::IBV_EVENT_PORT_ACTIVE)?.port(), 1);
    Ok(())
}

fn sq_drained() -> Outcome {
    let pair = Pair::new(Device::Rxe, Transport::Rc)?;
    let memory = pair.bench.memory(8)?;
    pair.a
        .qp
        .post_send(&[SendWr::write(&[memory.sge(0, 8)], memory.remote(0)).signaled()])?;
    pair.a.send_cq.take_one()?.ok();
    let attributes = sys::ibv_qp_attr {
        qp_state: sys::IBV_QPS_SQD,
        en_sqd_async_notify: 1,
        ..Default::default()
    };
    pair.a.qp.modify(
        attributes,
        sys::IBV_QP_STATE | sys::IBV_QP_EN_SQD_ASYNC_NOTIFY,
    )?;
    let event = expect(&pair.bench.context, sys::IBV_EVENT_SQ_DRAINED)?;
    assert!(event.is_of_qp(&pair.a.qp), "the event is of another QP");
    Ok(())
}

/// A send that siw cannot even start kills its QP with an event.
///
/// `siw_qp_sq_process` drops the connection before it raises that event, so the peer may have noticed
/// before, and its end is told by what the flush of its send queue raises.
fn qp_fatal() -> Outcome {
    let pair = Pair::new(Device::Siw, Transport::Rc)?;
    let memory = pair.bench.memory(8)?;
    let bad = memory.sge(0, 8).with_lkey(0x7654_3200);
    pair.a
        .qp
        .post_send(&[SendWr::send(&[bad]).id(3).signaled()])?;
    let context = &pair.bench.context;
    let mut next = context.next_event(PATIENCE)?;
    while next.as_ref().is_some_and(|event| {
        event.kind() == sys::IBV_EVENT_SQ_DRAINED && event.is_of_qp(&pair.b.qp)
    }) {
        drop(next);
        next = context.next_event(PATIENCE)?;
    }
    let event = next.ok_or_else(|| Stop::Fail(format!("no QP_FATAL within {PATIENCE:?}")))?;
    assert_eq!(event.kind(), sys::IBV_EVENT_QP_FATAL, "{event:?}");
    assert!(event.is_of_qp(&pair.a.qp), "the event is of another QP");
    drop(event);
    assert_eq!(pair.a.send_cq.take_one()?.wr_id, 3);
    Ok(())
}
