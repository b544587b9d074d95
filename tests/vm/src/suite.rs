// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
//! `vm suite`: the jobs of test plans, on every kernel, provider and userland that they name.
//!
//! A machine is booted per kernel and userland, and runs each job on stock and then on the
//! project's provider. Machines are independent, so several can run at a time.

use std::collections::VecDeque;
use std::fmt::{self, Display};
use std::fs::{File, TryLockError};
use std::io::{self, Write};
use std::sync::{Mutex, PoisonError};
use std::thread;

use crate::args::Suite;
use crate::boot::Guest;
use crate::cache::{Cache, remove};
use crate::companion;
use crate::error::{Context, Error, Result};
use crate::judge::judge;
use crate::kernel::{Kernel, Series};
use crate::packages::{self, Packages};
use crate::plan::{self, Job, Kind};
use crate::project::{Project, Scratch};
use crate::provider::{self, Provider};
use crate::record::{Execution, Record, Recorder};
use crate::report::{Comparison, Report};
use crate::task::{Setting, Task};
use crate::userland::Userland;

/// What one machine is: a kernel and a userland.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Environment {
    pub(crate) userland: Userland,
    pub(crate) kernel: Series,
}

impl Display for Environment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&format!("{}/{}", self.kernel, self.userland))
    }
}

/// A machine that is to be run, and what it is to run.
#[derive(Debug)]
struct Work<'a> {
    environment: Environment,
    guest: Guest,
    executions: Vec<Execution<'a>>,
    tasks: Vec<Task>,
}

/// Runs the suite, prints its report, and returns the status that the harness ends with.
pub(crate) fn run(request: &Suite) -> Result<u8> {
    let mut jobs = plan::read(&request.plans)?;
    if !request.jobs.is_empty() {
        jobs.retain(|job| {
            request
                .jobs
                .iter()
                .any(|glob| plan::matches(glob, &job.name))
        });
    }
    if request.no_userlands {
        jobs.iter_mut()
            .for_each(|job| job.userlands.retain(|userland| *userland == Userland::Host));
    }
    let project = Project::find()?;
    let scratch = Scratch::new(&project)?;
    let _logs = claim_logs(&project)?;
    let work = prepare(&project, &scratch, &jobs, request.stock_in_turn)?;
    let environments: Vec<Environment> = work.iter().map(|work| work.environment).collect();
    let (records, mut complaints) =
        run_machines(&project, work, request.parallel.unwrap_or_else(machines));
    let report_jobs: Vec<_> = jobs
        .iter()
        .map(|job| (job, comparisons(&project, job, &environments, &records)))
        .collect();
    if records
        .iter()
        .all(|record| record.execution.provider == Provider::Stock)
    {
        complaints.push("no case was run on the project's provider".into());
    }
    let report = Report {
        environments,
        jobs: report_jobs,
        complaints,
    };
    io::stdout()
        .write_all(report.text(request.verbose).as_bytes())
        .context(|| "stdout".into())?;
    let (_, failed) = report.totals();
    Ok(u8::from(failed > 0))
}

/// Empties the log directory, which belongs to this suite until the returned file is dropped.
fn claim_logs(project: &Project) -> Result<File> {
    let logs = project.logs();
    let path = logs.with_extension("lock");
    let lock = File::create(&path).context(|| path.display().to_string())?;
    match lock.try_lock() {
        Ok(()) => {}
        Err(TryLockError::WouldBlock) => {
            return Err(Error::new(format!(
                "another suite writes its logs to {}",
                logs.display()
            )));
        }
        Err(TryLockError::Error(error)) => {
            return Err(error).context(|| path.display().to_string());
        }
    }
    remove(&logs)?;
    Ok(lock)
}

/// Makes everything that takes the network or the compiler, before the first machine starts.
fn prepare<'a>(
    project: &Project,
    scratch: &Scratch,
    jobs: &'a [Job],
    stock_in_turn: bool,
) -> Result<Vec<Work<'a>>> {
    let cache = Cache::open()?;
    let packages = Packages::open(&cache)?;
    packages.install(packages::MACHINE)?;
    packages.install(packages::APPLICATIONS)?;
    packages.install(packages::GUEST)?;
    let provider_dir = scratch.dir.join("provider");
    if jobs
        .iter()
        .any(|job| job.providers.contains(&Provider::Lastwqe))
    {
        provider::build(project, &packages, &provider_dir)?;
    }
    let mut all = Vec::new();
    for userland in Userland::ALL {
        for kernel in Series::ALL {
            let environment = Environment { userland, kernel };
            let executions = executions(jobs, environment, stock_in_turn);
            if executions.is_empty() {
                continue;
            }
            let root = userland.get(&cache, &packages, false)?;
            let unpacked = Kernel::get(&cache, &packages, kernel, false)?;
            let guest = Guest {
                companion: companion::build(project, &packages, &unpacked)?,
                kernel: unpacked,
                scratch: scratch.dir.join(format!("{kernel}-{userland}")),
                logs: project.logs().join(format!("{kernel}-{userland}")),
                binds: vec![project.root.clone(), project.target.clone()],
                links: false,
            };
            let task = |execution: &Execution<'_>| {
                let provider = execution.provider;
                let target_dir = &project.target;
                let setting = Setting {
                    kernel,
                    userland,
                    provider,
                    provider_dir: &provider_dir,
                    target_dir,
                };
                let script = setting.script(&project.root, &execution.job.command);
                Task {
                    script,
                    deadline: execution.job.deadline,
                    root: root.clone(),
                }
            };
            let tasks = executions.iter().map(task).collect();
            all.push(Work {
                environment,
                guest,
                executions,
                tasks,
            });
        }
    }
    if all.is_empty() {
        return Err(Error::new("no job is left to run"));
    }
    Ok(all)
}

/// What a machine has to run, in the order of the plan.
///
/// A `must` job is run on stock to show that it can fail, and one kernel shows that. In turn, so that both kernels
/// are seen and their machines are equally busy.
fn executions(jobs: &[Job], environment: Environment, stock_in_turn: bool) -> Vec<Execution<'_>> {
    let mut all = Vec::new();
    for (turn, job) in jobs.iter().enumerate() {
        if !job.kernels.contains(&environment.kernel)
            || !job.userlands.contains(&environment.userland)
        {
            continue;
        }
        let is_its_turn = turn
            .checked_rem(job.kernels.len())
            .and_then(|turn| job.kernels.get(turn))
            == Some(&environment.kernel);
        for &provider in &job.providers {
            let decides = provider == Provider::Lastwqe || job.kind == Kind::Parity;
            if decides || is_its_turn || !stock_in_turn {
                all.push(Execution {
                    job,
                    environment,
                    provider,
                });
            }
        }
    }
    all
}

/// How many machines run at a time where nobody says: one waits for a deadline or for its peers
/// most of the time, and three would need memory that not everybody has.
fn machines() -> usize {
    thread::available_parallelism().map_or(1, |processors| processors.get().min(2))
}

/// Runs `parallel` machines at a time until there is no work, and returns all records and
/// complaints.
fn run_machines<'a>(
    project: &Project,
    work: Vec<Work<'a>>,
    parallel: usize,
) -> (Vec<Record<'a>>, Vec<String>) {
    let queue = Mutex::new(VecDeque::from(work));
    let found = Mutex::new((Vec::new(), Vec::new()));
    let machine = || {
        loop {
            let next = queue
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .pop_front();
            let Some(work) = next else { return };
            let environment = work.environment;
            let (records, complaints) = run_machine(project, work);
            let mut found = found.lock().unwrap_or_else(PoisonError::into_inner);
            found.0.extend(records);
            found.1.extend(
                complaints
                    .into_iter()
                    .map(|complaint| format!("{environment}: {complaint}")),
            );
        }
    };
    thread::scope(|scope| {
        for _ in 0..parallel.max(1) {
            scope.spawn(machine);
        }
    });
    found.into_inner().unwrap_or_else(PoisonError::into_inner)
}

fn run_machine<'a>(project: &Project, work: Work<'a>) -> (Vec<Record<'a>>, Vec<String>) {
    let planned = work.executions.len();
    let mut recorder = Recorder::new(&project.logs(), work.executions);
    let mut complaints = match work.guest.run(&work.tasks, &mut recorder) {
        Ok(complaints) => complaints,
        Err(error) => vec![error.to_string()],
    };
    let records = recorder.records;
    if records.len() < planned {
        complaints.push(format!(
            "{} of {planned} runs have no verdict",
            planned.saturating_sub(records.len())
        ));
    }
    (records, complaints)
}

fn comparisons(
    project: &Project,
    job: &Job,
    environments: &[Environment],
    records: &[Record<'_>],
) -> Vec<Comparison> {
    let comparison = |environment: &Environment| {
        let cases = |provider| {
            let execution = Execution {
                job,
                environment: *environment,
                provider,
            };
            let record = records
                .iter()
                .find(|record| record.execution == execution)?;
            Some(record.cases.as_slice())
        };
        let (stock, lastwqe) = (cases(Provider::Stock), cases(Provider::Lastwqe));
        let rows = judge(job.kind, &job.name, stock, lastwqe);
        let ours = Execution {
            job,
            environment: *environment,
            provider: Provider::Lastwqe,
        };
        let log = ours.log(&project.logs());
        (!rows.is_empty()).then_some(Comparison {
            environment: *environment,
            rows,
            log,
        })
    };
    environments.iter().filter_map(comparison).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn job(name: &str, kind: &str) -> Job {
        format!("{name} {kind} * * 12 60 true").parse().unwrap()
    }

    fn runs(jobs: &[Job], kernel: Series, stock_in_turn: bool) -> Vec<(&str, Provider)> {
        let environment = Environment {
            userland: Userland::Host,
            kernel,
        };
        executions(jobs, environment, stock_in_turn)
            .iter()
            .map(|execution| (execution.job.name.as_str(), execution.provider))
            .collect()
    }

    #[test]
    fn stock_has_each_must_job_once_where_it_takes_turns() {
        let jobs = [job("a", "must"), job("b", "must"), job("c", "parity")];
        let (stock, ours) = (Provider::Stock, Provider::Lastwqe);
        assert_eq!(
            runs(&jobs, Series::V6_1, true),
            [
                ("a", stock),
                ("a", ours),
                ("b", ours),
                ("c", stock),
                ("c", ours)
            ]
        );
        assert_eq!(
            runs(&jobs, Series::V6_12, true),
            [
                ("a", ours),
                ("b", stock),
                ("b", ours),
                ("c", stock),
                ("c", ours)
            ]
        );
        assert_eq!(runs(&jobs, Series::V6_12, false).len(), 6);
    }
}
