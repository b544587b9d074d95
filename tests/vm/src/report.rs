// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
//! What a suite prints at its end: a table, every difference and failure, and one last line that
//! counts.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::fs;
use std::path::PathBuf;

use crate::cases::Verdict;
use crate::judge::{Judgement, Row};
use crate::plan::Job;
use crate::process::tail;
use crate::suite::Environment;

/// How much of a failed job's log is quoted.
const QUOTED_LINES: usize = 25;

/// What a job did in one environment.
#[derive(Clone, Debug)]
pub(crate) struct Comparison {
    pub(crate) environment: Environment,
    pub(crate) rows: Vec<Row>,
    /// The log of the project's provider.
    pub(crate) log: PathBuf,
}

/// Everything that a suite found.
#[derive(Debug)]
pub(crate) struct Report<'a> {
    pub(crate) environments: Vec<Environment>,
    /// Each job with its comparisons, in the order of the plan.
    pub(crate) jobs: Vec<(&'a Job, Vec<Comparison>)>,
    /// What went wrong with the harness or its machines, rather than with a case.
    pub(crate) complaints: Vec<String>,
}

impl Report<'_> {
    fn judgements(&self) -> impl Iterator<Item = (&Job, &Comparison, &Row)> {
        self.jobs.iter().flat_map(|(job, comparisons)| {
            comparisons.iter().flat_map(move |comparison| {
                comparison
                    .rows
                    .iter()
                    .map(move |row| (*job, comparison, row))
            })
        })
    }

    /// Returns how many cases passed, and how many cases and machines failed.
    pub(crate) fn totals(&self) -> (usize, usize) {
        let count = |wanted: fn(&Judgement) -> bool| {
            self.judgements()
                .filter(|(_, _, row)| wanted(&row.judgement))
                .count()
        };
        let failed = count(|judgement| matches!(judgement, Judgement::Failed(_)));
        let passed = count(|judgement| *judgement == Judgement::Passed);
        (passed, failed.saturating_add(self.complaints.len()))
    }

    /// Writes the whole report; its last line is `N passed, N failed`.
    pub(crate) fn text(&self, verbose: bool) -> String {
        let mut text = self.table(verbose);
        self.failures(&mut text);
        self.forgiven(&mut text);
        self.skips(&mut text);
        for complaint in &self.complaints {
            text.push_str(&format!("\nFAILED: {complaint}\n"));
        }
        let (passed, failed) = self.totals();
        text.push_str(&format!("\n{passed} passed, {failed} failed\n"));
        text
    }

    fn table(&self, verbose: bool) -> String {
        let names = self
            .judgements()
            .map(|(job, _, row)| job.name.len().max(row.case.len().saturating_add(2)));
        let width = names.max().unwrap_or(0);
        let mut table = Table {
            text: String::new(),
            width,
        };
        table.row(
            "",
            "",
            self.environments
                .iter()
                .map(|environment| [String::new(), environment.to_string()]),
        );
        table.row(
            "",
            "",
            self.environments
                .iter()
                .map(|_| ["stock".to_owned(), "lastwqe".to_owned()]),
        );
        for (job, comparisons) in &self.jobs {
            let comparison = |environment| {
                comparisons
                    .iter()
                    .find(|comparison| comparison.environment == environment)
            };
            let counts =
                self.environments
                    .iter()
                    .map(|environment| match comparison(*environment) {
                        Some(comparison) => [
                            count(comparison, |row| &row.stock),
                            count(comparison, |row| &row.lastwqe),
                        ],
                        None => absent(),
                    });
            table.row(&job.name, &job.kind.to_string(), counts);
            for case in listed_cases(comparisons, verbose) {
                let cells = self.environments.iter().map(|environment| {
                    let row = comparison(*environment)
                        .and_then(|found| found.rows.iter().find(|row| row.case == case));
                    row.map_or_else(absent, |row| {
                        [cell(row.stock.as_ref()), cell(row.lastwqe.as_ref())]
                    })
                });
                table.row(&format!("  {case}"), "", cells);
            }
        }
        table.text
    }

    fn failures(&self, text: &mut String) {
        for (job, comparisons) in &self.jobs {
            for comparison in comparisons {
                let mut failed = false;
                for row in &comparison.rows {
                    if let Judgement::Failed(reason) = &row.judgement {
                        let place = &comparison.environment;
                        text.push_str(&format!(
                            "\nFAILED: {place} {}: {}: {reason}",
                            job.name, row.case
                        ));
                        failed = true;
                    }
                }
                if failed {
                    let log = fs::read(&comparison.log).unwrap_or_default();
                    let quoted = tail(&String::from_utf8_lossy(&log), QUOTED_LINES);
                    text.push_str(&format!("\n  {}:\n", comparison.log.display()));
                    quoted
                        .lines()
                        .for_each(|line| text.push_str(&format!("  | {line}\n")));
                }
            }
        }
    }

    fn forgiven(&self, text: &mut String) {
        let mut cases = Vec::new();
        for (job, comparison, row) in self.judgements() {
            if let Judgement::LikeStock(reason) = &row.judgement {
                cases.push(format!(
                    "  {} {}: {}: {reason}\n",
                    comparison.environment, job.name, row.case
                ));
            }
        }
        if !cases.is_empty() {
            text.push_str(&format!(
                "\n{} fail as they do on stock:\n{}",
                cases.len(),
                cases.concat()
            ));
        }
    }

    fn skips(&self, text: &mut String) {
        let mut reasons: BTreeMap<&str, Vec<String>> = BTreeMap::new();
        for (job, comparison, row) in self.judgements() {
            if let Judgement::Skipped(reason) = &row.judgement {
                let place = format!("{} {}: {}", comparison.environment, job.name, row.case);
                reasons.entry(reason).or_default().push(place);
            }
        }
        let total: usize = reasons.values().map(Vec::len).sum();
        if total > 0 {
            text.push_str(&format!("\n{total} skipped:\n"));
        }
        for (reason, places) in reasons {
            text.push_str(&format!(
                "  {} × {reason} ({})\n",
                places.len(),
                places.join(", ")
            ));
        }
    }
}

/// Lays out rows of one name, one kind and two cells per environment.
#[derive(Debug)]
struct Table {
    text: String,
    width: usize,
}

impl Table {
    fn row(&mut self, name: &str, kind: &str, cells: impl Iterator<Item = [String; 2]>) {
        let mut line = format!("{name:<width$}  {kind:<6}", width = self.width);
        for [stock, lastwqe] in cells {
            // Writing to a string cannot fail.
            write!(line, "   {stock:>7} {lastwqe:>7}").ok();
        }
        self.text.push_str(line.trim_end());
        self.text.push('\n');
    }
}

fn listed_cases(comparisons: &[Comparison], verbose: bool) -> Vec<&str> {
    let mut cases: Vec<&str> = Vec::new();
    for row in comparisons.iter().flat_map(|comparison| &comparison.rows) {
        if (verbose || row.is_remarkable()) && !cases.contains(&row.case.as_str()) {
            cases.push(&row.case);
        }
    }
    cases
}

fn count(comparison: &Comparison, side: fn(&Row) -> &Option<Verdict>) -> String {
    let verdicts: Vec<&Verdict> = comparison
        .rows
        .iter()
        .filter_map(|row| side(row).as_ref())
        .collect();
    if verdicts.is_empty() {
        return "-".into();
    }
    let ok = verdicts
        .iter()
        .filter(|verdict| ***verdict == Verdict::Ok)
        .count();
    format!("{ok}/{}", verdicts.len())
}

fn cell(verdict: Option<&Verdict>) -> String {
    let word = match verdict {
        None => "-",
        Some(Verdict::Ok) => "ok",
        Some(Verdict::NotOk(_)) => "not ok",
        Some(Verdict::Skip(_)) => "skip",
    };
    word.to_owned()
}

fn absent() -> [String; 2] {
    ["-".to_owned(), "-".to_owned()]
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::kernel::Series;
    use crate::plan::Kind;
    use crate::provider::Provider;
    use crate::userland::Userland;

    fn row(case: &str, stock: Option<Verdict>, ours: Verdict, judgement: Judgement) -> Row {
        Row {
            case: case.into(),
            stock,
            lastwqe: Some(ours),
            judgement,
        }
    }

    #[test]
    fn a_report_lists_what_is_remarkable_and_counts_last() {
        let job = |name: &str| Job {
            name: name.into(),
            kind: Kind::Parity,
            kernels: Series::ALL.to_vec(),
            providers: Provider::ALL.to_vec(),
            userlands: vec![Userland::Host],
            deadline: Duration::ZERO,
            command: String::new(),
        };
        let [here, there] = Series::ALL.map(|kernel| Environment {
            userland: Userland::Host,
            kernel,
        });
        let bad = |reason: &str| Verdict::NotOk(reason.into());
        let comparison = |environment, rows| Comparison {
            environment,
            rows,
            log: "/nowhere".into(),
        };
        let passed = |case| row(case, Some(Verdict::Ok), Verdict::Ok, Judgement::Passed);
        let (fine, broken) = (job("fine"), job("broken"));
        let skip = Verdict::Skip("no sid".into());
        let broken_rows = vec![
            passed("plain"),
            row(
                "worse",
                Some(Verdict::Ok),
                bad("x"),
                Judgement::Failed("x".into()),
            ),
            row(
                "same",
                Some(bad("y")),
                bad("y"),
                Judgement::LikeStock("y".into()),
            ),
            row("left", None, skip, Judgement::Skipped("no sid".into())),
        ];
        let report = Report {
            environments: vec![here, there],
            jobs: vec![
                (
                    &fine,
                    vec![
                        comparison(here, vec![passed("a")]),
                        comparison(there, vec![]),
                    ],
                ),
                (&broken, vec![comparison(there, broken_rows)]),
            ],
            complaints: vec!["6.1/12: boot 1: no".into()],
        };
        assert_eq!(
            report.text(false),
            "                           6.1/12           6.12/12\n\
             \x20                   stock lastwqe     stock lastwqe\n\
             fine     parity       1/1     1/1         -       -\n\
             broken   parity         -       -       2/3     1/4\n\
             \x20 worse                 -       -        ok  not ok\n\
             \x20 same                  -       -    not ok  not ok\n\
             \n\
             FAILED: 6.12/12 broken: worse: x\n\
             \x20 /nowhere:\n\
             \n\
             1 fail as they do on stock:\n\
             \x20 6.12/12 broken: same: y\n\
             \n\
             1 skipped:\n\
             \x20 1 × no sid (6.12/12 broken: left)\n\
             \n\
             FAILED: 6.1/12: boot 1: no\n\
             \n\
             2 passed, 2 failed\n"
        );
    }
}
