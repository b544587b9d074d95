// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause

//! What a verb that fails must leave as it was.

use std::fs;

use guest::links::{Device, run};
use guest::suite::Stop;

/// What the device and the process hold.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Holdings {
    /// What `rdma resource show` says of the device.
    resources: String,
    /// Mappings of uverbs files.
    rings: usize,
    /// Open file descriptors.
    descriptors: usize,
    /// Bytes that malloc has handed out.
    heap: usize,
}

impl Holdings {
    /// Calls `verb` and checks that it leaves the holdings as they were.
    pub(super) fn kept_by<T>(device: Device, verb: impl FnOnce() -> T) -> Result<T, Stop> {
        let mut before = Self::now(device)?;
        // What has just been looked at is on the heap itself.
        before.heap = heap();
        let returned = verb();
        let heap = heap();
        let after = Self {
            heap,
            ..Self::now(device)?
        };
        assert_eq!(after, before, "held after the verb and before");
        Ok(returned)
    }

    fn now(device: Device) -> Result<Self, Stop> {
        Ok(Self {
            resources: run(&format!("rdma resource show {}", device.ibdev()))?,
            rings: fs::read_to_string("/proc/self/maps")?
                .lines()
                .filter(|line| line.contains("/dev/infiniband/uverbs"))
                .count(),
            descriptors: fs::read_dir("/proc/self/fd")?.count(),
            heap: 0,
        })
    }
}

fn heap() -> usize {
    // SAFETY: mallinfo2 reads the state of malloc under malloc's own locks.
    let info = unsafe { libc::mallinfo2() };
    info.uordblks + info.hblkhd
}
