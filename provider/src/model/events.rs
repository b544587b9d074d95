// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause

//! The kernel's asynchronous events: a pipe in place of the context's event file.

use std::collections::BTreeMap;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};

use kernel_abi::uverbs::AsyncEventDesc;
use rdma_core_sys::ibv_event_type;
use zerocopy::IntoBytes;

/// Both ends of the file, which never blocks.
pub(super) struct Events {
    reader: OwnedFd,
    writer: OwnedFd,
    /// How many were raised for each object.
    raised: BTreeMap<u64, u32>,
}

impl Events {
    pub(super) fn new() -> Self {
        let mut ends = [0; 2];
        // SAFETY: room for the two.
        let made = unsafe { libc::pipe2(ends.as_mut_ptr(), libc::O_NONBLOCK | libc::O_CLOEXEC) };
        assert_eq!(made, 0, "{}", std::io::Error::last_os_error());
        // SAFETY: just opened.
        let [reader, writer] = ends.map(|fd| unsafe { OwnedFd::from_raw_fd(fd) });
        Self {
            reader,
            writer,
            raised: BTreeMap::new(),
        }
    }

    /// What the context has as its `async_fd`.
    pub(super) fn fd(&self) -> RawFd {
        self.reader.as_raw_fd()
    }

    /// Raises an event for the object that the user calls `element`.
    pub(super) fn raise(&mut self, element: u64, event_type: ibv_event_type) {
        *self.raised.entry(element).or_default() += 1;
        self.write(AsyncEventDesc {
            element,
            event_type,
            reserved: 0,
        });
    }

    /// The next unread event.
    pub(super) fn read(fd: RawFd) -> Option<AsyncEventDesc> {
        let mut desc = AsyncEventDesc::default();
        let room = desc.as_mut_bytes();
        // SAFETY: as much room as the length says.
        let got = unsafe { libc::read(fd, room.as_mut_ptr().cast(), room.len()) };
        (usize::try_from(got) == Ok(size_of_val(&desc))).then_some(desc)
    }

    /// An object is destroyed: its unread events go with it (linux 6.1 `core/uverbs_main.c:
    /// ib_uverbs_release_uevent`). How many were read, which the user has to have acknowledged.
    pub(super) fn withdraw(&mut self, element: u64) -> u32 {
        let unread: Vec<_> = std::iter::from_fn(|| Self::read(self.fd())).collect();
        let mut reported = self.raised.remove(&element).unwrap_or_default();
        for desc in unread {
            if desc.element == element {
                reported -= 1;
            } else {
                self.write(desc);
            }
        }
        reported
    }

    fn write(&self, desc: AsyncEventDesc) {
        let bytes = desc.as_bytes();
        // SAFETY: as many bytes as the length says.
        let put =
            unsafe { libc::write(self.writer.as_raw_fd(), bytes.as_ptr().cast(), bytes.len()) };
        assert_eq!(usize::try_from(put), Ok(bytes.len()), "too many events");
    }
}
