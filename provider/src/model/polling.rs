// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause

//! The application polls, and sleeps.

use std::ptr;

use rdma_core_sys::{ibv_cq_ex, ibv_wc};

use super::application::{Application, expect};
use super::reference::{Polled, Verdict};
use crate::driver::Driver;
use crate::lock::lock;
use crate::{cq, poll_cq, start_poll};

/// Fills `wc` by one batch, as far as there are completions; how many.
///
/// # Safety
///
/// An extended CQ.
unsafe fn poll_batch<D: Driver>(cq: *mut ibv_cq_ex, wc: &mut [ibv_wc]) -> Result<usize, String> {
    let mut got = 0;
    // SAFETY: the caller's CQ, in a batch from the first answer of 0 on. It has the readers that are called.
    unsafe {
        while got < wc.len() {
            let answer = match got {
                0 => start_poll::start_poll::<D>(cq, ptr::null_mut()),
                _ => start_poll::next_poll::<D, false>(cq),
            };
            match answer {
                0 => {}
                libc::ENOENT => break,
                errno => return Err(format!("a batch says {errno}")),
            }
            wc[got] = ibv_wc {
                wr_id: (*cq).wr_id,
                status: (*cq).status,
                opcode: (*cq).read_opcode.unwrap()(cq),
                qp_num: (*cq).read_qp_num.unwrap()(cq),
                ..Default::default()
            };
            got += 1;
        }
        if got > 0 {
            start_poll::end_poll::<D>(cq);
        }
    }
    Ok(got)
}

impl<D: Driver> Application<D> {
    /// Polls for up to `room` completions, every second time in a batch; how many there were.
    pub(super) fn poll(&mut self, at: usize, room: usize) -> Result<usize, String> {
        // One more than the provider is told of.
        let mut wc = vec![ibv_wc::default(); room + 1];
        let canary = 0xdead_beef;
        wc[room].wr_id = canary;
        let cq = self.cqs[at].cq;
        self.polls += 1;
        let got = if self.polls.is_multiple_of(2) {
            // SAFETY: an extended CQ of ours.
            unsafe { poll_batch::<D>(cq.cast(), &mut wc[..room]) }?
        } else {
            let room = room.try_into().unwrap();
            // SAFETY: a CQ of ours, and room for as many as it says.
            let got = unsafe { poll_cq::poll_cq::<D>(cq, room, wc.as_mut_ptr()) };
            usize::try_from(got).map_err(|_| format!("poll says {got}"))?
        };
        expect(got <= room && wc[room].wr_id == canary, || {
            format!("asked for {room}, got {got}")
        })?;
        for wc in wc.drain(..got) {
            let polled = Polled::of(&wc, at);
            let mut kernel = lock(&self.device);
            kernel.core.note(format!("{polled:x?}"));
            let overran = kernel.was_crowded(self.cqs[at].handle);
            self.reference.deliver(
                polled,
                overran,
                |known| kernel.is_dead(known.handle),
                |uid| kernel.fate(uid),
            )?;
        }
        self.no_faults()?;
        Ok(got)
    }

    /// Polls until nothing comes; whether anything did.
    pub(super) fn drain(&mut self, at: usize) -> Result<bool, String> {
        let mut any = false;
        while self.poll(at, 3)? > 0 {
            any = true;
        }
        Ok(any)
    }

    pub(super) fn sleep(&mut self, at: usize) -> Verdict {
        if self.cqs[at].is_asleep {
            return Ok(());
        }
        let solicited = self.kernel().core.whims.below(2) == 1;
        // SAFETY: a CQ of ours.
        let armed = unsafe { cq::req_notify::<D>(self.cqs[at].cq, solicited.into()) };
        expect(armed == 0, || format!("no way to arm: {armed}"))?;
        self.drain(at)?;
        self.cqs[at].is_asleep = true;
        Ok(())
    }

    /// Whether there is an event that the waiter has not taken.
    pub(super) fn is_called(&self, at: usize) -> bool {
        let cq = &self.cqs[at];
        self.kernel().core.cqs[&cq.handle].events != cq.seen
    }

    /// Whether there was a sleeper with an event.
    pub(super) fn wake(&mut self, at: usize) -> Result<bool, String> {
        if !self.cqs[at].is_asleep || !self.is_called(at) {
            return Ok(false);
        }
        let events = self.kernel().core.cqs[&self.cqs[at].handle].events;
        self.cqs[at].seen = events;
        self.cqs[at].is_asleep = false;
        self.sleep(at)?;
        Ok(true)
    }
}
