// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause

//! The requests of one queue, and what became of each.

use crate::verbs::{Wc, sys};

use super::Faults;

/// The requests of one queue, in the order in which they were posted.
#[derive(Debug)]
pub(super) struct Line {
    /// What messages call the queue.
    pub(super) name: String,
    /// The QP that its completions name; an SRQ's may name any, and come in any order.
    qp_num: Option<u32>,
    /// Whether completions come in the order of the requests.
    ordered: bool,
    entries: Vec<Entry>,
    /// Place of the last that has answered.
    last: Option<usize>,
    /// Place of the first that has failed.
    failed: Option<usize>,
    /// Number of those that have answered.
    answered: usize,
    /// Number of those that the verb has refused.
    refused: usize,
}

#[derive(Debug, Clone, Copy)]
struct Entry {
    opcode: sys::ibv_wc_opcode,
    due: Due,
    status: Option<sys::ibv_wc_status>,
}

/// When a completion is due.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Due {
    /// In any case.
    Always,
    /// If the request fails: it is unsignaled.
    IfItFails,
    /// If a QP has taken it: it is an SRQ's.
    IfItIsTaken,
    /// In no case: the request was refused.
    Never,
}

/// What a completion turned out to be.
pub(super) enum Answer {
    /// The one that was due.
    Due,
    /// One that must not come.
    Ghost,
    /// The second of a request.
    Doubled,
}

impl Line {
    pub(super) fn new(name: String, qp_num: Option<u32>) -> Self {
        Self {
            name,
            qp_num,
            ordered: qp_num.is_some(),
            entries: Vec::new(),
            last: None,
            failed: None,
            answered: 0,
            refused: 0,
        }
    }

    /// Number of requests that were entered.
    pub(super) fn len(&self) -> usize {
        self.entries.len()
    }

    /// Number of requests that have answered.
    pub(super) fn answered(&self) -> usize {
        self.answered
    }

    /// Whether every request has answered or was refused.
    pub(super) fn is_complete(&self) -> bool {
        self.answered + self.refused == self.entries.len()
    }

    /// How each request has ended, if it has.
    pub(super) fn statuses(&self) -> Vec<Option<sys::ibv_wc_status>> {
        self.entries.iter().map(|entry| entry.status).collect()
    }

    /// Enters a request and returns its place.
    pub(super) fn enter(&mut self, opcode: sys::ibv_wc_opcode, due: Due) -> usize {
        self.entries.push(Entry {
            opcode,
            due,
            status: None,
        });
        self.entries.len() - 1
    }

    /// Makes the last `count` requests refused ones.
    pub(super) fn refuse(&mut self, count: usize) {
        let from = self.entries.len() - count;
        for entry in &mut self.entries[from..] {
            entry.due = Due::Never;
        }
        self.refused += count;
    }

    /// Makes those that have not answered refused ones. What is entered from now on may succeed.
    pub(super) fn withdraw(&mut self) {
        self.failed = None;
        for entry in &mut self.entries {
            if entry.status.is_none() && entry.due != Due::Never {
                entry.due = Due::Never;
                self.refused += 1;
            }
        }
    }

    /// Makes those that have not answered due in no case, though they may still answer.
    pub(super) fn excuse(&mut self) {
        for entry in &mut self.entries {
            if entry.status.is_none() && entry.due != Due::Never {
                entry.due = Due::IfItIsTaken;
            }
        }
    }

    /// Makes unsignaled requests due in any case.
    pub(super) fn demand_all(&mut self) {
        for entry in &mut self.entries {
            if entry.due == Due::IfItFails {
                entry.due = Due::Always;
            }
        }
    }

    /// Takes a completion of the request at place `at`.
    pub(super) fn answer(&mut self, at: usize, wc: &Wc, faults: &mut Faults) -> Answer {
        let Some(entry) = self.entries.get_mut(at) else {
            return Answer::Ghost;
        };
        if entry.due == Due::Never || entry.due == Due::IfItFails && wc.is_success() {
            return Answer::Ghost;
        }
        if entry.status.is_some() {
            return Answer::Doubled;
        }
        entry.status = Some(wc.status);
        self.answered += 1;
        if self.qp_num.is_some_and(|number| number != wc.qp_num)
            || !wc.is_success() && wc.vendor_err != 0
        {
            faults.wrong(format!("{} {at}: {}", self.name, wc.summary()));
        }
        if let Some(last) = self.last.filter(|&last| self.ordered && last > at) {
            faults.misordered(format!("{} {at} after {last}", self.name));
        }
        self.last = self.last.max(Some(at));
        if wc.is_success() {
            self.accept_success(at, faults);
        } else {
            self.failed = Some(self.failed.map_or(at, |first| first.min(at)));
        }
        Answer::Due
    }

    /// Whether `opcode` tells of the request at place `at` what it is; a receive's may tell more.
    pub(super) fn has_opcode(&self, at: usize, opcode: sys::ibv_wc_opcode) -> bool {
        let expected = self.entries[at].opcode;
        opcode == expected || expected == sys::IBV_WC_RECV && opcode & sys::IBV_WC_RECV != 0
    }

    /// When a receive of the queue is due.
    pub(super) fn recv_due(&self) -> Due {
        if self.qp_num.is_some() {
            Due::Always
        } else {
            Due::IfItIsTaken
        }
    }

    /// Lets completions come in any order.
    pub(super) fn ignore_order(&mut self) {
        self.ordered = false;
    }

    /// No request succeeds behind one that has failed. Behind a READ one may on iWARP, where a
    /// send is complete with its last byte on the wire, and the READ before it with its answer.
    fn accept_success(&self, at: usize, faults: &mut Faults) {
        let Some(failed) = self.failed else { return };
        let behind_read = self.entries[failed].opcode == sys::IBV_WC_RDMA_READ;
        if self.ordered && failed < at && !behind_read {
            let name = &self.name;
            faults.wrong(format!("{name} {at} succeeded after {failed} failed"));
        }
    }

    /// Places of the requests whose completions must still come.
    pub(super) fn missing(&self) -> impl Iterator<Item = usize> {
        let failed = self.failed;
        let is_due = move |at: usize, due: Due| match due {
            Due::Always => true,
            Due::IfItFails => failed.is_some_and(|first| first < at),
            Due::IfItIsTaken | Due::Never => false,
        };
        self.entries
            .iter()
            .enumerate()
            .filter(move |(at, entry)| entry.status.is_none() && is_due(*at, entry.due))
            .map(|(at, _)| at)
    }
}
