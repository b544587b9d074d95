// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause

//! The end: the kernel does all that it has to do, and whoever waits for something gets it.

use std::thread::sleep;
use std::time::Duration;

use super::application::Application;
use super::kernel::Kind;
use super::reference::{Known, Line, Verdict, Wr};
use crate::driver::Driver;

/// Polls that find nothing before an application that only polls may expect the provider to look for
/// death, and the time that has to pass as well.
const IDLE_POLLS: usize = 256;
const PAUSE: Duration = Duration::from_millis(11);

impl<D: Driver> Application<D> {
    pub(super) fn finish(&mut self) -> Verdict {
        self.settle()?;
        self.no_sleeper_waits_in_vain()?;
        self.dead_complete_for_pollers()?;
        for at in 0..self.qps.len() {
            self.kill(at, false)?;
        }
        self.killed_all = true;
        self.settle()?;
        self.no_sleeper_waits_in_vain()?;
        self.dead_complete_for_pollers()?;
        self.settle()?;
        self.last_wqes_are_told()?;
        while !self.qps.is_empty() {
            self.destroy_qp(0)?;
        }
        for at in 0..self.cqs.len() {
            if self.drain(at)? {
                return Err("a destroyed QP completes".into());
            }
        }
        self.reference.settle(|uid| self.kernel().fate(uid))?;
        self.close()
    }

    /// Lets the kernel, the pollers, the sleepers with an event and the reaper go on until none of them
    /// can.
    fn settle(&mut self) -> Verdict {
        loop {
            let mut busy = self.kernel().run();
            while self.setup.reaps && self.reap()? {
                busy = true;
            }
            for at in 0..self.cqs.len() {
                busy |= self.wake(at)? || (!self.cqs[at].is_asleep && self.drain(at)?);
            }
            // What one poll has found may have woken another CQ's waiter.
            busy |= (0..self.cqs.len()).any(|at| self.cqs[at].is_asleep && self.is_called(at));
            if !busy && !self.kernel().run() {
                return Ok(());
            }
        }
    }

    /// What dead QPs owe on the CQs for which `counts` holds.
    fn owed(&self, counts: impl Fn(usize) -> bool) -> Vec<(Wr, Option<Known>)> {
        let kernel = self.kernel();
        let fate = |uid| kernel.fate(uid);
        let is_dead = |known: &Known| kernel.is_dead(known.handle);
        // What linux 6.12 forgets with a QP is known to be forgotten when its event is reaped, and while
        // another QP lives it may be that one's.
        let may_be_lost = self.setup.kind == Kind::Rxe612 && !(self.setup.reaps && self.killed_all);
        let is_lost =
            |wr: &Wr| may_be_lost && wr.line == Line::Shared && fate(wr.uid).status.is_none();
        let mut owed = self.reference.due(is_dead, fate);
        owed.retain(|(wr, known)| known.is_some_and(|known| counts(wr.cq(&known))) && !is_lost(wr));
        owed
    }

    fn no_sleeper_waits_in_vain(&mut self) -> Verdict {
        let asleep = (0..self.cqs.len()).filter(|at| self.cqs[*at].is_asleep);
        let asleep: Vec<_> = asleep.collect();
        for at in asleep.iter().copied() {
            if let Some(owed) = self.owed(|cq| cq == at).first() {
                return Err(format!(
                    "the waiter of CQ {at} sleeps, and is owed {owed:?}"
                ));
            }
        }
        // A poll may find that its CQ was full: then QPs die, and the kernel has yet to flush what they owe others.
        for at in asleep {
            if self.poll(at, 1)? > 0 {
                return Err(format!("the waiter of CQ {at} sleeps beside a completion"));
            }
        }
        Ok(())
    }

    fn dead_complete_for_pollers(&mut self) -> Verdict {
        for round in 0..3 {
            for at in 0..self.cqs.len() {
                for _ in 0..IDLE_POLLS {
                    self.drain(at)?;
                    self.kernel().run();
                }
            }
            let owed = self.owed(|_| true);
            let Some(first) = owed.first() else {
                return Ok(());
            };
            if round == 2 {
                return Err(format!("never polled: {first:?}"));
            }
            sleep(PAUSE);
        }
        Ok(())
    }

    fn last_wqes_are_told(&self) -> Verdict {
        if !self.setup.reaps || self.srq.is_none() {
            return Ok(());
        }
        for qp in &self.qps {
            if !qp.was_reset && !qp.told_last_wqe && !qp.told_catastrophe {
                return Err(format!("QP {} never reaches its last WQE", qp.name));
            }
        }
        Ok(())
    }
}
