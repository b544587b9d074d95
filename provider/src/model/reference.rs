// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause

//! The promise: every accepted work request completes once, in order, as what it was.

use std::collections::{BTreeMap, VecDeque};

use rdma_core_sys::{IBV_WC_SUCCESS, IBV_WC_WR_FLUSH_ERR, ibv_wc, ibv_wc_opcode, ibv_wc_status};

use super::kernel::{Fate, Uid};

/// A queue of the application's, named by what it calls the QP.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Line {
    Send(usize),
    Recv(usize),
    Shared,
}

/// An accepted work request.
#[derive(Debug, Clone, Copy)]
pub(super) struct Wr {
    pub(super) uid: Uid,
    pub(super) line: Line,
    pub(super) opcode: ibv_wc_opcode,
    /// Also its success is told.
    pub(super) is_signaled: bool,
}

impl Wr {
    /// What the application calls it.
    pub(super) fn wr_id(uid: Uid) -> u64 {
        !uid
    }

    /// The CQ that it completes to, as one of this QP.
    pub(super) fn cq(&self, known: &Known) -> usize {
        match self.line {
            Line::Send(_) => known.send_cq,
            Line::Recv(_) | Line::Shared => known.recv_cq,
        }
    }
}

/// A completion as it was polled.
#[derive(Debug, Clone, Copy)]
pub(super) struct Polled {
    uid: Uid,
    status: ibv_wc_status,
    opcode: ibv_wc_opcode,
    qp_num: u32,
    cq: usize,
}

impl Polled {
    pub(super) fn of(wc: &ibv_wc, cq: usize) -> Self {
        Self {
            uid: !wc.wr_id,
            status: wc.status,
            opcode: wc.opcode,
            qp_num: wc.qp_num,
            cq,
        }
    }
}

/// A QP as the application knows it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Known {
    pub(super) number: u32,
    pub(super) handle: u32,
    pub(super) send_cq: usize,
    pub(super) recv_cq: usize,
    /// It has lived before. An event of that life may be taken for one of this (linux 6.12).
    pub(super) is_revived: bool,
}

pub(super) type Verdict = Result<(), String>;

/// What is outstanding.
#[derive(Debug, Default)]
pub(super) struct Reference {
    lines: BTreeMap<Line, VecDeque<Wr>>,
    qps: BTreeMap<usize, Known>,
    /// Receives of the SRQ that a QP had taken which is gone or was reset, or may have been flushed as
    /// such a one's. linux 6.12 forgets them, or uses them for the next message; the provider may flush
    /// them when it finds out.
    kept: Vec<Wr>,
    /// How many of those have completed: as many others may not, as nobody can tell them apart.
    kept_completed: usize,
    /// Those that were flushed although the kernel had said nothing of them.
    flushed_unsaid: Vec<Uid>,
}

impl Reference {
    pub(super) fn enter(&mut self, qp: usize, known: Known) {
        self.qps.insert(qp, known);
    }

    pub(super) fn accept(&mut self, wr: Wr) {
        self.lines.entry(wr.line).or_default().push_back(wr);
    }

    /// The QP starts anew, or is gone: what was outstanding there completes no more.
    pub(super) fn forget(
        &mut self,
        qp: usize,
        is_gone: bool,
        is_dead: impl Fn(&Known) -> bool,
        fate: impl Fn(Uid) -> Fate,
    ) {
        self.lines.remove(&Line::Send(qp));
        self.lines.remove(&Line::Recv(qp));
        let Some(known) = self.qps.get(&qp).copied() else {
            return;
        };
        if let Some(shared) = self.lines.get_mut(&Line::Shared) {
            let holders = self.qps.values();
            // It may have been flushed as this QP's, if the kernel has forgotten whose it is.
            let is_a_dead_ones = |fate: Fate| {
                let mut holders = holders.clone();
                let holder = holders.find(|known| Some(known.handle) == fate.holder);
                holder.is_some_and(&is_dead)
            };
            shared.retain(|wr| {
                let fate = fate(wr.uid);
                let is_its = fate.holder == Some(known.handle);
                if fate.is_unsaid() && (is_its || is_a_dead_ones(fate)) {
                    self.kept.push(*wr);
                    return false;
                }
                !is_its
            });
        }
        // One that was flushed may be used for the next message all the same: its success is nobody's.
        self.flushed_unsaid
            .retain(|uid| fate(*uid).holder != Some(known.handle));
        if is_gone {
            self.qps.remove(&qp);
        } else if let Some(known) = self.qps.get_mut(&qp) {
            known.is_revived = true;
        }
    }

    pub(super) fn outstanding(&self, line: Line) -> usize {
        self.lines.get(&line).map_or(0, VecDeque::len)
    }

    /// A completion was polled. `overran`: the provider may take the CQ for overrun.
    pub(super) fn deliver(
        &mut self,
        polled: Polled,
        overran: bool,
        is_dead: impl Fn(&Known) -> bool,
        fate: impl Fn(Uid) -> Fate,
    ) -> Verdict {
        let uid = polled.uid;
        let is_it = |wr: &Wr| wr.uid == uid;
        let kept = self.kept.iter().position(is_it);
        if let Some(kept) = kept {
            self.kept.swap_remove(kept);
            self.kept_completed += 1;
            return Ok(());
        }
        let found = self
            .lines
            .values_mut()
            .find_map(|line| line.iter().position(is_it).map(|at| (line, at)));
        let Some((line, at)) = found else {
            return Err(format!(
                "{uid:#x} completes twice, or never was: {polled:?}"
            ));
        };
        let wr = line.remove(at).unwrap();
        let own = fate(uid);
        let known = match wr.line {
            Line::Send(qp) | Line::Recv(qp) => self.qps.get(&qp),
            Line::Shared => {
                // The kernel has forgotten it with its QP, or dropped CQEs: nothing tells which of those
                // that are dead.
                let forgotten = own.is_unsaid() || overran;
                let holder = |known: &&Known| Some(known.handle) == own.holder;
                let may_be = |known: &&Known| known.number == polled.qp_num && is_dead(known);
                let mut holders = self.qps.values();
                let found = holders.clone().find(holder);
                found
                    .filter(|found| (forgotten || found.is_revived) && is_dead(found))
                    .and_then(|_| holders.find(may_be))
                    .or(found)
            }
        };
        let Some(known) = known else {
            return Err(format!(
                "{wr:?} completes, but no QP has taken it: {polled:?}"
            ));
        };
        if polled.qp_num != known.number {
            let number = known.number;
            return Err(format!(
                "{wr:?} of QP {number} completes for another: {polled:?}"
            ));
        }
        if polled.cq != wr.cq(known) || polled.opcode != wr.opcode {
            return Err(format!("{wr:?} completes as another: {polled:?}"));
        }
        if wr.line != Line::Shared {
            for before in line.drain(..at) {
                let fate = fate(before.uid);
                // The first flush CQE was dropped, and the event of that may not have been reaped yet.
                if !has_passed(&before, fate, true) {
                    return Err(format!("{before:?}, {fate:?}, is left out before {wr:?}"));
                }
            }
        }
        if own.status.is_none() {
            self.flushed_unsaid.push(uid);
        }
        let right = match own.status {
            None => polled.status == IBV_WC_WR_FLUSH_ERR,
            Some(IBV_WC_SUCCESS) if !wr.is_signaled => {
                overran && polled.status == IBV_WC_WR_FLUSH_ERR
            }
            Some(_) if own.dropped && polled.status == IBV_WC_WR_FLUSH_ERR => true,
            Some(_) if wr.line == Line::Shared && (known.is_revived || overran) => {
                [own.status, Some(IBV_WC_WR_FLUSH_ERR)].contains(&Some(polled.status))
            }
            Some(status) => status == polled.status,
        };
        if right {
            Ok(())
        } else {
            Err(format!("{wr:?}, {own:?}, completes as {polled:?}"))
        }
    }

    /// The work requests that have to complete though nothing more happens: those of dead QPs.
    pub(super) fn due(
        &self,
        is_dead: impl Fn(&Known) -> bool,
        fate: impl Fn(Uid) -> Fate,
    ) -> Vec<(Wr, Option<Known>)> {
        let holder = |wr: &Wr| match wr.line {
            Line::Send(qp) | Line::Recv(qp) => self.qps.get(&qp).copied(),
            Line::Shared => {
                let holder = fate(wr.uid).holder;
                let mut known = self.qps.values();
                known.find(|known| Some(known.handle) == holder).copied()
            }
        };
        let mut may_be_missing = self.kept_completed;
        let mut is_missed = |wr: &Wr| {
            let is_known = wr.line != Line::Shared || !fate(wr.uid).is_unsaid();
            is_known
                || may_be_missing.checked_sub(1).is_none_or(|less| {
                    may_be_missing = less;
                    false
                })
        };
        self.lines
            .values()
            .flatten()
            .filter(|wr| !has_passed(wr, fate(wr.uid), false))
            .map(|wr| (*wr, holder(wr)))
            .filter(|(_, known)| known.as_ref().is_some_and(&is_dead))
            .filter(|(wr, _)| is_missed(wr))
            .collect()
    }

    /// What was flushed by the library must not have been done all the same.
    pub(super) fn settle(&self, fate: impl Fn(Uid) -> Fate) -> Verdict {
        for uid in &self.flushed_unsaid {
            let fate = fate(*uid);
            if fate.status == Some(IBV_WC_SUCCESS) && !fate.dropped {
                return Err(format!("{uid:#x} was flushed, and then succeeded"));
            }
        }
        Ok(())
    }
}

/// Whether a send is over without a completion.
fn has_passed(wr: &Wr, fate: Fate, is_in_doubt: bool) -> bool {
    let is_dropped = is_in_doubt && fate.dropped;
    !wr.is_signaled && (fate.status == Some(IBV_WC_SUCCESS) || is_dropped)
}
