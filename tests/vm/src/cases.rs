// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
//! Reads the verdicts out of what a job printed.
//!
//! A job prints, for each of its cases, `ok NAME`, `not ok NAME: REASON` or `skip NAME: REASON`;
//! other lines are its log. What concerns the job as a whole becomes a case that has the job's
//! name.

use crate::task::{End, Outcome};

/// How a case came out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    Ok,
    /// For this reason.
    NotOk(String),
    /// For this reason.
    Skip(String),
}

/// One case of one run of a job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Case {
    pub(crate) name: String,
    pub(crate) verdict: Verdict,
}

/// How many of the kernel's alarms a reason quotes.
const QUOTED_ALARMS: usize = 3;

/// Returns the cases of the job `job`, in the order of its `output`, the job's own case last.
pub(crate) fn read(job: &str, output: &str, outcome: &Outcome) -> Vec<Case> {
    let mut cases: Vec<Case> = Vec::new();
    for case in output.lines().filter_map(case) {
        match cases.iter_mut().find(|earlier| earlier.name == case.name) {
            // One of them is wrong, and nobody knows which.
            Some(earlier) => earlier.verdict = Verdict::NotOk("more than one verdict".into()),
            None => cases.push(case),
        }
    }
    let failed = cases
        .iter()
        .any(|case| matches!(case.verdict, Verdict::NotOk(_)));
    let mut reasons = Vec::new();
    match &outcome.end {
        End::Exited(0) => {}
        // The cases that failed explain the status.
        End::Exited(_) if failed => {}
        end => reasons.push(end.to_string()),
    }
    if !outcome.alarms.is_empty() {
        let said: Vec<&str> = outcome
            .alarms
            .iter()
            .take(QUOTED_ALARMS)
            .map(String::as_str)
            .collect();
        reasons.push(format!(
            "kernel said {} ({} in all)",
            said.join(" | "),
            outcome.alarms.len()
        ));
    }
    if !reasons.is_empty() {
        cases.push(Case {
            name: job.into(),
            verdict: Verdict::NotOk(reasons.join("; ")),
        });
    } else if cases.is_empty() {
        cases.push(Case {
            name: job.into(),
            verdict: Verdict::Ok,
        });
    }
    cases
}

fn case(line: &str) -> Option<Case> {
    let line = line.trim_end();
    if let Some(name) = line.strip_prefix("ok ") {
        return Some(Case {
            name: name.trim().to_owned(),
            verdict: Verdict::Ok,
        });
    }
    let (verdict, rest): (fn(String) -> Verdict, _) = match line.strip_prefix("not ok ") {
        Some(rest) => (Verdict::NotOk, rest),
        None => (Verdict::Skip, line.strip_prefix("skip ")?),
    };
    let (name, reason) = rest.split_once(": ").unwrap_or((rest, ""));
    let name = name.trim().to_owned();
    let verdict = match (verdict(reason.trim().to_owned()), reason) {
        // A case that is left out without a word is one that nobody misses.
        (Verdict::Skip(_), "") => Verdict::NotOk("skipped without a reason".into()),
        (Verdict::NotOk(_), "") => Verdict::NotOk("no reason given".into()),
        (verdict, _) => verdict,
    };
    Some(Case { name, verdict })
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn outcome(end: End, alarms: &[&str]) -> Outcome {
        let alarms = alarms.iter().map(|line| (*line).to_owned()).collect();
        Outcome {
            end,
            alarms,
            took: Duration::ZERO,
        }
    }

    fn ok(name: &str) -> Case {
        Case {
            name: name.into(),
            verdict: Verdict::Ok,
        }
    }

    fn not_ok(name: &str, reason: &str) -> Case {
        Case {
            name: name.into(),
            verdict: Verdict::NotOk(reason.into()),
        }
    }

    #[test]
    fn verdict_lines_are_cases_and_others_are_log() {
        let output =
            "ok a\nlog: ok b\nnot ok c::d: left 2: right 3\r\nskip e: no sid\nokay\n not ok f: x\n";
        let cases = read("job", output, &outcome(End::Exited(1), &[]));
        let skipped = Case {
            name: "e".into(),
            verdict: Verdict::Skip("no sid".into()),
        };
        assert_eq!(cases, [ok("a"), not_ok("c::d", "left 2: right 3"), skipped]);
    }

    #[test]
    fn a_job_without_cases_is_one() {
        assert_eq!(
            read("job", "log\n", &outcome(End::Exited(0), &[])),
            [ok("job")]
        );
        assert_eq!(
            read("job", "", &outcome(End::Exited(3), &[])),
            [not_ok("job", "exit status 3")]
        );
    }

    #[test]
    fn a_status_that_no_case_explains_fails_the_job() {
        let cases = read("job", "ok a\n", &outcome(End::Exited(139), &[]));
        assert_eq!(cases, [ok("a"), not_ok("job", "exit status 139")]);
    }

    #[test]
    fn what_ends_or_taints_a_job_fails_it_beside_its_cases() {
        let cases = read("job", "not ok a: x\n", &outcome(End::Late, &["WARNING: y"]));
        let said = "deadline; kernel said WARNING: y (1 in all)";
        assert_eq!(cases, [not_ok("a", "x"), not_ok("job", said)]);
        let cases = read(
            "job",
            "ok a\n",
            &outcome(End::Lost("kernel panic".into()), &[]),
        );
        assert_eq!(cases, [ok("a"), not_ok("job", "kernel panic")]);
    }

    #[test]
    fn a_case_has_one_verdict_with_a_reason() {
        let cases = read(
            "job",
            "ok a\nok a\nskip b\nnot ok c\n",
            &outcome(End::Exited(0), &[]),
        );
        assert_eq!(
            cases,
            [
                not_ok("a", "more than one verdict"),
                not_ok("b", "skipped without a reason"),
                not_ok("c", "no reason given"),
            ]
        );
    }
}
