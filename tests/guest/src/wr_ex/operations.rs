// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause

//! Each builder: what it asks for is what happens.

use guest::links::Device;
use guest::pair::{Bench, Pair};
use guest::suite::{Outcome, Stop, Suite};
use guest::verbs::sys::provider::{QP_EX_WITH_FLUSH, WC_FLUSH, WR_FLUSH_OFFSET, WrFlush};
use guest::verbs::{
    Caps, Mr, Mw, Qp, QpInit, REMOTE_ACCESS, RecvWr, Remote, SendWr, Transport, Wc, sys,
};
use guest::wr_call;

use super::{case, pair};

pub(super) fn add(suite: &mut Suite) {
    for device in Device::ALL {
        case(suite, device, "write_and_read", write_and_read);
        case(suite, device, "send", send);
    }
    for (name, transport) in [("rc", Transport::Rc), ("uc", Transport::Uc)] {
        case(
            suite,
            Device::Rxe,
            &format!("{name}/immediate"),
            move |_| immediate(transport),
        );
    }
    case(suite, Device::Rxe, "atomics", |_| atomics());
    case(suite, Device::Rxe, "windows", |_| windows());
    case(suite, Device::Rxe, "atomic_write", |_| atomic_write())
        .beyond_stock("6.1: a QP can be had for what the kernel does not have");
    case(suite, Device::Rxe, "flush", |_| flush())
        .beyond_stock("6.1: a QP can be had for what the kernel does not have");
    case(suite, Device::Siw, "send_inv", |_| {
        revoked(|pair, region, to| {
            pair.b.qp.post_recv(&[RecvWr::new(1, &[to.sge(0, 8)])])?;
            let send = SendWr::send(&[to.sge(8, 8)]).invalidating(region.rkey());
            let sent = completed(pair, &send.id(2))?;
            assert_eq!((sent.wr_id, sent.opcode), (2, sys::IBV_WC_SEND));
            assert_eq!(pair.b.recv_cq.take_one()?.ok().wr_id, 1);
            Ok(())
        })
    });
    case(suite, Device::Siw, "local_inv", |_| {
        revoked(|pair, region, _| {
            let wr = SendWr::local_invalidate(region.rkey()).id(3).signaled();
            pair.b.qp.post_draft(&[wr])?;
            let wc = pair.b.send_cq.take_one()?.ok();
            assert_eq!((wc.wr_id, wc.opcode), (3, sys::IBV_WC_LOCAL_INV));
            Ok(())
        })
    });
}

/// Posts one request at `a` and returns its completion.
fn completed(pair: &Pair, wr: &SendWr<'_>) -> Result<Wc, Stop> {
    pair.a.qp.post_draft(&[wr.clone().signaled()])?;
    Ok(pair.a.send_cq.take_one()?.ok())
}

fn rc(device: Device) -> Result<(Pair, Mr, Mr), Stop> {
    let pair = pair(device, Transport::Rc, Caps::default())?;
    let (from, to) = (pair.bench.memory(64)?, pair.bench.memory(64)?);
    Ok((pair, from, to))
}

fn word(mr: &Mr, offset: usize) -> u64 {
    let mut word = [0; 8];
    word.copy_from_slice(&mr.read(offset..offset + 8));
    u64::from_ne_bytes(word)
}

fn write_and_read(device: Device) -> Outcome {
    let (pair, from, to) = rc(device)?;
    from.write(0, b"there and back");
    let wc = completed(
        &pair,
        &SendWr::write(&[from.sge(0, 14)], to.remote(3)).id(1),
    )?;
    assert_eq!((wc.wr_id, wc.opcode), (1, sys::IBV_WC_RDMA_WRITE));
    let wc = completed(
        &pair,
        &SendWr::read(&[from.sge(20, 14)], to.remote(3)).id(2),
    )?;
    assert_eq!((wc.wr_id, wc.opcode), (2, sys::IBV_WC_RDMA_READ));
    assert_eq!(from.read(20..34), b"there and back");
    // Without data, also an operation that moves some is whole.
    let wc = completed(&pair, &SendWr::write(&[], to.remote(0)).id(3))?;
    assert_eq!(wc.wr_id, 3);
    Ok(())
}

fn send(device: Device) -> Outcome {
    let (pair, from, to) = rc(device)?;
    from.write(0, b"hello");
    for (number, sges) in [vec![from.sge(0, 5)], vec![]].into_iter().enumerate() {
        pair.b.qp.post_recv(&[RecvWr::new(7, &[to.sge(0, 8)])])?;
        let wc = completed(&pair, &SendWr::send(&sges).id(number as u64))?;
        assert_eq!((wc.wr_id, wc.opcode), (number as u64, sys::IBV_WC_SEND));
        let received = pair.b.recv_cq.take_one()?.ok();
        let bytes: u32 = sges.iter().map(guest::verbs::Sge::len).sum();
        assert_eq!((received.wr_id, received.byte_len), (7, bytes));
    }
    assert_eq!(to.read(0..5), b"hello");
    Ok(())
}

fn immediate(transport: Transport) -> Outcome {
    let pair = pair(Device::Rxe, transport, Caps::default())?;
    let (from, to) = (pair.bench.memory(64)?, pair.bench.memory(64)?);
    from.write(0, b"immediate");
    for (wr, opcode, offset) in [
        (SendWr::send(&[from.sge(0, 9)]), sys::IBV_WC_RECV, 0),
        (
            SendWr::write(&[from.sge(0, 9)], to.remote(20)),
            sys::IBV_WC_RECV_RDMA_WITH_IMM,
            20,
        ),
    ] {
        pair.b.qp.post_recv(&[RecvWr::new(1, &[to.sge(0, 16)])])?;
        completed(&pair, &wr.imm(0x1234_5678))?;
        let received = pair.b.recv_cq.take_one()?.ok();
        assert_eq!((received.opcode, received.imm()), (opcode, 0x1234_5678));
        assert_eq!(to.read(offset..offset + 9), b"immediate");
    }
    Ok(())
}

fn atomics() -> Outcome {
    let (pair, found, target) = rc(Device::Rxe)?;
    target.write(16, &u64::to_ne_bytes(40));
    let swap = |compare| SendWr::compare_swap(found.sge(0, 8), target.remote(16), compare, 7);
    for (compare, before, after) in [(41, 40, 40), (40, 40, 7)] {
        let wc = completed(&pair, &swap(compare))?;
        assert_eq!(wc.opcode, sys::IBV_WC_COMP_SWAP);
        assert_eq!((word(&found, 0), word(&target, 16)), (before, after));
    }
    let add = SendWr::fetch_add(found.sge(8, 8), target.remote(16), 5);
    assert_eq!(completed(&pair, &add)?.opcode, sys::IBV_WC_FETCH_ADD);
    assert_eq!((word(&found, 8), word(&target, 16)), (7, 12));
    Ok(())
}

/// Bind, use, SEND_WITH_INV; bind, use, LOCAL_INV.
fn windows() -> Outcome {
    for by_peer in [true, false] {
        let pair = pair(Device::Rxe, Transport::Rc, Caps::default())?;
        let from = pair.bench.memory(64)?;
        let access =
            sys::IBV_ACCESS_LOCAL_WRITE | sys::IBV_ACCESS_REMOTE_WRITE | sys::IBV_ACCESS_MW_BIND;
        let to = Mr::register(&pair.bench.pd, 64, access)?;
        let mw = Mw::alloc(&pair.bench.pd)?;
        let rkey = mw.rkey() ^ 0x5a;
        let bind = SendWr::bind(&mw, &to, rkey, sys::IBV_ACCESS_REMOTE_WRITE);
        pair.b.qp.post_draft(&[bind.signaled()])?;
        assert_eq!(pair.b.send_cq.take_one()?.ok().opcode, sys::IBV_WC_BIND_MW);
        let target = Remote {
            rkey,
            ..to.remote(0)
        };
        from.write(0, b"windowed");
        completed(&pair, &SendWr::write(&[from.sge(0, 8)], target))?;
        assert_eq!(to.read(0..8), b"windowed");
        if by_peer {
            pair.b.qp.post_recv(&[RecvWr::new(1, &[to.sge(32, 8)])])?;
            completed(&pair, &SendWr::send(&[from.sge(0, 8)]).invalidating(rkey))?;
            pair.b.recv_cq.take_one()?.ok();
        } else {
            let wr = SendWr::local_invalidate(rkey).signaled();
            pair.b.qp.post_draft(&[wr])?;
            assert_eq!(
                pair.b.send_cq.take_one()?.ok().opcode,
                sys::IBV_WC_LOCAL_INV
            );
        }
        let wr = SendWr::write(&[from.sge(0, 8)], target).signaled();
        pair.a.qp.post_draft(&[wr])?;
        let refused = pair.a.send_cq.take_one()?;
        assert_eq!(refused.status, sys::IBV_WC_REM_ACCESS_ERR, "{refused:?}");
    }
    Ok(())
}

/// siw invalidates a region; the QP that uses its key then dies.
fn revoked(revoke: impl Fn(&Pair, &Mr, &Mr) -> Outcome) -> Outcome {
    let (pair, to, region) = rc(Device::Siw)?;
    completed(&pair, &SendWr::read(&[to.sge(0, 8)], region.remote(0)))?;
    revoke(&pair, &region, &to)?;
    let read = SendWr::read(&[to.sge(0, 8)], region.remote(0)).signaled();
    pair.a.qp.post_draft(&[read])?;
    let refused = pair.a.send_cq.take_one()?;
    assert!(!refused.is_success(), "the region still opens: {refused:?}");
    Ok(())
}

/// What a QP is created from that writes, and has `young` operations.
fn young(bench: &Bench, young: u32) -> Result<QpInit, Stop> {
    Ok(QpInit {
        send_ops: Some(u64::from(sys::IBV_QP_EX_WITH_RDMA_WRITE | young)),
        ..bench.init(Transport::Rc, Caps::default())?
    })
}

/// Asserts that no QP can be had for what is not there.
fn assert_not_to_be_had(bench: &Bench, init: &QpInit) {
    let said = Qp::create(&bench.pd, init).map(drop);
    let said = said.map_err(|error| error.raw_os_error());
    assert_eq!(said, Err(Some(libc::EOPNOTSUPP)));
}

fn is(variable: &str, value: &str) -> bool {
    std::env::var(variable).as_deref() == Ok(value)
}

/// Where the kernel has no atomic writes, a QP for them cannot be had; where it has, they write.
fn atomic_write() -> Outcome {
    let bench = Bench::open(Device::Rxe)?;
    let init = young(&bench, sys::IBV_QP_EX_WITH_ATOMIC_WRITE)?;
    if is("KERNEL", "6.1") {
        assert_not_to_be_had(&bench, &init);
        return Ok(());
    }
    let pair = Pair::of(bench, init.clone(), init)?;
    let target = pair.bench.memory(64)?;
    let draft = pair.a.qp.draft();
    for (at, value) in [(8, 0x0102_0304_0506_0708_u64), (24, u64::MAX)] {
        let to = target.remote(at);
        // SAFETY: the QP is alive, the value 8 bytes that outlive the call.
        unsafe {
            (*draft.raw()).wr_id = at as u64;
            (*draft.raw()).wr_flags = sys::IBV_SEND_SIGNALED;
            let value = (&raw const value).cast();
            wr_call!(draft.raw(), wr_atomic_write, to.rkey, to.address, value);
        }
    }
    draft.complete()?;
    for at in [8, 24] {
        let wc = pair.a.send_cq.take_one()?.ok();
        assert_eq!((wc.wr_id, wc.opcode), (at, sys::IBV_WC_ATOMIC_WRITE));
    }
    assert_eq!(word(&target, 8), 0x0102_0304_0506_0708);
    assert_eq!((word(&target, 16), word(&target, 24)), (0, u64::MAX));
    Ok(())
}

/// Flushes came with linux 6.2 and rdma-core 45, whose header this program is not built with.
fn flush() -> Outcome {
    /// `IBV_ACCESS_FLUSH_GLOBAL`, `IBV_FLUSH_GLOBAL`, `IBV_FLUSH_RANGE`.
    const ACCESS: u32 = 1 << 8;
    const GLOBAL: u8 = 1;
    const RANGE: u8 = 0;

    let bench = Bench::open(Device::Rxe)?;
    let init = young(&bench, QP_EX_WITH_FLUSH)?;
    if is("KERNEL", "6.1") || is("USERLAND", "12") {
        assert_not_to_be_had(&bench, &init);
        return Ok(());
    }
    let pair = Pair::of(bench, init.clone(), init)?;
    let access = sys::ibv_qp_attr {
        qp_state: sys::IBV_QPS_RTS,
        qp_access_flags: REMOTE_ACCESS | ACCESS,
        ..Default::default()
    };
    let mask = sys::IBV_QP_STATE | sys::IBV_QP_ACCESS_FLAGS;
    pair.b.qp.modify(access, mask)?;
    let from = pair.bench.memory(64)?;
    let target = Mr::register(&pair.bench.pd, 64, REMOTE_ACCESS | ACCESS)?;
    let to = target.remote(0);
    from.write(0, b"lasting");
    let draft = pair.a.qp.draft();
    draft.add(&SendWr::write(&[from.sge(0, 7)], to).id(1).signaled());
    // SAFETY: the QP is alive, and was created for this operation, which is behind the others.
    unsafe {
        let qp = draft.raw();
        (*qp).wr_id = 2;
        (*qp).wr_flags = sys::IBV_SEND_SIGNALED;
        let wr_flush = *qp.cast::<WrFlush>().byte_add(WR_FLUSH_OFFSET);
        wr_flush(qp, to.rkey, to.address, 7, GLOBAL, RANGE);
    }
    draft.complete()?;
    assert_eq!(pair.a.send_cq.take_one()?.ok().wr_id, 1);
    let wc = pair.a.send_cq.take_one()?.ok();
    assert_eq!((wc.wr_id, wc.opcode), (2, WC_FLUSH));
    assert_eq!(target.read(0..7), b"lasting");
    Ok(())
}
