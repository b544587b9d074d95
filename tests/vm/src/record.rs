// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
//! Keeps what the jobs of one machine print: in their logs, and as cases.

use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};

use crate::boot::Watcher;
use crate::cases::{self, Case, Verdict};
use crate::error::{Context, Result};
use crate::plan::Job;
use crate::process::progress;
use crate::provider::Provider;
use crate::suite::Environment;
use crate::task::Outcome;

/// One run of a job: where, and on which provider.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Execution<'a> {
    pub(crate) job: &'a Job,
    pub(crate) environment: Environment,
    pub(crate) provider: Provider,
}

impl Execution<'_> {
    /// Returns the file below `logs` that keeps what the job prints.
    pub(crate) fn log(&self, logs: &Path) -> PathBuf {
        let Environment { userland, kernel } = self.environment;
        logs.join(format!(
            "{kernel}-{}-{userland}/{}.log",
            self.provider, self.job.name
        ))
    }
}

/// A run of a job that has ended.
#[derive(Debug)]
pub(crate) struct Record<'a> {
    pub(crate) execution: Execution<'a>,
    pub(crate) cases: Vec<Case>,
}

/// Records the jobs of one machine, which runs them one after the other.
#[derive(Debug)]
pub(crate) struct Recorder<'a> {
    logs: PathBuf,
    executions: Vec<Execution<'a>>,
    pub(crate) records: Vec<Record<'a>>,
    /// The current job's log, from its first byte on.
    log: Option<File>,
    /// What the current job itself has printed.
    output: Vec<u8>,
}

impl<'a> Recorder<'a> {
    pub(crate) fn new(logs: &Path, executions: Vec<Execution<'a>>) -> Self {
        Self {
            logs: logs.to_owned(),
            executions,
            records: Vec::new(),
            log: None,
            output: Vec::new(),
        }
    }

    fn append(&mut self, task: usize, bytes: &[u8]) -> Result<()> {
        let Some(execution) = self.executions.get(task) else {
            return Ok(());
        };
        let path = execution.log(&self.logs);
        let mut log = match self.log.take() {
            Some(log) => log,
            None => create(&path)?,
        };
        log.write_all(bytes)
            .context(|| path.display().to_string())?;
        self.log = Some(log);
        Ok(())
    }
}

impl Watcher for Recorder<'_> {
    fn output(&mut self, task: usize, bytes: &[u8]) -> Result<()> {
        self.output.extend_from_slice(bytes);
        self.append(task, bytes)
    }

    fn remark(&mut self, task: usize, bytes: &[u8]) -> Result<()> {
        self.append(task, bytes)
    }

    fn end(&mut self, task: usize, outcome: Outcome) -> Result<()> {
        let took = outcome.took.as_secs_f32();
        self.append(
            task,
            format!("\nvm: {}, {took:.1} s\n", outcome.end).as_bytes(),
        )?;
        self.log = None;
        let Some(execution) = self.executions.get(task).copied() else {
            return Ok(());
        };
        let output = std::mem::take(&mut self.output);
        let cases = cases::read(
            &execution.job.name,
            &String::from_utf8_lossy(&output),
            &outcome,
        );
        let Execution {
            job,
            environment,
            provider,
        } = execution;
        progress(&format!(
            "{environment} {} on {provider}: {}, {took:.1} s",
            job.name,
            summary(&cases)
        ));
        self.records.push(Record { execution, cases });
        Ok(())
    }
}

fn summary(cases: &[Case]) -> String {
    let count =
        |wanted: fn(&Verdict) -> bool| cases.iter().filter(|case| wanted(&case.verdict)).count();
    let counts = [
        (count(|verdict| *verdict == Verdict::Ok), "ok"),
        (
            count(|verdict| matches!(verdict, Verdict::NotOk(_))),
            "not ok",
        ),
        (
            count(|verdict| matches!(verdict, Verdict::Skip(_))),
            "skipped",
        ),
    ];
    let words = counts
        .iter()
        .filter(|(count, _)| *count > 0)
        .map(|(count, word)| format!("{count} {word}"));
    words.collect::<Vec<_>>().join(", ")
}

fn create(path: &Path) -> Result<File> {
    if let Some(parent) = path.parent() {
        fs::create_dir_all(parent).context(|| parent.display().to_string())?;
    }
    File::create(path).context(|| path.display().to_string())
}
