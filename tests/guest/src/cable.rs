// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause

//! A cable that can be cut: a veth pair between the network namespaces of two processes, with a siw device
//! at each end.
//!
//! siw takes its sockets from the process that calls, whose namespace they are then in (linux 6.1, 6.12
//! `siw_cm.c: siw_connect, siw_create_listen`), and looks at no namespace itself. Its devices are seen in all
//! of them, which is what rdma-system(8) calls shared.

use std::fs;
use std::io::{self, Write};
use std::net::Ipv4Addr;
use std::process::{Command, Stdio};

use crate::links::{Device, IMPATIENT, RETRIES, run};

/// The cable, as the process at its near end holds it.
///
/// It goes with that process, and both devices with it: the kernel removes a siw device only when nobody has
/// it open any more (linux 6.1, 6.12 `uverbs_main.c: ib_uverbs_remove_one`), and librdmacm never closes one.
#[derive(Debug)]
pub struct Cable {
    far: libc::pid_t,
}

/// What both interfaces are called, each in its own namespace.
const NETDEV: &str = "cable";

/// Length of the prefix of the addresses.
const PREFIX: u8 = 25;

/// Gives this process, and those that it forks, an empty network namespace.
///
/// # Errors
///
/// The errno of unshare(2).
pub fn isolate() -> io::Result<()> {
    // SAFETY: the call touches no memory of ours.
    match unsafe { libc::unshare(libc::CLONE_NEWNET) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

impl Cable {
    /// The address of the near end; the far one has that which cases connect to.
    pub const NEAR: Ipv4Addr = Ipv4Addr::new(203, 0, 113, 130);

    /// Lays it from this process to the process `far`; both are isolated.
    ///
    /// # Errors
    ///
    /// The message of the first `ip` or `rdma` command that failed.
    pub fn lay(far: libc::pid_t) -> io::Result<Self> {
        let cable = Self { far };
        let up = |address: Ipv4Addr| {
            format!("address add {address}/{PREFIX} dev {NETDEV}\nlink set {NETDEV} up\n")
        };
        let pair = format!("link add {NETDEV} type veth peer name {NETDEV} netns {far}\n");
        // Process after process takes its time in an emulated machine.
        batch("ip -batch -", &(pair + &up(Self::NEAR)))?;
        batch(&cable.there("ip -batch -"), &up(Device::Siw.address()))?;
        let link = |end| format!("rdma link add siw_{end}_{far} type siw netdev {NETDEV}");
        run(&link("near"))?;
        run(&cable.there(&link("far")))?;
        Ok(cable)
    }

    /// Cuts it: every packet is lost, in both directions, and the interfaces stay up. TCP gives up after
    /// some seconds at the near end.
    ///
    /// # Errors
    ///
    /// The message of `tc`, or that TCP cannot be made impatient.
    pub fn cut(&self) -> io::Result<()> {
        fs::write(RETRIES, IMPATIENT)?;
        let lose = format!("tc qdisc add dev {NETDEV} root netem loss 100%");
        run(&lose)?;
        run(&self.there(&lose)).map(drop)
    }

    /// The command, in the other namespace.
    fn there(&self, command: &str) -> String {
        format!("nsenter --net=/proc/{}/ns/net {command}", self.far)
    }
}

/// Runs a command that reads `script`.
fn batch(command: &str, script: &str) -> io::Result<()> {
    let mut words = command.split_whitespace();
    let mut child = Command::new(words.next().unwrap_or_default())
        .args(words)
        .stdin(Stdio::piped())
        .spawn()?;
    if let Some(mut stdin) = child.stdin.take() {
        stdin.write_all(script.as_bytes())?;
    }
    if child.wait()?.success() {
        return Ok(());
    }
    Err(io::Error::other(format!("{command} < {script:?} failed")))
}
