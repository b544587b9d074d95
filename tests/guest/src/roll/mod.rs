// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause

//! A roll of work requests: which were accepted, and which have answered.
//!
//! Each request gets a `wr_id` that names its queue and its place there. So every completion can be
//! told apart: the one that is due, one that has come before, and one that nobody has asked for.

mod faults;
mod line;

use std::env;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use crate::suite::{Outcome, Stop};
use crate::verbs::{Cq, Qp, RecvWr, SendWr, Sge, Wc, sys};

use line::{Answer, Due, Line};

pub use faults::Faults;

/// How long something that is due may take: more than a kernel's or a library's flush ever does, so
/// that what is missing then is lost.
///
/// Stock providers get less time, and least in a case that they are [known to fail](expect_loss): they
/// lose something in hundreds of cases, and all of these wait in vain.
#[must_use]
pub fn patience() -> Duration {
    match env::var("PROVIDER").as_deref() {
        Ok("stock") if LOSS_EXPECTED.load(Relaxed) => Duration::from_millis(250),
        Ok("stock") => Duration::from_millis(600),
        _ => Duration::from_secs(3),
    }
}

/// Whether the case that this process runs is one that stock providers fail. Set before there are threads.
static LOSS_EXPECTED: AtomicBool = AtomicBool::new(false);

/// Says that this process runs a case that stock providers fail.
pub(crate) fn expect_loss() {
    LOSS_EXPECTED.store(true, Relaxed);
}

/// How long to look for completions that must not come.
const SILENCE: Duration = Duration::from_millis(30);

/// Work requests of any number of queues, and what became of them; for any number of threads.
#[derive(Debug, Default)]
pub struct Roll {
    pages: Mutex<Pages>,
}

/// A work queue on a [`Roll`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LineId(u32);

#[derive(Debug, Default)]
struct Pages {
    lines: Vec<Line>,
    faults: Faults,
    strict: bool,
}

impl Roll {
    /// A roll without queues.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// From now on, an opcode that does not tell what was posted is a fault, also in a completion
    /// in error, for which ibv_poll_cq(3) does not promise it.
    pub fn insist_on_opcodes(&self) {
        self.pages().strict = true;
    }

    fn pages(&self) -> MutexGuard<'_, Pages> {
        self.pages.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Opens the line of the send queue of `qp`.
    pub fn sends_of(&self, qp: &Qp) -> LineId {
        self.open(format!("send on QP {}", qp.number()), Some(qp.number()))
    }

    /// Opens the line of the receive queue of `qp`.
    pub fn recvs_of(&self, qp: &Qp) -> LineId {
        self.open(format!("receive on QP {}", qp.number()), Some(qp.number()))
    }

    /// Opens the line of an SRQ. Its receives complete in any order, and only if a QP takes them:
    /// how many must have done so is for the case to say.
    pub fn shared_recvs(&self) -> LineId {
        self.open("receive on the SRQ".to_owned(), None)
    }

    fn open(&self, name: String, qp_num: Option<u32>) -> LineId {
        let lines = &mut self.pages().lines;
        lines.push(Line::new(name, qp_num));
        LineId(u32::try_from(lines.len()).unwrap_or(u32::MAX))
    }

    /// Enters a send, which is about to be posted, and gives it its `wr_id`.
    #[must_use]
    pub fn send<'m>(&self, line: LineId, wr: SendWr<'m>) -> SendWr<'m> {
        let due = if wr.is_signaled() {
            Due::Always
        } else {
            Due::IfItFails
        };
        let id = self.enter(line, completion_opcode(&wr), due);
        wr.id(id)
    }

    /// Enters `count` sends, each a copy of `wr`.
    #[must_use]
    pub fn sends<'m>(&self, line: LineId, count: usize, wr: &SendWr<'m>) -> Vec<SendWr<'m>> {
        (0..count).map(|_| self.send(line, wr.clone())).collect()
    }

    /// Enters `count` sends, every second of them signaled.
    #[must_use]
    pub fn alternating<'m>(&self, line: LineId, count: usize, wr: &SendWr<'m>) -> Vec<SendWr<'m>> {
        let signaled = wr.clone().signaled();
        (0..count)
            .map(|at| self.send(line, if at % 2 == 0 { &signaled } else { wr }.clone()))
            .collect()
    }

    /// Enters `count` receives into the same place.
    #[must_use]
    pub fn recvs<'m>(&self, line: LineId, count: usize, sge: Sge<'m>) -> Vec<RecvWr<'m>> {
        let due = self.pages().line(line).recv_due();
        (0..count)
            .map(|_| RecvWr::new(self.enter(line, sys::IBV_WC_RECV, due), &[sge]))
            .collect()
    }

    fn enter(&self, line: LineId, opcode: sys::ibv_wc_opcode, due: Due) -> u64 {
        wr_id(line, self.pages().line(line).enter(opcode, due))
    }

    /// Strikes out the last `count` requests that were entered: the verb has refused them.
    pub fn refuse(&self, line: LineId, count: usize) {
        self.pages().line(line).refuse(count);
    }

    /// Says that no request of the queue can have succeeded, so that unsignaled ones are due too.
    pub fn demand_all(&self, line: LineId) {
        self.pages().line(line).demand_all();
    }

    /// Lets the queue's completions come in any order: several threads poll for them.
    pub fn ignore_order(&self, line: LineId) {
        self.pages().line(line).ignore_order();
    }

    /// Says that the queue is gone, though completions may still be on their way to whoever polls.
    pub fn excuse(&self, line: LineId) {
        self.pages().line(line).excuse();
    }

    /// Says that the queue is gone, or empty again: none of the requests that are on it now may
    /// complete any more.
    pub fn withdraw(&self, line: LineId) {
        self.pages().line(line).withdraw();
    }

    /// Takes a completion, and marks what is wrong with it.
    pub fn answer(&self, wc: &Wc) {
        self.pages().answer(wc);
    }

    /// Number of completions that must still come.
    #[must_use]
    pub fn outstanding(&self) -> usize {
        self.pages().outstanding()
    }

    /// Polls `cq` once and returns how many completions came.
    ///
    /// # Errors
    ///
    /// A failure of the verb.
    pub fn poll(&self, cq: &Cq) -> Result<usize, Stop> {
        let mut room = [Wc::untouched(); 32];
        let count = cq.poll(&mut room)?;
        let mut pages = self.pages();
        for wc in &room[..count] {
            pages.answer(wc);
        }
        Ok(count)
    }

    /// Polls `cqs` until nothing is outstanding, for at most `patience`. What is outstanding then
    /// is [`Self::check`]'s to report.
    ///
    /// # Errors
    ///
    /// A failure of the verb.
    pub fn collect(&self, cqs: &[&Cq], patience: Duration) -> Outcome {
        let start = Instant::now();
        loop {
            let mut came = 0;
            for cq in cqs {
                came += self.poll(cq)?;
            }
            if came == 0 && (self.outstanding() == 0 || start.elapsed() > patience) {
                return Ok(());
            }
            thread::yield_now();
        }
    }

    /// Collects what is due, and checks that it came once, in order, and that nothing else did.
    ///
    /// # Errors
    ///
    /// A failure of the verb, or what [`Self::check`] finds.
    pub fn settle(&self, cqs: &[&Cq]) -> Outcome {
        self.collect(cqs, patience())?;
        self.listen(cqs)?;
        self.check()
    }

    /// Polls `cqs` for a while for completions that should not come.
    ///
    /// # Errors
    ///
    /// A failure of the verb.
    pub fn listen(&self, cqs: &[&Cq]) -> Outcome {
        let start = Instant::now();
        while start.elapsed() < SILENCE {
            for cq in cqs {
                self.poll(cq)?;
            }
            thread::yield_now();
        }
        Ok(())
    }

    /// Checks that every completion that is due has come, and that nothing was wrong with any.
    ///
    /// # Errors
    ///
    /// What was lost, doubled, out of order or wrong, in one sentence.
    pub fn check(&self) -> Outcome {
        let faults = self.faults();
        if faults.is_empty() {
            return Ok(());
        }
        let requests = self.len();
        Err(Stop::Fail(format!("of {requests} requests {faults}")))
    }

    /// Number of requests of the queue that have completed.
    #[must_use]
    pub fn answered(&self, line: LineId) -> usize {
        self.pages().line(line).answered()
    }

    /// Number of requests that were entered.
    #[must_use]
    pub fn len(&self) -> usize {
        self.pages().lines.iter().map(Line::len).sum()
    }

    /// Whether none was.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Everything that is wrong so far; what is still outstanding counts as lost.
    #[must_use]
    pub fn faults(&self) -> Faults {
        let pages = self.pages();
        let mut faults = pages.faults.clone();
        for line in &pages.lines {
            for at in line.missing() {
                faults.lost(format!("{} {at}", line.name));
            }
        }
        faults
    }

    /// How the requests of a queue have ended, as far as they have.
    #[must_use]
    pub fn statuses(&self, line: LineId) -> Vec<Option<sys::ibv_wc_status>> {
        self.pages().line(line).statuses()
    }

    /// Checks that every request of the queue from place `from` on was flushed.
    ///
    /// # Panics
    ///
    /// If one was not.
    #[track_caller]
    pub fn assert_flushed_from(&self, line: LineId, from: usize) {
        for (at, status) in self.statuses(line).into_iter().enumerate().skip(from) {
            assert_eq!(status, Some(sys::IBV_WC_WR_FLUSH_ERR), "request {at}");
        }
    }

    /// Checks that every request of the queue was flushed.
    ///
    /// # Panics
    ///
    /// If one was not.
    #[track_caller]
    pub fn assert_flushed(&self, line: LineId) {
        self.assert_flushed_from(line, 0);
    }
}

impl Pages {
    fn line(&mut self, line: LineId) -> &mut Line {
        &mut self.lines[line.0 as usize - 1]
    }

    fn outstanding(&self) -> usize {
        // Looking through all requests takes longer than polling, so not when all have answered.
        if self.lines.iter().all(Line::is_complete) {
            return 0;
        }
        self.lines.iter().map(|line| line.missing().count()).sum()
    }

    fn answer(&mut self, wc: &Wc) {
        let named = usize::try_from(wc.wr_id >> 32)
            .ok()
            .and_then(|number| number.checked_sub(1))
            .and_then(|number| self.lines.get_mut(number));
        let said = wc.summary();
        let Some(line) = named else {
            self.faults.ghost(format!("wr_id {:#x}: {said}", wc.wr_id));
            return;
        };
        let at = usize::try_from(wc.wr_id & u64::from(u32::MAX)).unwrap_or(usize::MAX);
        let answer = line.answer(at, wc, &mut self.faults);
        let said = || format!("{} {at}: {said}", line.name);
        match answer {
            Answer::Due if self.strict && !line.has_opcode(at, wc.opcode) => {
                self.faults.wrong(said());
            }
            Answer::Due => {}
            Answer::Ghost => self.faults.ghost(said()),
            Answer::Doubled => self.faults.doubled(said()),
        }
    }
}

/// The identifier of the request at place `at` of a queue.
#[must_use]
pub fn wr_id(line: LineId, at: usize) -> u64 {
    u64::from(line.0) << 32 | at as u64
}

/// What a successful completion of `wr` says.
fn completion_opcode(wr: &SendWr<'_>) -> sys::ibv_wc_opcode {
    match wr.opcode() {
        sys::IBV_WR_RDMA_WRITE | sys::IBV_WR_RDMA_WRITE_WITH_IMM => sys::IBV_WC_RDMA_WRITE,
        sys::IBV_WR_RDMA_READ => sys::IBV_WC_RDMA_READ,
        _ => sys::IBV_WC_SEND,
    }
}

#[cfg(test)]
mod tests;
