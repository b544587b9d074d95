// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause

//! Single requests that are malformed.

use guest::links::Device;
use guest::pair::{Bench, Pair};
use guest::suite::{Outcome, Suite};
use guest::verbs::{Caps, Mr, RecvWr, SendWr, Srq, Transport, sys};

use super::{NEGATIVE, assert_works, refusal};

pub(super) fn add(suite: &mut Suite) {
    for device in Device::ALL {
        let on_siw = device.pick(None, Some(NEGATIVE));
        suite
            .on("bad_input", device, "too_many_sges", too_many_sges)
            .beyond_stock(on_siw);
        suite
            .on("bad_input", device, "srq_too_many_sges", srq_too_many_sges)
            .beyond_stock(on_siw);
        suite
            .on("bad_input", device, "inline_too_long", inline)
            .beyond_stock(on_siw);
        suite
            .on("bad_input", device, "negative_num_sge", negative)
            .beyond_stock(on_siw);
        suite
            .on("bad_input", device, "unknown_opcode", unknown_opcode)
            .beyond_stock(device.pick(ACCEPTED, NEGATIVE));
    }
    suite
        .case(
            "bad_input/siw/opcode_of_other_transport",
            opcode_of_other_transport,
        )
        .beyond_stock(NEGATIVE);
    suite
        .case("bad_input/rxe/opcode_not_of_uc", || {
            not_of_qp_type(Transport::Uc)
        })
        .beyond_stock(ACCEPTED);
    suite
        .case("bad_input/rxe/opcode_not_of_ud", || {
            not_of_qp_type(Transport::Ud)
        })
        .beyond_stock(ACCEPTED);
}

/// Why stock rxe fails the cases of opcodes.
const ACCEPTED: &str = "the request is accepted, and kills the QP";

/// Opcodes that do not exist: one behind the last, one far away, and all bits.
const UNKNOWN: [u32; 3] = [sys::IBV_WR_DRIVER1 + 10, 0x77, u32::MAX];

/// The device's most elements per request, and of inline bytes.
fn limits(device: Device) -> Caps {
    let sges = device.pick(32, 6);
    Caps {
        send_sge: sges,
        recv_sge: sges,
        inline: device.pick(512, 80),
        ..Caps::default()
    }
}

fn too_many_sges(device: Device) -> Outcome {
    let caps = limits(device);
    let pair = Pair::with(device, Transport::Rc, caps)?;
    let memory = pair.bench.memory(64)?;
    for excess in [1, 10, 250] {
        let sges = vec![memory.sge(0, 1); caps.send_sge as usize + excess];
        let send = SendWr::send(&sges).id(1).signaled();
        assert_eq!(
            pair.a.qp.post_send(&[send]),
            refusal(libc::EINVAL, 0),
            "send"
        );
        let recv = RecvWr::new(2, &sges);
        assert_eq!(
            pair.a.qp.post_recv(&[recv]),
            refusal(libc::EINVAL, 0),
            "receive"
        );
    }
    assert_works(&pair)
}

fn srq_too_many_sges(device: Device) -> Outcome {
    let bench = Bench::open(device)?;
    let limit = bench.context.limits()?.max_srq_sge;
    let srq = Srq::create(&bench.pd, 16, u32::try_from(limit)?)?;
    let memory = bench.memory(64)?;
    for excess in [1, 10, 250] {
        let sges = vec![memory.sge(0, 1); usize::try_from(limit)? + excess];
        let posted = srq.post_recv(&[RecvWr::new(2, &sges)]);
        assert_eq!(posted, refusal(libc::EINVAL, 0));
    }
    Ok(())
}

fn inline(device: Device) -> Outcome {
    let caps = limits(device);
    let pair = Pair::with(device, Transport::Rc, caps)?;
    let (memory, limit) = (pair.bench.memory(1 << 20)?, caps.inline as usize);
    for lengths in [&[limit + 1][..], &[limit, 1], &[1 << 20]] {
        let send = SendWr::send(&memory.sges(0, lengths))
            .inline()
            .id(1)
            .signaled();
        assert_eq!(
            pair.a.qp.post_send(&[send]),
            refusal(libc::EINVAL, 0),
            "{lengths:?}"
        );
    }
    assert_works(&pair)
}

fn unknown_opcode(device: Device) -> Outcome {
    opcodes(device, &UNKNOWN)
}

/// Operations that iWARP, or siw, does not have.
fn opcode_of_other_transport() -> Outcome {
    let opcodes_of_infiniband = [
        sys::IBV_WR_SEND_WITH_IMM,
        sys::IBV_WR_RDMA_WRITE_WITH_IMM,
        sys::IBV_WR_ATOMIC_CMP_AND_SWP,
        sys::IBV_WR_ATOMIC_FETCH_AND_ADD,
        sys::IBV_WR_BIND_MW,
    ];
    opcodes(Device::Siw, &opcodes_of_infiniband)
}

fn opcodes(device: Device, opcodes: &[u32]) -> Outcome {
    let pair = Pair::new(device, Transport::Rc)?;
    let memory = pair.bench.memory(64)?;
    for &opcode in opcodes {
        let wr = with_opcode(opcode, &memory).id(1).signaled();
        assert_eq!(
            pair.a.qp.post_send(&[wr]),
            refusal(libc::EINVAL, 0),
            "opcode {opcode}"
        );
    }
    assert_works(&pair)
}

/// A request with everything that any operation may look at.
fn with_opcode<'m>(opcode: u32, memory: &'m Mr) -> SendWr<'m> {
    let sges: &[_] = match opcode {
        sys::IBV_WR_BIND_MW | sys::IBV_WR_LOCAL_INV => &[],
        _ => &[memory.sge(0, 8)],
    };
    SendWr::new(opcode, sges).at(memory.remote(8))
}

fn negative(device: Device) -> Outcome {
    let pair = Pair::new(device, Transport::Rc)?;
    let memory = pair.bench.memory(64)?;
    for count in [-1, i32::MIN, -250] {
        let send = SendWr::send(&[memory.sge(0, 8)]).id(1).signaled();
        // SAFETY: this process may crash: that would be a verdict.
        let send = unsafe { send.claiming(count) };
        assert_eq!(
            pair.a.qp.post_send(&[send]),
            refusal(libc::EINVAL, 0),
            "send"
        );
        // SAFETY: as above.
        let recv = unsafe { RecvWr::new(2, &[memory.sge(0, 8)]).claiming(count) };
        assert_eq!(
            pair.a.qp.post_recv(&[recv]),
            refusal(libc::EINVAL, 0),
            "receive"
        );
    }
    assert_works(&pair)
}

/// UC knows neither READ nor atomics, UD nothing but SEND.
fn not_of_qp_type(transport: Transport) -> Outcome {
    let mut refused = vec![
        sys::IBV_WR_RDMA_READ,
        sys::IBV_WR_ATOMIC_CMP_AND_SWP,
        sys::IBV_WR_ATOMIC_FETCH_AND_ADD,
    ];
    if transport == Transport::Ud {
        refused.extend([sys::IBV_WR_RDMA_WRITE, sys::IBV_WR_RDMA_WRITE_WITH_IMM]);
        refused.extend([
            sys::IBV_WR_SEND_WITH_INV,
            sys::IBV_WR_BIND_MW,
            sys::IBV_WR_LOCAL_INV,
        ]);
    }
    let pair = Pair::new(Device::Rxe, transport)?;
    let memory = pair.bench.memory(64)?;
    for opcode in refused {
        // No address handle: a datagram's is not even looked at.
        let wr = with_opcode(opcode, &memory).id(1).signaled();
        assert_eq!(
            pair.a.qp.post_send(&[wr]),
            refusal(libc::EINVAL, 0),
            "opcode {opcode}"
        );
    }
    if transport == Transport::Ud {
        assert_eq!(pair.a.send_cq.poll_one()?.map(|wc| wc.wr_id), None);
        return Ok(());
    }
    assert_works(&pair)
}
