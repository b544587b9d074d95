// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
//! The machine: QEMU's command line and its process.
//!
//! Only ever emulated (TCG), so that it runs alike wherever Linux does: on a machine without nested
//! virtualisation `/dev/kvm` may exist and still hang.

use std::io::{self, Read};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;

use crate::error::{Context, Error, Result};
use crate::process::tied;

/// What arrives from a machine.
#[derive(Debug)]
pub(crate) enum Received {
    /// Bytes of the result stream.
    Results(Vec<u8>),
    /// Bytes of the console; also QEMU's own complaints.
    Console(Vec<u8>),
}

/// A running machine; it is stopped when dropped.
#[derive(Debug)]
pub(crate) struct Machine {
    process: Child,
    /// Ends when the machine has stopped and all it said has been received.
    pub(crate) received: Receiver<Received>,
}

/// Prepares the command that boots `image` with `initramfs`; the guest sees `/` and the directory
/// `boot`.
pub(crate) fn command(image: &Path, initramfs: &Path, boot: &Path) -> Command {
    let mut qemu = tied("qemu-system-x86_64", libc::SIGKILL);
    qemu.args([
        "-accel",
        "tcg,thread=multi",
        "-cpu",
        "max",
        "-smp",
        "2",
        "-m",
        "2048",
    ]);
    qemu.args([
        "-nodefaults",
        "-no-user-config",
        "-display",
        "none",
        "-no-reboot",
    ]);
    qemu.arg("-kernel").arg(image).arg("-initrd").arg(initramfs);
    // An oops leaves locks held and the next jobs hanging: it ends the boot like a panic.
    //
    // One processor boots, and the agent starts the other one: QEMU before 8.1 may run kernel code in the middle of its
    // replacement ("Oops: int3"; its commit deba78709ae8 is the repair), of which there is much at boot. It would replace
    // more code if it found the TSC unreliable, which is QEMU's own and the same on both.
    let parameters = "console=ttyS0 loglevel=5 panic=-1 oops=panic mitigations=off random.trust_cpu=on no_timer_check \
         maxcpus=1 tsc=reliable";
    qemu.args(["-append", parameters]);
    // Results have a port of their own, so that no kernel message can split a verdict.
    qemu.args([
        "-chardev",
        "file,id=console,path=/dev/stderr",
        "-serial",
        "chardev:console",
    ]);
    qemu.args([
        "-device",
        "virtio-serial-pci",
        "-chardev",
        "file,id=results,path=/dev/stdout",
    ]);
    qemu.args(["-device", "virtserialport,chardev=results,name=results"]);
    for (tag, directory) in [("root", Path::new("/")), ("boot", boot)] {
        // QEMU writes a comma within an option twice.
        let path = directory.to_string_lossy().replace(',', ",,");
        let share =
            format!("local,id={tag},path={path},security_model=none,readonly=on,multidevs=remap");
        qemu.arg("-fsdev").arg(share);
        qemu.arg("-device")
            .arg(format!("virtio-9p-pci,fsdev={tag},mount_tag={tag}"));
    }
    qemu.stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    qemu
}

/// Writes a command as a line that a shell understands.
pub(crate) fn shell_line(command: &Command) -> String {
    let words = std::iter::once(command.get_program()).chain(command.get_args());
    words
        .map(|word| quoted(&word.to_string_lossy()))
        .collect::<Vec<_>>()
        .join(" ")
}

/// Quotes a word for a shell, where it needs that.
pub(crate) fn quoted(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./,=:+@".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        return word.to_owned();
    }
    format!("'{}'", word.replace('\'', r"'\''"))
}

impl Machine {
    pub(crate) fn start(mut command: Command) -> Result<Self> {
        let mut process = command.spawn().context(|| "qemu-system-x86_64".into())?;
        let (sender, received) = channel();
        let missing = || Error::new("QEMU without a pipe");
        let results = process.stdout.take().ok_or_else(missing)?;
        let console = process.stderr.take().ok_or_else(missing)?;
        let to_console = sender.clone();
        thread::spawn(move || pump(results, &sender, Received::Results));
        thread::spawn(move || pump(console, &to_console, Received::Console));
        Ok(Self { process, received })
    }

    /// Stops the machine at once.
    pub(crate) fn kill(&mut self) {
        // It may have stopped by itself.
        self.process.kill().ok();
    }
}

impl Drop for Machine {
    fn drop(&mut self) {
        self.kill();
        self.process.wait().ok();
    }
}

fn pump(mut from: impl Read, to: &Sender<Received>, kind: fn(Vec<u8>) -> Received) {
    let mut buffer = [0; 16 * 1024];
    loop {
        let count = match from.read(&mut buffer) {
            Ok(0) => return,
            Ok(count) => count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(_) => return,
        };
        let bytes = buffer.get(..count).unwrap_or_default().to_vec();
        if to.send(kind(bytes)).is_err() {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_directory_with_a_comma_stays_one() {
        let command = command(Path::new("/k"), Path::new("/i"), Path::new("/a,b"));
        assert!(shell_line(&command).contains("path=/a,,b,security_model"));
    }

    #[test]
    fn words_are_quoted_for_the_shell() {
        assert_eq!(quoted("a-b"), "a-b");
        assert_eq!(quoted(""), "''");
        assert_eq!(quoted("it's $x"), r"'it'\''s $x'");
    }
}
