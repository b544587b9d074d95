// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause

//! The application posts.

use std::ptr;

use rdma_core_sys::{
    IBV_QPS_RESET, IBV_SEND_SIGNALED, IBV_WC_RDMA_READ, IBV_WC_RDMA_WRITE, IBV_WC_RECV,
    IBV_WC_SEND, IBV_WR_RDMA_READ, IBV_WR_RDMA_WRITE, IBV_WR_SEND, ibv_recv_wr, ibv_send_wr,
    ibv_sge,
};

use super::FAULTY;
use super::application::Application;
use super::kernel::Uid;
use super::reference::{Line, Verdict, Wr};
use super::steps::{Flaw, Operation, Send};
use crate::driver::Driver;
use crate::{post_recv, post_send};

fn sge(uid: Uid, is_faulty: bool) -> ibv_sge {
    ibv_sge {
        addr: uid,
        // Not so little that siw's kernel would take it into the header.
        length: 64,
        lkey: if is_faulty { FAULTY } else { 1 },
    }
}

/// How many of a list were accepted: those before `bad`, if the verb has failed.
fn accepted<W>(list: &[W], answer: i32, bad: *const W) -> Result<usize, String> {
    if answer == 0 {
        return Ok(list.len());
    }
    let at = list.iter().position(|wr| ptr::eq(wr, bad));
    at.ok_or_else(|| format!("a post fails with {answer}, and bad_wr is none of its list"))
}

impl<D: Driver> Application<D> {
    pub(super) fn post_send(&mut self, at: usize, sends: &[Send]) -> Verdict {
        let uids: Vec<_> = sends.iter().map(|_| self.uid()).collect();
        let is_faulty = |send: &Send| send.flaw == Flaw::Faulty;
        let mut sges: Vec<_> = uids
            .iter()
            .zip(sends)
            .map(|(uid, send)| sge(*uid, is_faulty(send)))
            .collect();
        let mut list: Vec<_> = uids
            .iter()
            .zip(sends)
            .zip(&mut sges)
            .map(|((uid, send), sge)| send_wr(*uid, *send, sge))
            .collect();
        link(&mut list, |wr, next| wr.next = next);
        let (qp, name, room) = {
            let qp = &self.qps[at];
            (qp.qp, qp.name, qp.cap.max_send_wr)
        };
        let handle = self.qps[at].known.handle;
        let was_connected = self.kernel().qps[&handle].machine.is_connected();
        let mut bad = ptr::null_mut();
        // SAFETY: a QP of ours; the list and what it names outlive the call.
        let answer = unsafe { post_send::post_send::<D>(qp, list.as_mut_ptr(), &raw mut bad) };
        let count = accepted(&list, answer, bad)?;
        for (uid, send) in uids.iter().zip(sends).take(count) {
            self.reference.accept(Wr {
                uid: *uid,
                line: Line::Send(name),
                opcode: match send.operation {
                    Operation::Send => IBV_WC_SEND,
                    Operation::Write => IBV_WC_RDMA_WRITE,
                    Operation::Read => IBV_WC_RDMA_READ,
                },
                is_signaled: send.is_signaled || self.setup.signal_all,
            });
        }
        let refused = sends.get(count);
        let is_right = match answer {
            0 => sends.iter().all(|send| send.flaw != Flaw::Malformed),
            libc::EINVAL => {
                refused.is_some_and(|send| send.flaw == Flaw::Malformed) || !was_connected
            }
            libc::ENOMEM => self.reference.outstanding(Line::Send(name)) >= room as usize,
            _ => false,
        };
        if is_right {
            Ok(())
        } else {
            Err(format!(
                "{count} of {sends:?} posted to QP {name}: {answer}"
            ))
        }
    }

    pub(super) fn post_recv(&mut self, at: usize, count: usize) -> Verdict {
        let uids: Vec<_> = (0..count).map(|_| self.uid()).collect();
        let mut sges: Vec<_> = uids.iter().map(|uid| sge(*uid, false)).collect();
        let mut list: Vec<_> = uids
            .iter()
            .zip(&mut sges)
            .map(|(uid, sge)| ibv_recv_wr {
                wr_id: Wr::wr_id(*uid),
                next: ptr::null_mut(),
                sg_list: sge,
                num_sge: 1,
            })
            .collect();
        link(&mut list, |wr, next| wr.next = next);
        let qp = &self.qps[at];
        let mut bad = ptr::null_mut();
        let (line, room, answer) = match self.srq {
            // SAFETY: an SRQ of ours; the list and what it names outlive the call.
            Some(srq) => (Line::Shared, self.srq_depth, unsafe {
                post_recv::post_srq_recv::<D>(srq, list.as_mut_ptr(), &raw mut bad)
            }),
            // SAFETY: a QP of ours; as above.
            None => (Line::Recv(qp.name), qp.cap.max_recv_wr, unsafe {
                post_recv::post_recv::<D>(qp.qp, list.as_mut_ptr(), &raw mut bad)
            }),
        };
        let count = accepted(&list, answer, bad)?;
        for uid in uids.iter().take(count) {
            self.reference.accept(Wr {
                uid: *uid,
                line,
                opcode: IBV_WC_RECV,
                is_signaled: true,
            });
        }
        let outstanding = self.reference.outstanding(line);
        // What a QP that is gone had taken from the SRQ is not outstanding any more, though the
        // provider may not know.
        let is_full = outstanding >= room as usize || line == Line::Shared;
        let is_right = match answer {
            0 => true,
            libc::ENOMEM => is_full,
            // SAFETY: a QP of ours.
            libc::EINVAL => line != Line::Shared && unsafe { (*qp.qp).state } == IBV_QPS_RESET,
            _ => false,
        };
        if is_right {
            Ok(())
        } else {
            Err(format!("{count} receives posted to {line:?}: {answer}"))
        }
    }
}

fn send_wr(uid: Uid, send: Send, sge: &mut ibv_sge) -> ibv_send_wr {
    ibv_send_wr {
        wr_id: Wr::wr_id(uid),
        sg_list: sge,
        num_sge: 1,
        opcode: match send.operation {
            _ if send.flaw == Flaw::Malformed => u32::MAX,
            Operation::Send => IBV_WR_SEND,
            Operation::Write => IBV_WR_RDMA_WRITE,
            Operation::Read => IBV_WR_RDMA_READ,
        },
        send_flags: if send.is_signaled {
            IBV_SEND_SIGNALED
        } else {
            0
        },
        ..Default::default()
    }
}

/// Links each of a list to the one behind it.
fn link<W>(list: &mut [W], set_next: impl Fn(&mut W, *mut W)) {
    let mut next = ptr::null_mut();
    for wr in list.iter_mut().rev() {
        set_next(wr, next);
        next = wr;
    }
}
