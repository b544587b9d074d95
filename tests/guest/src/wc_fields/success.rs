// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause

//! Completions of requests that succeeded.

use guest::links::Device;
use guest::pair::{Pair, QKEY};
use guest::suite::{Outcome, Suite};
use guest::verbs::{Ah, Mr, Mw, RecvWr, SendWr, Transport, Wc, sys};

pub(super) fn add(suite: &mut Suite) {
    for device in Device::ALL {
        suite.case(format!("wc_fields/{device}/rc/each_opcode"), move || {
            each_opcode(&Pair::new(device, Transport::Rc)?)
        });
        suite.case(format!("wc_fields/{device}/rc/wr_id"), move || {
            wr_id(device)
        });
    }
    suite.case("wc_fields/rxe/ud/each_opcode", || {
        datagram(&Pair::new(Device::Rxe, Transport::Ud)?)
    });
    suite
        .case("wc_fields/rxe/rc/with_inv", || {
            with_inv(&Pair::new(Device::Rxe, Transport::Rc)?)
        })
        .beyond_stock("the kernel's IB_WC_WITH_INVALIDATE (4) arrives as IBV_WC_IP_CSUM_OK");
}

/// The fields that tell one completion from another.
#[derive(Debug, PartialEq, Eq)]
struct Fields {
    wr_id: u64,
    opcode: u32,
    byte_len: u32,
    wc_flags: u32,
    imm: u32,
    qp_num: u32,
    src_qp: u32,
}

/// Compares all fields of a completion of `device` with those expected.
#[track_caller]
fn compare(device: Device, what: &str, wc: Wc, expected: &Fields) {
    let wc = wc.ok();
    let actual = Fields {
        wr_id: wc.wr_id,
        opcode: wc.opcode,
        byte_len: wc.byte_len,
        wc_flags: wc.wc_flags,
        imm: wc.imm(),
        qp_num: wc.qp_num,
        src_qp: if device == Device::Siw { 0 } else { wc.src_qp },
    };
    assert_eq!(&actual, expected, "{what}");
    assert_eq!(wc.vendor_err, 0, "{what}: vendor_err");
    if device == Device::Rxe {
        let path = (wc.pkey_index, wc.slid, wc.sl, wc.dlid_path_bits);
        assert_eq!(
            path,
            (0, 0, 0, 0),
            "{what}: pkey_index, slid, sl, dlid_path_bits"
        );
    }
}

/// An operation, and what it says when it has succeeded.
pub(crate) struct Operation<'m> {
    pub(crate) name: &'static str,
    pub(crate) wr: SendWr<'m>,
    /// `opcode`, `byte_len` and `wc_flags` of the sender's completion.
    sent: (u32, u32, u32),
    /// `opcode`, `wc_flags` and immediate data of the receiver's completion, if it has one.
    pub(crate) received: Option<(u32, u32, u32)>,
}

const IMM: u32 = 0x8123_4567;

const LEN: u32 = 24;

/// All operations of an RC QP on `device`.
pub(crate) fn operations<'m>(device: Device, from: &'m Mr, to: &Mr) -> Vec<Operation<'m>> {
    let sge = [from.sge(0, LEN as usize)];
    let word = from.sge(0, 8);
    let remote = to.remote(0);
    let grh = if device == Device::Rxe {
        sys::IBV_WC_GRH
    } else {
        0
    };
    let operation = |name, wr, sent, received| Operation {
        name,
        wr,
        sent,
        received,
    };
    let mut all = vec![
        operation(
            "SEND",
            SendWr::send(&sge),
            (sys::IBV_WC_SEND, LEN, 0),
            Some((sys::IBV_WC_RECV, grh, 0)),
        ),
        operation(
            "RDMA WRITE",
            SendWr::write(&sge, remote),
            (sys::IBV_WC_RDMA_WRITE, LEN, 0),
            None,
        ),
        operation(
            "RDMA READ",
            SendWr::read(&sge, remote),
            (sys::IBV_WC_RDMA_READ, LEN, 0),
            None,
        ),
    ];
    if device == Device::Rxe {
        // rxe says WITH_IMM to the sender too.
        let with_imm = sys::IBV_WC_WITH_IMM;
        all.push(operation(
            "SEND with immediate",
            SendWr::send(&sge).imm(IMM),
            (sys::IBV_WC_SEND, LEN, with_imm),
            Some((sys::IBV_WC_RECV, grh | with_imm, IMM)),
        ));
        all.push(operation(
            "RDMA WRITE with immediate",
            SendWr::write(&sge, remote).imm(IMM),
            (sys::IBV_WC_RDMA_WRITE, LEN, with_imm),
            Some((sys::IBV_WC_RECV_RDMA_WITH_IMM, grh | with_imm, IMM)),
        ));
        all.push(operation(
            "CMP_AND_SWP",
            SendWr::compare_swap(word, remote, 1, 2),
            (sys::IBV_WC_COMP_SWAP, 8, 0),
            None,
        ));
        all.push(operation(
            "FETCH_AND_ADD",
            SendWr::fetch_add(word, remote, 3),
            (sys::IBV_WC_FETCH_ADD, 8, 0),
            None,
        ));
    }
    all
}

/// What each operation of an RC pair says.
pub(crate) fn each_opcode(pair: &Pair) -> Outcome {
    let device = pair.bench.device;
    let (from, to) = (pair.bench.memory(64)?, pair.bench.memory(64)?);
    for (wr_id, operation) in (100..).zip(operations(device, &from, &to)) {
        if operation.received.is_some() {
            pair.b
                .qp
                .post_recv(&[RecvWr::new(!wr_id, &[to.sge(0, 64)])])?;
        }
        pair.a.qp.post_send(&[operation.wr.id(wr_id).signaled()])?;
        let (opcode, byte_len, wc_flags) = operation.sent;
        let qp_num = pair.a.qp.number();
        let sent = Fields {
            wr_id,
            opcode,
            byte_len,
            wc_flags,
            imm: 0,
            qp_num,
            src_qp: 0,
        };
        compare(device, operation.name, pair.a.send_cq.take_one()?, &sent);
        if let Some((opcode, wc_flags, imm)) = operation.received {
            let (qp_num, wr_id) = (pair.b.qp.number(), !wr_id);
            let byte_len = LEN;
            let received = Fields {
                wr_id,
                opcode,
                byte_len,
                wc_flags,
                imm,
                qp_num,
                src_qp: 0,
            };
            compare(
                device,
                operation.name,
                pair.b.recv_cq.take_one()?,
                &received,
            );
        }
    }
    Ok(())
}

/// Identifiers are the application's: any 64 bits come back as they were.
fn wr_id(device: Device) -> Outcome {
    let pair = Pair::new(device, Transport::Rc)?;
    let (from, to) = (pair.bench.memory(8)?, pair.bench.memory(8)?);
    for wr_id in [
        0,
        u64::MAX,
        1 << 63,
        0x0123_4567_89ab_cdef,
        0xffff_ffff,
        1 << 32,
        0,
    ] {
        pair.b
            .qp
            .post_recv(&[RecvWr::new(wr_id, &[to.sge(0, 8)])])?;
        pair.a
            .qp
            .post_send(&[SendWr::send(&[from.sge(0, 8)]).id(wr_id).signaled()])?;
        assert_eq!(pair.a.send_cq.take_one()?.ok().wr_id, wr_id);
        assert_eq!(pair.b.recv_cq.take_one()?.ok().wr_id, wr_id);
    }
    Ok(())
}

/// What the operations of a UD pair say.
pub(crate) fn datagram(pair: &Pair) -> Outcome {
    let ah = Ah::create(&pair.bench.pd, Device::Rxe.address())?;
    let (from, to) = (pair.bench.memory(64)?, pair.bench.memory(128)?);
    let (sender, receiver) = (pair.a.qp.number(), pair.b.qp.number());
    for (imm, with_imm) in [(0, 0), (IMM, sys::IBV_WC_WITH_IMM)] {
        let send = SendWr::send(&[from.sge(0, LEN as usize)]).to(&ah, receiver, QKEY);
        let send = if with_imm == 0 { send } else { send.imm(imm) };
        pair.b.qp.post_recv(&[RecvWr::new(11, &[to.sge(0, 128)])])?;
        pair.a.qp.post_send(&[send.id(12).signaled()])?;
        let sent = Fields {
            wr_id: 12,
            opcode: sys::IBV_WC_SEND,
            byte_len: LEN,
            wc_flags: with_imm,
            imm: 0,
            qp_num: sender,
            src_qp: 0,
        };
        compare(
            Device::Rxe,
            "datagram sent",
            pair.a.send_cq.take_one()?,
            &sent,
        );
        let received = Fields {
            wr_id: 11,
            opcode: sys::IBV_WC_RECV,
            byte_len: 40 + LEN,
            wc_flags: sys::IBV_WC_GRH | with_imm,
            imm,
            qp_num: receiver,
            src_qp: sender,
        };
        compare(
            Device::Rxe,
            "datagram received",
            pair.b.recv_cq.take_one()?,
            &received,
        );
    }
    Ok(())
}

/// The receiver of a SEND_WITH_INV learns which key has gone.
pub(crate) fn with_inv(pair: &Pair) -> Outcome {
    let from = pair.bench.memory(64)?;
    let access = sys::IBV_ACCESS_LOCAL_WRITE | sys::IBV_ACCESS_MW_BIND;
    let to = Mr::register(&pair.bench.pd, 64, access | sys::IBV_ACCESS_REMOTE_WRITE)?;
    let mw = Mw::alloc(&pair.bench.pd)?;
    let rkey = mw.rkey() ^ 1;
    let bind = SendWr::bind(&mw, &to, rkey, sys::IBV_ACCESS_REMOTE_WRITE);
    pair.b.qp.post_send(&[bind.signaled()])?;
    pair.b.send_cq.take_one()?.ok();
    pair.b.qp.post_recv(&[RecvWr::new(1, &[to.sge(0, 8)])])?;
    let send = SendWr::send(&[from.sge(0, 8)])
        .invalidating(rkey)
        .signaled();
    pair.a.qp.post_send(&[send])?;
    let received = pair.b.recv_cq.take_one()?.ok();
    assert_eq!(received.invalidated_rkey(), rkey);
    assert_eq!(
        received.wc_flags,
        sys::IBV_WC_GRH | sys::IBV_WC_WITH_INV,
        "wc_flags"
    );
    pair.a.send_cq.take_one()?.ok();
    Ok(())
}
