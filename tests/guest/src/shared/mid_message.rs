// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause

//! Death in the middle of a message, whose SRQ receive is in the kernel's hands alone.

use std::thread;
use std::time::Instant;

use guest::death::{Death, NO_KEY};
use guest::links::{Device, Stall};
use guest::roll::patience;
use guest::scene::{LARGE, SMALL, Scene};
use guest::suite::{Outcome, Stop, Suite};
use guest::verbs::{Caps, Mr, Qp, QpInit, SendWr, Transport, sys};

use super::{expect_silence, last_wqe, poll, victim};

pub(super) fn add(suite: &mut Suite) {
    for device in Device::ALL {
        let lost = device.pick(
            "6.12: the half-filled receive is lost; 6.1: the event is missing",
            "the event is missing",
        );
        suite
            .on("shared", device, "mid_message/one_qp", one_qp)
            .beyond_stock(lost);
        suite
            .on("shared", device, "mid_message/two_qps", two_qps)
            .beyond_stock(lost);
    }
}

/// The first bytes of a message have arrived, and the rest does not come.
struct Half {
    /// On siw, what keeps the rest back.
    _slow: Option<Stall>,
    /// The whole message.
    _memory: Mr,
}

impl Half {
    /// rxe's sender finds no memory for the second half; siw's network is slow.
    fn send(scene: &Scene) -> Result<Self, Stop> {
        let near = &scene.near;
        near.fill(0);
        let whole = scene.bench.memory(LARGE)?;
        whole.fill(0xff);
        let (slow, sges) = match scene.device() {
            Device::Rxe => {
                let second = whole.sge(LARGE / 8, LARGE / 8).with_lkey(NO_KEY);
                (None, vec![whole.sge(0, LARGE / 8), second])
            }
            Device::Siw => (Some(Stall::slow()?), vec![whole.sge(0, LARGE)]),
        };
        let peer = scene.peer();
        peer.qp.post_send(&[SendWr::send(&sges)])?;
        let start = Instant::now();
        while near.read(0..1) == [0] {
            if start.elapsed() > patience() {
                return Err(Stop::Fail("no byte has arrived".to_owned()));
            }
            thread::yield_now();
        }
        if scene.device() == Device::Rxe {
            // The sender has failed, so nothing more comes.
            peer.send_cq.take_one()?;
        }
        Ok(Self {
            _slow: slow,
            _memory: whole,
        })
    }
}

/// One receive that holds the whole message, and some behind it.
fn post_recvs(scene: &Scene) -> Outcome {
    scene.post_recvs_of(1, LARGE)?;
    scene.post_recvs(5)
}

/// The receive that was taken is flushed, and the event comes behind it.
fn one_qp(device: Device) -> Outcome {
    let scene = victim(device)?;
    post_recvs(&scene)?;
    let _half = Half::send(&scene)?;
    Death::ModifyErr.inflict(&scene, 0)?;
    check_taken(&scene)
}

fn check_taken(scene: &Scene) -> Outcome {
    drop(last_wqe(scene)?);
    poll(scene)?;
    let flushed = Some(sys::IBV_WC_WR_FLUSH_ERR);
    assert_eq!(
        scene.roll.statuses(scene.recvs)[0],
        flushed,
        "the receive that was taken"
    );
    assert_eq!(scene.roll.answered(scene.recvs), 1);
    expect_silence(scene)?;
    scene.settle()
}

/// As [`one_qp`], while another QP of the SRQ goes on: only the dead one's receive is flushed.
fn two_qps(device: Device) -> Outcome {
    let scene = victim(device)?;
    post_recvs(&scene)?;
    let other = Other::connect(&scene)?;
    let half = Half::send(&scene)?;
    Death::ModifyErr.inflict(&scene, 0)?;
    drop(half);
    for _ in 0..5 {
        other.receive(&scene)?;
    }
    drop(last_wqe(&scene)?);
    poll(&scene)?;
    let statuses = scene.roll.statuses(scene.recvs);
    let success = Some(sys::IBV_WC_SUCCESS);
    assert_eq!(
        statuses[0],
        Some(sys::IBV_WC_WR_FLUSH_ERR),
        "the receive that was taken"
    );
    assert!(statuses[1..].iter().all(|&status| status == success));
    expect_silence(&scene)?;
    scene.settle()
}

/// Another QP on the victim's SRQ and CQs, and its peer.
struct Other {
    _qp: Qp,
    peer: Qp,
    far: QpInit,
}

impl Other {
    fn connect(scene: &Scene) -> Result<Self, Stop> {
        let far = scene.bench.init(Transport::Rc, Caps::default())?;
        let near = QpInit {
            send_cq: scene.victim.send_cq.clone(),
            recv_cq: scene.victim.recv_cq.clone(),
            srq: scene.srq.clone(),
            ..far.clone()
        };
        let (qp, peer) = scene.bench.connect(&near, &far)?;
        Ok(Self { _qp: qp, peer, far })
    }

    /// Takes a receive from the SRQ.
    fn receive(&self, scene: &Scene) -> Outcome {
        let before = scene.roll.answered(scene.recvs);
        let message = SendWr::send(&[scene.near.sge(0, SMALL)]).signaled();
        self.peer.post_send(&[message])?;
        self.far.send_cq.take_one()?.ok();
        let start = Instant::now();
        while scene.roll.answered(scene.recvs) == before {
            poll(scene)?;
            if start.elapsed() > patience() {
                return Err(Stop::Fail("the message never arrived".to_owned()));
            }
        }
        Ok(())
    }
}
