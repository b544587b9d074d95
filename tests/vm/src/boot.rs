// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
//! Runs tasks in a guest, and in another one if the first does not survive them.

use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};

use crate::error::{Context, Error, Result};
use crate::initramfs;
use crate::kernel::Kernel;
use crate::qemu::{self, Machine};
use crate::session::Session;
use crate::task::{Outcome, Task};

/// Gets what happens to tasks, while it happens; tasks are named by their index.
pub(crate) trait Watcher {
    /// The task printed this.
    fn output(&mut self, task: usize, bytes: &[u8]) -> Result<()>;
    /// The kernel or the harness has this to add to the task's log.
    fn remark(&mut self, task: usize, bytes: &[u8]) -> Result<()>;
    fn end(&mut self, task: usize, outcome: Outcome) -> Result<()>;
}

/// What all boots of a run have in common.
#[derive(Debug)]
pub(crate) struct Guest {
    pub(crate) kernel: Kernel,
    /// The companion module, for that kernel.
    pub(crate) companion: PathBuf,
    /// A directory of this run alone, for what the guest reads.
    pub(crate) scratch: PathBuf,
    /// Where the console log and the command line of each boot are written.
    pub(crate) logs: PathBuf,
    /// Directories of the host that are visible in every userland.
    pub(crate) binds: Vec<PathBuf>,
    /// Whether the guest makes `rxe0` and `siw0` before the first task, and keeps them.
    pub(crate) links: bool,
}

impl Guest {
    /// Runs `tasks` in order, each exactly once, in as many boots as that takes.
    ///
    /// Returns what went wrong beside the tasks themselves, a line each.
    ///
    /// # Errors
    ///
    /// When a guest does not come up or does not keep to the protocol: the remaining tasks have
    /// then not been run.
    pub(crate) fn run(&self, tasks: &[Task], watcher: &mut dyn Watcher) -> Result<Vec<String>> {
        let mut complaints = Vec::new();
        let mut done = 0;
        for boot in 1_u32.. {
            let Some(rest @ [_, ..]) = tasks.get(done..) else {
                break;
            };
            let session = self.boot(boot, done, rest, watcher)?;
            complaints.extend(
                session
                    .complaints
                    .iter()
                    .map(|line| format!("boot {boot}: {line}")),
            );
            if session.next == done {
                return Err(Error::new(format!(
                    "boot {boot}: the guest stopped before its first job"
                )));
            }
            done = session.next;
        }
        Ok(complaints)
    }

    fn boot(
        &self,
        boot: u32,
        first: usize,
        tasks: &[Task],
        watcher: &mut dyn Watcher,
    ) -> Result<Session> {
        let directory = self.scratch.join(format!("boot-{boot}"));
        for directory in [&directory, &self.logs] {
            fs::create_dir_all(directory).context(|| directory.display().to_string())?;
        }
        let nonce = nonce();
        self.describe(&directory, &nonce, first, tasks)?;
        let initramfs = self.scratch.join(format!("initramfs-{boot}"));
        write(
            &initramfs,
            &initramfs::build(&self.kernel, &self.companion)?,
        )?;
        let command = qemu::command(&self.kernel.image(), &initramfs, &directory);

        write(
            &self.logs.join(format!("boot-{boot}.qemu")),
            format!("{}\n", qemu::shell_line(&command)).as_bytes(),
        )?;
        let console = self.logs.join(format!("boot-{boot}.console"));
        let log = File::create(&console).context(|| console.display().to_string())?;
        let mut machine = Machine::start(command)?;
        let mut session = Session::new(&nonce, first, tasks, log);
        session
            .follow(&mut machine, watcher)
            .context(|| format!("boot {boot} ({})", console.display()))?;
        Ok(session)
    }

    /// Writes what the agent reads; see `guest/agent`.
    fn describe(&self, directory: &Path, nonce: &str, first: usize, tasks: &[Task]) -> Result<()> {
        let file = |name: &str, text: &str| write(&directory.join(name), text.as_bytes());
        file("nonce", nonce)?;
        let binds: String = self
            .binds
            .iter()
            .map(|bind| format!("{}\n", bind.display()))
            .collect();
        file("binds", &binds)?;
        if self.links {
            file("links", "")?;
        }
        let mut jobs = String::new();
        for (id, task) in (first..).zip(tasks) {
            jobs.push_str(&format!(
                "{id} {} {}\n",
                task.deadline.as_secs(),
                task.root.display()
            ));
            file(&format!("{id}.sh"), &task.script)?;
        }
        file("jobs", &jobs)
    }
}

fn write(path: &Path, bytes: &[u8]) -> Result<()> {
    File::create(path)
        .and_then(|mut file| file.write_all(bytes))
        .context(|| path.display().to_string())
}

/// Returns a number that no job can guess.
fn nonce() -> String {
    use std::hash::{BuildHasher, RandomState};
    format!("{:016x}", RandomState::new().hash_one(0))
}
