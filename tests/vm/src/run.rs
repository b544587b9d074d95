// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
//! `vm run`: one command in one guest, its output as it comes.

use std::fs;
use std::io::{self, Write};

use crate::args::Run;
use crate::boot::{Guest, Watcher};
use crate::cache::Cache;
use crate::companion;
use crate::error::{Context, Error, Result};
use crate::kernel::Kernel;
use crate::packages::{self, Packages};
use crate::process::progress;
use crate::project::{Project, Scratch};
use crate::provider::{self, Provider};
use crate::task::{End, Outcome, Setting, Task};

/// What timeout(1) ends with at its deadline.
const LATE: u8 = 124;

/// Runs the command and returns the status that the harness ends with.
///
/// # Errors
///
/// When the machine or the harness fails, rather than the command.
pub(crate) fn run(request: &Run) -> Result<u8> {
    let project = Project::find()?;
    let cache = Cache::open()?;
    let packages = Packages::open(&cache)?;
    packages.install(packages::MACHINE)?;
    packages.install(packages::GUEST)?;
    let kernel = Kernel::get(&cache, &packages, request.kernel, false)?;
    let root = request.userland.get(&cache, &packages, false)?;
    let scratch = Scratch::new(&project)?;
    let provider_dir = scratch.dir.join("provider");
    if request.provider == Provider::Lastwqe {
        provider::build(&project, &packages, &provider_dir)?;
    }
    let setting = Setting {
        kernel: request.kernel,
        userland: request.userland,
        provider: request.provider,
        provider_dir: &provider_dir,
        target_dir: &project.target,
    };
    let cwd = std::env::current_dir().context(|| "the working directory".into())?;
    let task = Task {
        script: setting.script(&cwd, &request.command),
        deadline: request.deadline,
        root,
    };
    let guest = Guest {
        companion: companion::build(&project, &packages, &kernel)?,
        kernel,
        scratch: scratch.dir.clone(),
        logs: scratch.dir.clone(),
        binds: vec![project.root.clone(), project.target.clone(), cwd],
        links: true,
    };
    let mut terminal = Terminal::default();
    for complaint in guest.run(&[task], &mut terminal)? {
        progress(&complaint);
    }
    let outcome = terminal
        .outcome
        .ok_or_else(|| Error::new("the command did not end"))?;
    for line in &outcome.alarms {
        progress(&format!("the kernel said: {line}"));
    }
    match outcome.end {
        End::Exited(0) if !outcome.alarms.is_empty() => Ok(1),
        End::Exited(status) => Ok(u8::try_from(status).unwrap_or(u8::MAX)),
        End::Late => {
            progress(&format!("killed after {} s", request.deadline.as_secs()));
            Ok(LATE)
        }
        End::Lost(reason) => {
            // The scratch directory, and with it the console's log, ends with this run.
            let kept = project.target.join("vm/last-lost.console");
            fs::copy(scratch.dir.join("boot-1.console"), &kept)
                .context(|| kept.display().to_string())?;
            Err(Error::new(format!(
                "{reason}; the console is in {}",
                kept.display()
            )))
        }
    }
}

#[derive(Debug, Default)]
struct Terminal {
    outcome: Option<Outcome>,
}

impl Watcher for Terminal {
    fn output(&mut self, _task: usize, bytes: &[u8]) -> Result<()> {
        let mut stdout = io::stdout().lock();
        stdout
            .write_all(bytes)
            .and_then(|()| stdout.flush())
            .context(|| "stdout".into())
    }

    fn remark(&mut self, _task: usize, _bytes: &[u8]) -> Result<()> {
        Ok(())
    }

    fn end(&mut self, _task: usize, outcome: Outcome) -> Result<()> {
        self.outcome = Some(outcome);
        Ok(())
    }
}
