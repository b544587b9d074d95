// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
//! Follows one boot of a guest from its first message to its end.

use std::collections::VecDeque;
use std::fs::File;
use std::io::Write;
use std::mem;
use std::sync::mpsc::RecvTimeoutError;
use std::time::{Duration, Instant};

use crate::boot::Watcher;
use crate::console::{Alarm, Lines, alarm};
use crate::error::{Context, Error, Result};
use crate::qemu::{Machine, Received};
use crate::stream::{Frame, Left, Piece, Stream};
use crate::task::{End, Outcome, Task};

/// From power-on to the first job; some seconds on an idle host.
const BOOT_LIMIT: Duration = Duration::from_secs(180);
/// Between jobs.
const IDLE_LIMIT: Duration = Duration::from_secs(60);
/// What the guest gets beyond a job's deadline to end it.
const GRACE: Duration = Duration::from_secs(30);
/// From a panic to the end of the machine, which only has to print a trace.
const PANIC_LIMIT: Duration = Duration::from_secs(10);
/// How many console lines are kept to explain a loss.
const KEPT_LINES: usize = 60;

const DIRTY: &str = "vm: what this job left cannot be removed: the next one gets a new guest\n";
const STOPPED: &str = "the guest stopped";
const PANIC: &str = "kernel panic";
const STUCK: &str = "deadline, and the job cannot be killed";

#[derive(Debug, PartialEq, Eq)]
enum State {
    Booting,
    /// Between jobs.
    Idle,
    Running,
    /// The job has ended, after this time; what the kernel said meanwhile is arriving.
    Ended(End, Duration),
}

/// The state of one boot.
#[derive(Debug)]
pub(crate) struct Session {
    /// The job that runs or comes next.
    pub(crate) next: usize,
    /// What went wrong outside of jobs.
    pub(crate) complaints: Vec<String>,
    deadlines: VecDeque<Duration>,
    state: State,
    stream: Stream,
    /// When the current job began.
    began: Instant,
    /// When the current state has lasted too long.
    limit: Instant,
    /// Why the machine stops if it does so before its last job is done.
    cause: &'static str,
    /// The kernel's messages as the agent passes them on, and as the console prints them.
    kernel: Lines,
    console: Lines,
    /// The current job's alarms from either source.
    alarms: Vec<String>,
    console_alarms: Vec<String>,
    last_lines: VecDeque<String>,
    console_log: File,
}

impl Session {
    pub(crate) fn new(nonce: &str, first: usize, tasks: &[Task], console_log: File) -> Self {
        let now = Instant::now();
        Self {
            next: first,
            complaints: Vec::new(),
            deadlines: tasks.iter().map(|task| task.deadline).collect(),
            state: State::Booting,
            stream: Stream::new(nonce),
            began: now,
            limit: later(now, BOOT_LIMIT),
            cause: STOPPED,
            kernel: Lines::default(),
            console: Lines::default(),
            alarms: Vec::new(),
            console_alarms: Vec::new(),
            last_lines: VecDeque::new(),
            console_log,
        }
    }

    /// Follows `machine` until it stops, or stops it when it is past hope.
    ///
    /// # Errors
    ///
    /// When it does not reach its first job, or breaks the protocol.
    pub(crate) fn follow(
        &mut self,
        machine: &mut Machine,
        watcher: &mut dyn Watcher,
    ) -> Result<()> {
        loop {
            let patience = self.limit.saturating_duration_since(Instant::now());
            match machine.received.recv_timeout(patience) {
                Ok(Received::Console(bytes)) => self.hear(&bytes)?,
                Ok(Received::Results(bytes)) => {
                    for piece in self.stream.feed(&bytes) {
                        match piece {
                            Piece::Output(bytes) => self.output(&bytes, watcher)?,
                            Piece::Frame(frame) => self.frame(frame, watcher)?,
                        }
                    }
                    if self.cause == STUCK {
                        machine.kill();
                    }
                }
                Err(RecvTimeoutError::Timeout) => {
                    if self.cause != PANIC {
                        self.cause = "the guest does not answer";
                    }
                    break;
                }
                Err(RecvTimeoutError::Disconnected) => break,
            }
        }
        machine.kill();
        self.close(watcher)
    }

    fn frame(&mut self, frame: Frame, watcher: &mut dyn Watcher) -> Result<()> {
        let now = Instant::now();
        match (&self.state, frame) {
            (State::Booting, Frame::Ready) => {
                self.complaints = mem::take(&mut self.alarms);
                self.enter(State::Idle, later(now, IDLE_LIMIT));
            }
            (State::Idle, Frame::Begin(job)) if job == self.next => {
                let deadline = self.deadlines.pop_front().unwrap_or_default();
                self.began = now;
                self.alarms.clear();
                self.console_alarms.clear();
                self.last_lines.clear();
                self.enter(State::Running, later(later(now, deadline), GRACE));
            }
            (State::Running, Frame::Exited(job, status)) if job == self.next => {
                self.enter(
                    State::Ended(End::Exited(status), self.began.elapsed()),
                    later(now, IDLE_LIMIT),
                );
            }
            (State::Running, Frame::Late(job)) if job == self.next => {
                self.enter(
                    State::Ended(End::Late, self.began.elapsed()),
                    later(now, IDLE_LIMIT),
                );
            }
            (State::Ended(end, took), Frame::Done(job, left)) if job == self.next => {
                let (end, took) = (end.clone(), *took);
                if left == Left::Dirty {
                    watcher.remark(job, DIRTY.as_bytes())?;
                }
                self.finish(end, took, watcher)?;
                self.enter(State::Idle, later(now, IDLE_LIMIT));
            }
            (State::Running, Frame::Stuck(job)) if job == self.next => self.cause = STUCK,
            // A second verdict, or one for a job that does not run, makes all of them worthless.
            (state, frame) => {
                return Err(Error::new(format!(
                    "the guest says {frame:?} in state {state:?} of job {}",
                    self.next
                )));
            }
        }
        Ok(())
    }

    fn enter(&mut self, state: State, limit: Instant) {
        self.state = state;
        if self.cause != PANIC {
            self.limit = limit;
        }
    }

    fn output(&mut self, bytes: &[u8], watcher: &mut dyn Watcher) -> Result<()> {
        if self.state != State::Running {
            let lines = self.kernel.feed(bytes);
            self.alarms
                .extend(lines.into_iter().filter(|line| alarm(line).is_some()));
        }
        match self.state {
            State::Running => watcher.output(self.next, bytes),
            State::Ended(..) => watcher.remark(self.next, bytes),
            State::Booting | State::Idle => Ok(()),
        }
    }

    fn hear(&mut self, bytes: &[u8]) -> Result<()> {
        self.console_log
            .write_all(bytes)
            .context(|| "the console log".into())?;
        for line in self.console.feed(bytes) {
            let alarm = alarm(&line);
            if alarm == Some(Alarm::Panic) && self.cause != PANIC {
                self.cause = PANIC;
                self.limit = later(Instant::now(), PANIC_LIMIT);
            }
            if alarm.is_some() {
                self.console_alarms.push(line.clone());
            }
            if self.last_lines.len() == KEPT_LINES {
                self.last_lines.pop_front();
            }
            self.last_lines.push_back(line);
        }
        Ok(())
    }

    /// Ends the session of a machine that has stopped.
    fn close(&mut self, watcher: &mut dyn Watcher) -> Result<()> {
        let lines: Vec<String> = self.last_lines.drain(..).collect();
        let lines = lines.join("\n");
        let (end, took) = match mem::replace(&mut self.state, State::Idle) {
            State::Booting => {
                return Err(Error::new(format!(
                    "{} before its first job; its console:\n{lines}",
                    self.cause
                )));
            }
            State::Idle => {
                if self.cause != STOPPED {
                    self.complaints
                        .push(format!("{} between two jobs", self.cause));
                }
                self.complaints.append(&mut self.console_alarms);
                return Ok(());
            }
            State::Running => (End::Lost(self.cause.to_owned()), self.began.elapsed()),
            State::Ended(end, took) => (end, took),
        };
        watcher.remark(
            self.next,
            format!("\nvm: {}; its console:\n{lines}\n", self.cause).as_bytes(),
        )?;
        self.alarms.append(&mut self.console_alarms);
        self.finish(end, took, watcher)
    }

    fn finish(&mut self, end: End, took: Duration, watcher: &mut dyn Watcher) -> Result<()> {
        let outcome = Outcome {
            end,
            alarms: mem::take(&mut self.alarms),
            took,
        };
        self.console_alarms.clear();
        watcher.end(self.next, outcome)?;
        self.next = self.next.saturating_add(1);
        Ok(())
    }
}

fn later(time: Instant, by: Duration) -> Instant {
    time.checked_add(by).unwrap_or(time)
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::*;

    #[derive(Debug, Default)]
    struct Seen {
        ends: Vec<(usize, End, Vec<String>)>,
        output: String,
        remarks: String,
    }

    impl Watcher for Seen {
        fn output(&mut self, _task: usize, bytes: &[u8]) -> Result<()> {
            self.output.push_str(&String::from_utf8_lossy(bytes));
            Ok(())
        }

        fn remark(&mut self, _task: usize, bytes: &[u8]) -> Result<()> {
            self.remarks.push_str(&String::from_utf8_lossy(bytes));
            Ok(())
        }

        fn end(&mut self, task: usize, outcome: Outcome) -> Result<()> {
            self.ends.push((task, outcome.end, outcome.alarms));
            Ok(())
        }
    }

    fn session() -> Session {
        let task = Task {
            script: String::new(),
            deadline: Duration::from_secs(60),
            root: PathBuf::from("/"),
        };
        Session::new(
            "77",
            3,
            &[task.clone(), task],
            File::create("/dev/null").unwrap(),
        )
    }

    fn tell(session: &mut Session, seen: &mut Seen, frames: &[Frame]) -> Result<()> {
        frames
            .iter()
            .try_for_each(|frame| session.frame(*frame, seen))
    }

    const BEGUN: [Frame; 2] = [Frame::Ready, Frame::Begin(3)];

    #[test]
    fn a_job_gets_its_own_output_and_the_kernels_alarms() {
        let (mut session, mut seen) = (session(), Seen::default());
        session.output(b"dmesg of the boot\n", &mut seen).unwrap();
        tell(&mut session, &mut seen, &BEGUN).unwrap();
        session
            .output(b"ok a\nWARNING: of the job's own\n", &mut seen)
            .unwrap();
        tell(&mut session, &mut seen, &[Frame::Exited(3, 0)]).unwrap();
        session
            .output(b"[1.0] WARNING: CPU: 0\n[1.1] fine\n", &mut seen)
            .unwrap();
        tell(
            &mut session,
            &mut seen,
            &[Frame::Done(3, Left::Clean), Frame::Begin(4)],
        )
        .unwrap();
        tell(
            &mut session,
            &mut seen,
            &[Frame::Late(4), Frame::Done(4, Left::Clean)],
        )
        .unwrap();
        session.close(&mut seen).unwrap();
        let alarms = vec!["[1.0] WARNING: CPU: 0".to_owned()];
        assert_eq!(
            seen.ends,
            [(3, End::Exited(0), alarms), (4, End::Late, vec![])]
        );
        assert_eq!(seen.output, "ok a\nWARNING: of the job's own\n");
        assert_eq!(seen.remarks, "[1.0] WARNING: CPU: 0\n[1.1] fine\n");
        assert_eq!((session.next, session.complaints.len()), (5, 0));
    }

    #[test]
    fn a_second_verdict_ends_the_session() {
        for frames in [
            &[Frame::Exited(3, 0), Frame::Exited(3, 1)][..],
            &[
                Frame::Exited(3, 0),
                Frame::Done(3, Left::Clean),
                Frame::Done(3, Left::Clean),
            ],
            &[Frame::Exited(4, 0)],
            &[Frame::Begin(3)],
        ] {
            let (mut session, mut seen) = (session(), Seen::default());
            tell(&mut session, &mut seen, &BEGUN).unwrap();
            assert!(tell(&mut session, &mut seen, frames).is_err(), "{frames:?}");
        }
    }

    #[test]
    fn a_panic_is_the_running_jobs_and_the_next_guest_goes_on_after_it() {
        let (mut session, mut seen) = (session(), Seen::default());
        tell(&mut session, &mut seen, &BEGUN).unwrap();
        session
            .hear(b"[1.0] BUG: kernel NULL\n[1.1] Kernel panic - not syncing\n")
            .unwrap();
        session.close(&mut seen).unwrap();
        let [(3, End::Lost(reason), alarms)] = seen.ends.as_slice() else {
            panic!("{seen:?}")
        };
        assert_eq!((reason.as_str(), alarms.len()), ("kernel panic", 2));
        assert!(seen.remarks.contains("BUG: kernel NULL"));
        assert_eq!(session.next, 4);
    }

    #[test]
    fn trouble_outside_of_jobs_is_a_complaint() {
        let (mut session, mut seen) = (session(), Seen::default());
        session
            .output(b"[0.1] WARNING: at boot\n", &mut seen)
            .unwrap();
        tell(&mut session, &mut seen, &[Frame::Ready]).unwrap();
        session.hear(b"[1.1] Kernel panic - not syncing\n").unwrap();
        session.close(&mut seen).unwrap();
        assert_eq!(seen.ends, []);
        let said = [
            "WARNING: at boot",
            "kernel panic between two jobs",
            "Kernel panic",
        ];
        for (complaint, said) in session.complaints.iter().zip(said) {
            assert!(complaint.contains(said), "{complaint}");
        }
        assert_eq!(session.complaints.len(), said.len());
    }

    #[test]
    fn a_guest_that_does_not_come_up_says_why() {
        let (mut session, mut seen) = (session(), Seen::default());
        session.hear(b"init: cannot load 9p.ko\n").unwrap();
        let error = session.close(&mut seen).unwrap_err().to_string();
        assert!(error.contains("cannot load 9p.ko"), "{error}");
    }
}
