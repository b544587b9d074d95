// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
//! Compares a job's cases on the two providers and says what that means for the project's.

use crate::cases::{Case, Verdict};
use crate::plan::Kind;

/// What a case says about the project's provider.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Judgement {
    Passed,
    /// For this reason.
    Failed(String),
    /// For this reason.
    Skipped(String),
    /// It fails, but does so on stock as well.
    LikeStock(String),
    /// Nothing: it is no case of the project's provider.
    Silent,
}

/// One case on both providers, where it was run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Row {
    pub(crate) case: String,
    pub(crate) stock: Option<Verdict>,
    pub(crate) lastwqe: Option<Verdict>,
    pub(crate) judgement: Judgement,
}

impl Row {
    /// Whether the case deserves a line of its own.
    pub(crate) fn is_remarkable(&self) -> bool {
        let differs = match (&self.stock, &self.lastwqe) {
            (Some(stock), Some(ours)) => {
                std::mem::discriminant(stock) != std::mem::discriminant(ours)
            }
            _ => false,
        };
        differs
            || matches!(
                self.judgement,
                Judgement::Failed(_) | Judgement::LikeStock(_)
            )
    }
}

/// Judges the job `job`; a side that was not run is `None`.
pub(crate) fn judge(
    kind: Kind,
    job: &str,
    stock: Option<&[Case]>,
    lastwqe: Option<&[Case]>,
) -> Vec<Row> {
    let cases = |side: Option<&[Case]>| side.unwrap_or_default().to_vec();
    let mut names: Vec<String> = Vec::new();
    for case in cases(lastwqe).into_iter().chain(cases(stock)) {
        if !names.contains(&case.name) {
            names.push(case.name);
        }
    }
    let row = |case: String| {
        let of = |side| {
            cases(side)
                .into_iter()
                .find(|other| other.name == case)
                .map(|found| found.verdict)
        };
        let (stock, ours) = (of(stock), of(lastwqe));
        let judgement = match lastwqe {
            None => Judgement::Silent,
            // The job's own case is only there if something concerns the job as a whole.
            Some(_) if ours.is_none() && case == job => Judgement::Silent,
            Some(_) => judge_case(kind, stock.as_ref(), ours.as_ref()),
        };
        Row {
            case,
            stock,
            lastwqe: ours,
            judgement,
        }
    };
    names.into_iter().map(row).collect()
}

fn judge_case(kind: Kind, stock: Option<&Verdict>, ours: Option<&Verdict>) -> Judgement {
    match (ours, stock) {
        (None, _) => Judgement::Failed("no verdict, though stock has one".into()),
        (Some(Verdict::Ok), _) => Judgement::Passed,
        (Some(Verdict::NotOk(reason)), Some(Verdict::NotOk(_))) if kind == Kind::Parity => {
            Judgement::LikeStock(reason.clone())
        }
        (Some(Verdict::NotOk(reason)), _) => Judgement::Failed(reason.clone()),
        (Some(Verdict::Skip(reason)), Some(Verdict::Ok)) => {
            Judgement::Failed(format!("skipped, though ok on stock: {reason}"))
        }
        (Some(Verdict::Skip(reason)), _) => Judgement::Skipped(reason.clone()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ok() -> Verdict {
        Verdict::Ok
    }

    fn bad() -> Verdict {
        Verdict::NotOk("x".into())
    }

    fn skip() -> Verdict {
        Verdict::Skip("y".into())
    }

    fn one(kind: Kind, stock: Option<Verdict>, ours: Option<Verdict>) -> Judgement {
        let case = |verdict: Option<Verdict>| -> Vec<Case> {
            verdict
                .into_iter()
                .map(|verdict| Case {
                    name: "a".into(),
                    verdict,
                })
                .collect()
        };
        let rows = judge(kind, "job", Some(&case(stock)), Some(&case(ours)));
        assert_eq!(rows.len(), 1);
        rows[0].judgement.clone()
    }

    #[test]
    fn must_holds_whatever_stock_does() {
        assert_eq!(one(Kind::Must, Some(bad()), Some(ok())), Judgement::Passed);
        assert_eq!(
            one(Kind::Must, Some(bad()), Some(bad())),
            Judgement::Failed("x".into())
        );
        assert_eq!(
            one(Kind::Must, None, Some(bad())),
            Judgement::Failed("x".into())
        );
    }

    #[test]
    fn parity_forgives_what_stock_fails_too() {
        assert_eq!(
            one(Kind::Parity, Some(bad()), Some(bad())),
            Judgement::LikeStock("x".into())
        );
        assert_eq!(
            one(Kind::Parity, Some(ok()), Some(bad())),
            Judgement::Failed("x".into())
        );
        assert_eq!(
            one(Kind::Parity, Some(skip()), Some(bad())),
            Judgement::Failed("x".into())
        );
        assert_eq!(
            one(Kind::Parity, None, Some(bad())),
            Judgement::Failed("x".into())
        );
        assert_eq!(
            one(Kind::Parity, Some(bad()), Some(ok())),
            Judgement::Passed
        );
    }

    #[test]
    fn a_case_cannot_go_missing() {
        for kind in [Kind::Must, Kind::Parity] {
            assert!(matches!(one(kind, Some(ok()), None), Judgement::Failed(_)));
            assert!(matches!(one(kind, Some(bad()), None), Judgement::Failed(_)));
            assert!(matches!(
                one(kind, Some(ok()), Some(skip())),
                Judgement::Failed(_)
            ));
            assert_eq!(
                one(kind, Some(skip()), Some(skip())),
                Judgement::Skipped("y".into())
            );
        }
    }

    #[test]
    fn a_job_that_fails_as_a_whole_on_stock_alone_misses_nothing() {
        let stock = [Case {
            name: "job".into(),
            verdict: bad(),
        }];
        let ours = [Case {
            name: "a".into(),
            verdict: ok(),
        }];
        let rows = judge(Kind::Parity, "job", Some(&stock), Some(&ours));
        let judgements: Vec<_> = rows.iter().map(|row| &row.judgement).collect();
        assert_eq!(judgements, [&Judgement::Passed, &Judgement::Silent]);
    }

    #[test]
    fn stock_alone_says_nothing() {
        let stock = [Case {
            name: "a".into(),
            verdict: bad(),
        }];
        let rows = judge(Kind::Must, "job", Some(&stock), None);
        assert_eq!(rows[0].judgement, Judgement::Silent);
    }

    #[test]
    fn differences_and_failures_are_remarkable() {
        let row = |stock, ours, judgement| Row {
            case: String::new(),
            stock,
            lastwqe: ours,
            judgement,
        };
        assert!(row(Some(bad()), Some(ok()), Judgement::Passed).is_remarkable());
        assert!(row(None, Some(bad()), Judgement::Failed(String::new())).is_remarkable());
        assert!(!row(Some(ok()), Some(ok()), Judgement::Passed).is_remarkable());
        assert!(!row(None, Some(ok()), Judgement::Passed).is_remarkable());
    }
}
