// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
//! Writes the cpio archive that the kernel unpacks as its first root file system.
//!
//! The format is "newc" of the kernel's Documentation/driver-api/early-userspace/buffer-format.rst:
//! a header of thirteen eight-digit hexadecimal fields, the name, the data; each part padded to
//! four bytes.

const REGULAR: u32 = 0o100_000;
const DIRECTORY: u32 = 0o040_000;
const SYMLINK: u32 = 0o120_000;

/// An archive under construction; parents must be added before what they contain.
#[derive(Debug, Default)]
pub(crate) struct Archive {
    bytes: Vec<u8>,
    entries: u32,
}

impl Archive {
    pub(crate) fn directory(&mut self, path: &str) {
        self.entry(path, DIRECTORY | 0o755, &[]);
    }

    /// Adds a file that its owner, root, may run.
    pub(crate) fn program(&mut self, path: &str, data: &[u8]) {
        self.entry(path, REGULAR | 0o755, data);
    }

    pub(crate) fn symlink(&mut self, path: &str, target: &str) {
        self.entry(path, SYMLINK | 0o777, target.as_bytes());
    }

    /// Ends the archive and returns its bytes.
    pub(crate) fn finish(mut self) -> Vec<u8> {
        self.entry("TRAILER!!!", 0, &[]);
        self.bytes
    }

    fn entry(&mut self, path: &str, mode: u32, data: &[u8]) {
        self.entries = self.entries.wrapping_add(1);
        let inode = self.entries;
        // The format ends at 4 GiB a file; `as` would let a longer one pass unseen.
        let size = u32::try_from(data.len()).unwrap_or(u32::MAX);
        let name_size = u32::try_from(path.len().saturating_add(1)).unwrap_or(u32::MAX);
        let (uid, gid, links, mtime, device, check) = (0, 0, 1, 0, 0, 0);
        self.bytes.extend_from_slice(b"070701");
        for field in [
            inode, mode, uid, gid, links, mtime, size, device, device, device, device, name_size,
            check,
        ] {
            self.bytes
                .extend_from_slice(format!("{field:08x}").as_bytes());
        }
        self.bytes.extend_from_slice(path.as_bytes());
        self.bytes.push(0);
        self.pad();
        self.bytes.extend_from_slice(data);
        self.pad();
    }

    fn pad(&mut self) {
        self.bytes.resize(self.bytes.len().next_multiple_of(4), 0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_have_the_header_of_the_format_and_are_padded() {
        let mut archive = Archive::default();
        archive.directory("bin");
        archive.program("bin/x", b"hello");
        archive.symlink("bin/sh", "x");
        let bytes = archive.finish();
        assert_eq!(bytes.len() % 4, 0);
        let text = String::from_utf8(bytes).unwrap();
        // magic, inode, mode, uid, gid, nlink, mtime, file size, four device numbers, name size,
        // check
        let zero = "00000000";
        let file = format!(
            "070701{}{}{zero}{zero}{}{zero}{}{zero}{zero}{zero}{zero}{}{zero}bin/x\0hello\0\0\0",
            "00000002", "000081ed", "00000001", "00000005", "00000006"
        );
        assert_eq!(text.find(&file), Some(116));
        assert!(text.contains("bin/sh\0\0\0\0x\0\0\x00070701"));
        assert!(text.ends_with("TRAILER!!!\0\0\0\0"));
    }
}
