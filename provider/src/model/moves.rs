// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause

//! The application moves a QP from state to state, asks for the state, and destroys the QP.

use std::sync::Arc;
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::thread;
use std::time::Duration;

use rdma_core_sys::{
    IBV_QP_STATE, IBV_QPS_ERR, IBV_QPS_INIT, IBV_QPS_RESET, IBV_QPS_RTR, IBV_QPS_RTS, IBV_QPS_SQD,
    ibv_qp_attr, ibv_qp_init_attr, ibv_qp_state,
};

use super::application::{Application, expect};
use super::kernel::Act;
use super::reference::Verdict;
use crate::driver::Driver;
use crate::lock::lock;
use crate::{qp, qp_state};

/// How long the kernel takes to flush.
const MEANWHILE: Duration = Duration::from_micros(50);

impl<D: Driver> Application<D> {
    /// Most QPs are connected from the start, on iWARP; all, where the application does that.
    pub(super) fn connect(&mut self, at: usize) -> Verdict {
        let states = [IBV_QPS_INIT, IBV_QPS_RTR, IBV_QPS_RTS];
        for to in states
            .into_iter()
            .take(if D::CONNECTS_UNSEEN { 1 } else { 3 })
        {
            let answer = self.modify(at, to);
            expect(answer == 0, || format!("no way to state {to}: {answer}"))?;
        }
        if D::CONNECTS_UNSEEN {
            let mut kernel = self.kernel();
            if kernel.core.whims.below(4) < 3 {
                kernel.act(self.qps[at].known.handle, Act::Connect);
            }
        }
        Ok(())
    }

    fn modify(&self, at: usize, to: ibv_qp_state) -> i32 {
        let mut attr = ibv_qp_attr {
            qp_state: to,
            ..Default::default()
        };
        // SAFETY: a QP of ours, and the attribute that the mask tells of.
        unsafe { qp_state::modify::<D>(self.qps[at].qp, &raw mut attr, IBV_QP_STATE.cast_signed()) }
    }

    pub(super) fn kill(&mut self, at: usize, closes: bool) -> Verdict {
        let to = if closes && D::CLOSES_BY.is_some() {
            IBV_QPS_SQD
        } else {
            IBV_QPS_ERR
        };
        self.kernel().core.may_kill = true;
        let answer = self.modify(at, to);
        self.kernel().core.may_kill = false;
        expect(answer == 0, || format!("a QP cannot be killed: {answer}"))
    }

    pub(super) fn reset(&mut self, at: usize) -> Verdict {
        let handle = self.qps[at].known.handle;
        self.kernel().core.may_kill = true;
        // The provider waits until the kernel has flushed, which it does meanwhile.
        let device = Arc::clone(&self.device);
        let (waits, is_over) = channel::<()>();
        let flusher = thread::spawn(move || {
            while is_over.recv_timeout(MEANWHILE) == Err(RecvTimeoutError::Timeout) {
                lock(&device).drain(handle);
            }
        });
        let answer = self.modify(at, IBV_QPS_RESET);
        drop(waits);
        flusher
            .join()
            .map_err(|_| "the kernel panics".to_string())?;
        expect(answer == 0, || format!("no way to RESET: {answer}"))?;
        {
            let kernel = lock(&self.device);
            self.reference.forget(
                self.qps[at].name,
                false,
                |known| kernel.is_dead(known.handle),
                |uid| kernel.fate(uid),
            );
        }
        self.kernel().core.may_kill = false;
        let qp = &mut self.qps[at];
        qp.told_last_wqe = false;
        qp.told_catastrophe = false;
        qp.was_reset = !D::RESETS;
        if D::RESETS { self.connect(at) } else { Ok(()) }
    }

    pub(super) fn query(&mut self, at: usize) -> Verdict {
        let mut attr = ibv_qp_attr::default();
        let mut init = ibv_qp_init_attr::default();
        let mask = IBV_QP_STATE.cast_signed();
        let qp = &self.qps[at];
        // SAFETY: a QP of ours, and room for the answer.
        let answer = unsafe { qp_state::query::<D>(qp.qp, &raw mut attr, mask, &raw mut init) };
        expect(answer == 0, || format!("no answer to a query: {answer}"))?;
        let kernel = self.kernel();
        let is_dead = kernel.qps[&qp.known.handle].machine.state() == IBV_QPS_ERR;
        // siw's kernel of linux 6.1 does not say, and leaves the mark where the CQ is full.
        let overran = kernel.has_overrun(self.cqs[qp.known.send_cq].handle);
        let state = attr.qp_state;
        expect(!is_dead || state == IBV_QPS_ERR || overran, || {
            format!("QP {} is dead, and said to be in state {state}", qp.name)
        })
    }

    pub(super) fn destroy_qp(&mut self, at: usize) -> Verdict {
        let qp = self.qps.swap_remove(at);
        self.kernel().core.may_kill = true;
        // SAFETY: a QP of ours, not used again.
        let answer = unsafe { qp::destroy::<D>(qp.qp) };
        self.kernel().core.may_kill = false;
        expect(answer == 0, || {
            format!("a QP cannot be destroyed: {answer}")
        })?;
        let kernel = lock(&self.device);
        self.reference.forget(
            qp.name,
            true,
            |known| kernel.is_dead(known.handle),
            |uid| kernel.fate(uid),
        );
        Ok(())
    }
}
