// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause

//! A connection whose other end is in another process, which can be killed.

use std::fs::File;
use std::io::{self, Write};
use std::os::fd::OwnedFd;
use std::time::Duration;

use crate::links::Device;
use crate::pair::{Bench, Retry, await_established};
use crate::process::{Process, pipe, read_line};
use crate::suite::{Outcome, Stop};
use crate::verbs::{Qp, QpInit, Remote};

/// How long the other process may take to answer.
const PATIENCE: Duration = Duration::from_secs(20);

/// Exit status of a peer that has failed.
const FAILED: i32 = 1;

/// The other process, as this one sees it.
///
/// Dropping it kills it. The two talk in lines.
#[derive(Debug)]
pub struct Peer {
    device: Device,
    process: Process,
    to: File,
}

/// The other process, as it sees itself.
#[derive(Debug)]
pub struct Seat {
    device: Device,
    from: File,
}

impl Peer {
    /// Forks a process that runs `body` and then exits.
    ///
    /// The caller must have one thread only, and no device open: a copy of its descriptors would
    /// keep its objects alive.
    ///
    /// # Errors
    ///
    /// As [`Process::fork`].
    pub fn fork(device: Device, body: impl FnOnce(&mut Seat) -> Outcome) -> Result<Self, Stop> {
        let (from, to) = pipe()?;
        let process = Process::fork(|| run(device, from, body))?;
        Ok(Self {
            device,
            process,
            to: File::from(to),
        })
    }

    /// The process.
    #[must_use]
    pub fn pid(&self) -> libc::pid_t {
        self.process.pid()
    }

    /// The next line that the other process says.
    ///
    /// # Errors
    ///
    /// `TimedOut`, or that it has ended, or that it has panicked.
    pub fn hear(&mut self) -> io::Result<String> {
        let line = self.process.read_line(PATIENCE)?;
        if line.starts_with("not ok ") {
            return Err(io::Error::other(format!("the peer says: {line}")));
        }
        Ok(line)
    }

    /// Says a line to the other process.
    ///
    /// # Errors
    ///
    /// The errno of write(2).
    pub fn say(&mut self, line: &str) -> io::Result<()> {
        writeln!(self.to, "{line}")
    }

    /// Connects a new QP to that of the other process, which must be in [`Seat::connect`].
    ///
    /// # Errors
    ///
    /// A failure of any verb, or of the other process.
    pub fn connect(&mut self, bench: &Bench, init: &QpInit, retry: Retry) -> Result<Qp, Stop> {
        let number = self.hear()?;
        match self.device {
            Device::Rxe => {
                let qp = Qp::create(&bench.pd, init)?;
                self.say(&qp.number().to_string())?;
                bench.bring_up(&qp, number.parse()?, retry)?;
                Ok(qp)
            }
            Device::Siw => {
                let qp = bench.request(number.parse()?, init, |_| Ok(()))?;
                await_established(&qp)?;
                Ok(qp)
            }
        }
    }

    /// The memory that the other process offers, which must be in [`Seat::offer`].
    ///
    /// # Errors
    ///
    /// As [`Self::hear`], or that the line is no such offer.
    pub fn remote(&mut self) -> Result<Remote, Stop> {
        let line = self.hear()?;
        let (address, rkey) = line
            .split_once(' ')
            .ok_or_else(|| Stop::Fail(format!("no offer of memory: {line}")))?;
        Ok(Remote {
            address: address.parse()?,
            rkey: rkey.parse()?,
        })
    }

    /// Kills the process with SIGKILL, and waits until the kernel has closed all that it had.
    ///
    /// # Errors
    ///
    /// `TimedOut`.
    pub fn kill(self) -> io::Result<()> {
        self.process.kill();
        match self.process.wait(PATIENCE)? {
            Some(_) => Ok(()),
            None => Err(io::Error::new(
                io::ErrorKind::TimedOut,
                "the killed peer does not die",
            )),
        }
    }
}

impl Seat {
    /// Says a line to the process that has forked this one.
    ///
    /// # Errors
    ///
    /// The errno of write(2).
    pub fn say(&self, line: &str) -> io::Result<()> {
        writeln!(io::stdout(), "{line}")
    }

    /// The next line that the other process says; none if it has gone.
    ///
    /// # Errors
    ///
    /// As [`read_line`].
    pub fn hear(&mut self) -> io::Result<String> {
        read_line(&mut self.from, PATIENCE)
    }

    /// Creates a QP and connects it to that of the other process, which must be in
    /// [`Peer::connect`].
    ///
    /// # Errors
    ///
    /// A failure of any verb, or of the other process.
    pub fn connect(&mut self, bench: &Bench, init: &QpInit) -> Result<Qp, Stop> {
        match self.device {
            Device::Rxe => {
                let qp = Qp::create(&bench.pd, init)?;
                self.say(&qp.number().to_string())?;
                let number = self.hear()?.parse()?;
                bench.bring_up(&qp, number, Retry::PATIENT)?;
                Ok(qp)
            }
            Device::Siw => {
                let (listener, port) = bench.listen()?;
                self.say(&port.to_string())?;
                bench.accept(&listener, init)
            }
        }
    }

    /// Offers memory to [`Peer::remote`].
    ///
    /// # Errors
    ///
    /// As [`Self::say`].
    pub fn offer(&self, remote: Remote) -> io::Result<()> {
        self.say(&format!("{} {}", remote.address, remote.rkey))
    }

    /// Waits until it is killed.
    pub fn rest(&self) -> ! {
        loop {
            // SAFETY: pause(2) touches no memory.
            unsafe { libc::pause() };
        }
    }
}

/// The other process' life.
fn run(device: Device, from: OwnedFd, body: impl FnOnce(&mut Seat) -> Outcome) -> i32 {
    let mut seat = Seat {
        device,
        from: File::from(from),
    };
    match body(&mut seat) {
        Ok(()) => 0,
        Err(stop) => {
            eprintln!("guest: the peer: {stop:?}");
            FAILED
        }
    }
}
