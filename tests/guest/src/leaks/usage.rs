// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause

//! What the process and its device hold at one moment.

use std::fs;

use guest::links::{Device, run};
use guest::suite::{Outcome, Stop};

/// Bytes of heap growth that are no leak, for what C libraries and malloc's own cache keep once; the
/// smallest leak per cycle, 32 bytes of malloc, is more after two hundred cycles.
const HEAP_SLACK: usize = 6144;

/// Kilobytes of resident growth that are no leak.
const RESIDENT_SLACK_KB: usize = 512;

/// What a process holds, as far as it shows.
#[derive(Debug)]
pub(crate) struct Usage {
    /// Bytes that malloc has handed out and not got back.
    heap: usize,
    /// Lines of `/proc/self/maps`, the heap's own aside.
    mappings: usize,
    /// Open file descriptors.
    descriptors: usize,
    /// Resident memory in kilobytes.
    resident_kb: usize,
}

impl Usage {
    /// Looks now.
    pub(crate) fn now() -> Result<Self, Stop> {
        // SAFETY: mallinfo2 reads the state of malloc under malloc's own locks.
        let heap = unsafe { libc::mallinfo2() };
        let maps = fs::read_to_string("/proc/self/maps")?;
        let status = fs::read_to_string("/proc/self/status")?;
        let resident = status
            .lines()
            .find_map(|line| line.strip_prefix("VmRSS:"))
            .and_then(|rest| rest.split_whitespace().next())
            .unwrap_or_default();
        Ok(Self {
            heap: heap.uordblks + heap.hblkhd,
            mappings: maps
                .lines()
                .filter(|line| !line.ends_with("[heap]"))
                .count(),
            descriptors: fs::read_dir("/proc/self/fd")?.count(),
            resident_kb: resident.parse()?,
        })
    }

    /// Checks that nothing has been left since `self`.
    pub(crate) fn assert_flat(&self, after: &Self) {
        self.assert_flat_but_for(after, HEAP_SLACK);
    }

    /// As [`Self::assert_flat`], but `heap_slack` bytes are no leak: what has been allocated in
    /// another order each time, malloc keeps for the next time.
    pub(crate) fn assert_flat_but_for(&self, after: &Self, heap_slack: usize) {
        assert_eq!(after.descriptors, self.descriptors, "descriptors");
        assert_eq!(after.mappings, self.mappings, "mappings");
        let heap = after.heap.saturating_sub(self.heap);
        assert!(heap <= heap_slack, "the heap grew by {heap} bytes");
        let resident = after.resident_kb.saturating_sub(self.resident_kb);
        assert!(
            resident <= RESIDENT_SLACK_KB,
            "resident memory grew by {resident} kB"
        );
    }
}

/// The counts of `rdma resource show` for `device`: `pd 1 cq 0 …`.
///
/// Nobody else uses the device, and what the kernel keeps for itself does not change.
pub(crate) fn resources(device: Device) -> Result<String, Stop> {
    let shown = run(&format!("rdma resource show {}", device.ibdev()))?;
    let counts = shown
        .split_once(": ")
        .and_then(|(_, rest)| rest.split_once(": "));
    counts
        .map(|(_, counts)| counts.trim().to_owned())
        .ok_or_else(|| Stop::Fail(format!("rdma resource show: {shown}")))
}

/// Runs `body` and checks that the device holds afterwards what it held before.
pub(crate) fn returns_resources(device: Device, body: impl FnOnce() -> Outcome) -> Outcome {
    let before = resources(device)?;
    body()?;
    assert_eq!(resources(device)?, before, "rdma resource show");
    Ok(())
}
