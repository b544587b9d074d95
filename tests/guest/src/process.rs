// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause

//! The process of a case: a fork of the runner, leader of a process group of its own.
//!
//! It is forked and not executed anew, because loading a dozen provider libraries takes far longer
//! than most cases: the runner lets libibverbs load them once, before it forks.

use std::fs::{self, File};
use std::io::{self, Read};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::process::ExitStatusExt;
use std::process::{self, ExitStatus};
use std::time::Duration;

use crate::verbs::readable;

/// A child process and the read end of its standard output.
///
/// Dropping it kills what is left of its process group.
#[derive(Debug)]
pub struct Process {
    pid: libc::pid_t,
    /// Readable when the process has ended.
    ended: OwnedFd,
    stdout: File,
}

impl Process {
    /// Forks; the child runs `body` and exits with what it returns.
    ///
    /// The caller must have one thread only.
    ///
    /// # Errors
    ///
    /// The errno of pipe2(2), fork(2) or pidfd_open(2).
    pub fn fork(body: impl FnOnce() -> i32) -> io::Result<Self> {
        let (read_end, write_end) = pipe()?;
        // SAFETY: the runner has one thread, so the child finds no lock taken.
        match unsafe { libc::fork() } {
            -1 => Err(io::Error::last_os_error()),
            0 => {
                // SAFETY: the calls only change this new process; 1 is its standard output. It dies
                // with the process that has forked it, whose process group it leaves.
                unsafe {
                    libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL);
                    libc::setpgid(0, 0);
                    libc::dup2(write_end.as_raw_fd(), libc::STDOUT_FILENO);
                }
                process::exit(body());
            }
            pid => {
                // Whoever comes first makes the group; the other call changes nothing.
                // SAFETY: `pid` is our child.
                unsafe { libc::setpgid(pid, pid) };
                Ok(Self {
                    pid,
                    ended: pidfd(pid)?,
                    stdout: File::from(read_end),
                })
            }
        }
    }

    /// Its process ID.
    #[must_use]
    pub fn pid(&self) -> libc::pid_t {
        self.pid
    }

    /// Waits until the process has ended, for at most `limit`; `None` means that it still runs.
    ///
    /// # Errors
    ///
    /// The errno of poll(2) or waitpid(2).
    pub fn wait(&self, limit: Duration) -> io::Result<Option<ExitStatus>> {
        if !readable(self.ended.as_raw_fd(), limit)? {
            return Ok(None);
        }
        let mut status = 0;
        // SAFETY: `pid` is our child, and `status` a valid place for its status.
        if unsafe { libc::waitpid(self.pid, &raw mut status, 0) } == -1 {
            return Err(io::Error::last_os_error());
        }
        Ok(Some(ExitStatus::from_raw(status)))
    }

    /// The next line that the process prints.
    ///
    /// # Errors
    ///
    /// As [`read_line`].
    pub fn read_line(&mut self, limit: Duration) -> io::Result<String> {
        read_line(&mut self.stdout, limit)
    }

    /// Kills the process and everything it has started.
    pub fn kill(&self) {
        // SAFETY: kill(2) touches no memory. The group is the child's own; if nobody is left in
        // it the call fails with ESRCH.
        unsafe { libc::kill(-self.pid, libc::SIGKILL) };
    }

    /// All that the process has printed, once it and what it started have ended.
    ///
    /// # Errors
    ///
    /// The errno of read(2), or that the output is no UTF-8.
    pub fn output(mut self) -> io::Result<String> {
        self.kill();
        let mut printed = String::new();
        self.stdout.read_to_string(&mut printed)?;
        Ok(printed)
    }

    /// Where each thread of the process stands in the kernel, one line per thread.
    #[must_use]
    pub fn kernel_stacks(&self) -> Vec<String> {
        let Ok(threads) = fs::read_dir(format!("/proc/{}/task", self.pid)) else {
            return Vec::new();
        };
        threads
            .flatten()
            .map(|thread| {
                let stack = fs::read_to_string(thread.path().join("stack")).unwrap_or_default();
                let place: Vec<&str> = stack
                    .lines()
                    .filter_map(|line| line.split(' ').nth(1))
                    .collect();
                format!(
                    "thread {} in {}",
                    thread.file_name().display(),
                    place.join(" < ")
                )
            })
            .collect()
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.kill();
    }
}

/// Reads a line, without its end, from a pipe.
///
/// # Errors
///
/// `TimedOut` if it does not come within `limit`; `UnexpectedEof` if the other end is closed.
pub(crate) fn read_line(pipe: &mut File, limit: Duration) -> io::Result<String> {
    let mut line = Vec::new();
    loop {
        if !readable(pipe.as_raw_fd(), limit)? {
            let waited = format!("no line within {limit:?}");
            return Err(io::Error::new(io::ErrorKind::TimedOut, waited));
        }
        // By bytes: what is behind the line is left for the next call.
        let mut byte = [0];
        pipe.read_exact(&mut byte)?;
        if byte == *b"\n" {
            return String::from_utf8(line).map_err(io::Error::other);
        }
        line.extend(byte);
    }
}

/// The read end and the write end of a new pipe.
///
/// # Errors
///
/// The errno of pipe2(2).
pub(crate) fn pipe() -> io::Result<(OwnedFd, OwnedFd)> {
    let mut ends = [-1; 2];
    // SAFETY: `ends` has room for the two descriptors.
    if unsafe { libc::pipe2(ends.as_mut_ptr(), libc::O_CLOEXEC) } == -1 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: pipe2 has just returned both, and nobody else knows them.
    Ok(unsafe { (OwnedFd::from_raw_fd(ends[0]), OwnedFd::from_raw_fd(ends[1])) })
}

fn pidfd(pid: libc::pid_t) -> io::Result<OwnedFd> {
    // SAFETY: pidfd_open(2) takes a pid and flags, and touches no memory.
    match i32::try_from(unsafe { libc::syscall(libc::SYS_pidfd_open, pid, 0) }) {
        // SAFETY: the kernel has just returned `fd`, and nobody else knows it.
        Ok(fd @ 0..) => Ok(unsafe { OwnedFd::from_raw_fd(fd) }),
        _ => Err(io::Error::last_os_error()),
    }
}
