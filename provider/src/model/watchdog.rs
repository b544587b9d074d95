// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause

//! A verb that never returns.

use std::process::abort;
use std::sync::Arc;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread;
use std::time::Duration;

use super::calls::Device;

/// A thousand times what a case takes.
const PATIENCE: Duration = Duration::from_secs(30);

/// Ends the process with the device's log, unless it is dropped in time.
pub(super) struct Watchdog {
    _alive: Sender<()>,
}

impl Watchdog {
    pub(super) fn new(device: &Device) -> Self {
        let (alive, gone) = channel();
        let device = Arc::clone(device);
        thread::spawn(move || {
            if gone.recv_timeout(PATIENCE) == Err(RecvTimeoutError::Timeout) {
                bark(&device);
            }
        });
        Self { _alive: alive }
    }
}

#[expect(clippy::print_stderr, reason = "the last thing that the process does")]
fn bark(device: &Device) {
    // Whoever hangs may hold it.
    let log = device.try_lock().map(|kernel| kernel.core.log.join("\n"));
    eprintln!("a verb hangs:\n{}", log.unwrap_or_default());
    abort();
}
