// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause

//! The devices under test: one rxe and one siw link, each on a dummy interface of its own.

use std::fmt;
use std::fs::{self, File};
use std::io;
use std::net::Ipv4Addr;
use std::path::Path;
use std::process::{Child, Command};

/// Exists once a case has disturbed the network or the links: they need a look only then, and that
/// takes a second and more in an emulated machine.
const DISTURBED: &str = "/run/guest-disturbed";

/// The driver that a case runs on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Device {
    /// Soft-RoCE, `rdma_rxe`.
    Rxe,
    /// Soft-iWARP, `siw`.
    Siw,
}

impl Device {
    /// Both drivers.
    pub const ALL: [Self; 2] = [Self::Rxe, Self::Siw];

    /// Name of the RDMA device that [`Links`] creates.
    #[must_use]
    pub fn ibdev(self) -> &'static str {
        self.pick("rxe_t", "siw_t")
    }

    /// Name of the network interface below it.
    #[must_use]
    pub fn netdev(self) -> &'static str {
        self.pick("lw_rxe", "lw_siw")
    }

    /// Address of that interface, from TEST-NET-3 (RFC 5737); the prefix is 25 bits long.
    #[must_use]
    pub fn address(self) -> Ipv4Addr {
        self.pick(
            Ipv4Addr::new(203, 0, 113, 1),
            Ipv4Addr::new(203, 0, 113, 129),
        )
    }

    /// One of two values, by driver.
    #[must_use]
    pub fn pick<T>(self, rxe: T, siw: T) -> T {
        match self {
            Self::Rxe => rxe,
            Self::Siw => siw,
        }
    }

    /// Name of the file of the stock provider, up to the ABI number.
    #[must_use]
    pub fn stock_provider(self) -> &'static str {
        self.pick("librxe-rdmav", "libsiw-rdmav")
    }
}

impl fmt::Display for Device {
    /// Writes the link type, as `rdma link add … type` wants it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.pick("rxe", "siw"))
    }
}

/// The links of both devices; dropping it removes them.
///
/// The runner's parent process holds it, so that no case, however it ends, can leave them behind.
#[derive(Debug)]
pub struct Links(());

impl Links {
    /// Creates the interfaces and the links, after removing what a killed run may have left.
    ///
    /// # Errors
    ///
    /// The message of the first `ip` or `rdma` command that failed.
    pub fn create() -> io::Result<Self> {
        for device in Device::ALL {
            // Fails when there is nothing to remove, which is the usual case.
            drop(run(&format!("ip link delete {}", device.netdev())));
        }
        let links = Self(());
        for device in Device::ALL {
            let (netdev, address) = (device.netdev(), device.address());
            run(&format!("ip link add {netdev} type dummy"))?;
            run(&format!("ip address add {address}/25 dev {netdev}"))?;
            set_up(device)?;
            add(device)?;
        }
        Ok(links)
    }
}

impl Drop for Links {
    fn drop(&mut self) {
        for device in Device::ALL {
            // Removing the interface removes the RDMA link with it.
            if let Err(error) = run(&format!("ip link delete {}", device.netdev())) {
                eprintln!("guest: {error}");
            }
        }
    }
}

/// Adds the RDMA link of `device` to its interface.
///
/// # Errors
///
/// The message of `rdma`.
pub fn add(device: Device) -> io::Result<()> {
    let (netdev, ibdev) = (device.netdev(), device.ibdev());
    let command = format!("rdma link add {ibdev} type {device} netdev {netdev}");
    run(&command).map(drop)
}

/// Begins to delete the RDMA link of `device`, which waits for those who use it.
///
/// # Errors
///
/// That `rdma` could not be started.
pub fn delete(device: Device) -> io::Result<Child> {
    File::create(DISTURBED)?;
    Command::new("rdma")
        .args(["link", "delete", device.ibdev()])
        .spawn()
}

/// A network that loses every packet, or takes its time, until this is dropped.
///
/// It holds up siw's TCP connections, which go over `lo`. Packets between two QPs of one rxe device
/// never leave the driver.
#[derive(Debug)]
pub struct Stall(());

impl Stall {
    /// Begins to lose packets.
    ///
    /// # Errors
    ///
    /// The message of `tc`.
    pub fn begin() -> io::Result<Self> {
        Self::disturb("loss 100%")
    }

    /// Begins to let only a megabyte pass per second.
    ///
    /// # Errors
    ///
    /// The message of `tc`.
    pub fn slow() -> io::Result<Self> {
        Self::disturb("rate 8mbit")
    }

    fn disturb(how: &str) -> io::Result<Self> {
        File::create(DISTURBED)?;
        run(&format!("tc qdisc replace dev lo root netem {how}")).map(|_| Self(()))
    }
}

impl Drop for Stall {
    fn drop(&mut self) {
        if let Err(error) = run("tc qdisc delete dev lo root") {
            eprintln!("guest: {error}");
        }
    }
}

/// How often TCP tries before it gives a connection up, in the network namespace of who asks.
pub(crate) const RETRIES: &str = "/proc/sys/net/ipv4/tcp_retries2";

/// What [`RETRIES`] is unless somebody changes it: a quarter of an hour.
const PATIENT: &str = "15";

/// Some seconds.
pub(crate) const IMPATIENT: &str = "3";

/// A cut cable: the network is stalled, and TCP gives up after some seconds.
#[derive(Debug)]
pub struct Cut(Stall);

impl Cut {
    /// Cuts it.
    ///
    /// # Errors
    ///
    /// As [`Stall::begin`], or that TCP cannot be made impatient.
    pub fn begin() -> io::Result<Self> {
        let stall = Stall::begin()?;
        fs::write(RETRIES, IMPATIENT)?;
        Ok(Self(stall))
    }
}

impl Drop for Cut {
    fn drop(&mut self) {
        if let Err(error) = fs::write(RETRIES, PATIENT) {
            eprintln!("guest: {error}");
        }
    }
}

/// Makes everything again what cases expect, whatever one that failed has left.
pub fn restore() {
    if fs::remove_file(DISTURBED).is_err() {
        return;
    }
    // Fails if the network was not disturbed, which is the usual case.
    drop(run("tc qdisc delete dev lo root"));
    drop(fs::write(RETRIES, PATIENT));
    for device in Device::ALL {
        let restored = set_up(device).and_then(|()| {
            if Path::new("/sys/class/infiniband")
                .join(device.ibdev())
                .exists()
            {
                return Ok(());
            }
            add(device)
        });
        if let Err(error) = restored {
            eprintln!("guest: {error}");
        }
    }
}

/// Brings the interface of `device` up.
///
/// # Errors
///
/// The message of `ip`.
pub fn set_up(device: Device) -> io::Result<()> {
    run(&format!("ip link set {} up", device.netdev())).map(drop)
}

/// Takes the interface of `device` down.
///
/// # Errors
///
/// The message of `ip`.
pub fn set_down(device: Device) -> io::Result<()> {
    File::create(DISTURBED)?;
    run(&format!("ip link set {} down", device.netdev())).map(drop)
}

/// Runs a command, given as words between spaces, and returns what it printed.
///
/// # Errors
///
/// That it could not be started, or what it wrote to stderr when it failed.
pub fn run(command: &str) -> io::Result<String> {
    let mut words = command.split_whitespace();
    let output = Command::new(words.next().unwrap_or_default())
        .args(words)
        .output()
        .map_err(|error| io::Error::new(error.kind(), format!("{command}: {error}")))?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    let complaint = String::from_utf8_lossy(&output.stderr);
    Err(io::Error::other(format!("{command}: {}", complaint.trim())))
}
