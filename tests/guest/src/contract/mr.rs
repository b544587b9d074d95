// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause

//! `ibv_reg_mr`, `ibv_dereg_mr`, `ibv_rereg_mr`.

use std::ffi::{c_int, c_void};
use std::ptr;

use guest::links::Device;
use guest::pair::Bench;
use guest::suite::{Stop, Suite};
use guest::verbs::{Mr, sys};

use super::table::{Row, Said, Table};
use super::works;

const LOCAL: u32 = sys::IBV_ACCESS_LOCAL_WRITE;
const PAGE: usize = 4096;

pub(super) fn add(suite: &mut Suite, device: Device) {
    Table {
        verb: "reg_mr",
        device,
        stage: Stage::set,
        rows: reg_rows,
        works: |stage: &Stage| works(&stage.bench),
    }
    .add(suite);
    Table {
        verb: "rereg_mr",
        device,
        stage: Stage::set,
        rows: |_| {
            vec![
                Row::refused("other access", IBV_REREG_MR_ERR_CMD, |stage: &Stage| {
                    rereg(stage, sys::IBV_REREG_MR_CHANGE_ACCESS)
                }),
                Row::refused(
                    "an unknown change",
                    IBV_REREG_MR_ERR_INPUT,
                    |stage: &Stage| rereg(stage, 1 << 9),
                ),
            ]
        },
        works: |stage: &Stage| works(&stage.bench),
    }
    .add(suite);
}

/// `enum ibv_rereg_mr_err_code`: the verb returns no errno.
const IBV_REREG_MR_ERR_INPUT: c_int = -1;
const IBV_REREG_MR_ERR_CMD: c_int = -4;

/// Memory, and what is not.
struct Stage {
    bench: Bench,
    mr: Mr,
    /// Two pages: one that cannot be written, and one that is not there.
    read_only: *mut c_void,
}

impl Stage {
    fn set(device: Device) -> Result<Self, Stop> {
        let bench = Bench::open(device)?;
        let mr = bench.memory(4 * PAGE)?;
        let (flags, file) = (libc::MAP_PRIVATE | libc::MAP_ANONYMOUS, -1);
        // SAFETY: a fresh mapping at an address of the kernel's choice.
        let read_only =
            unsafe { libc::mmap(ptr::null_mut(), 2 * PAGE, libc::PROT_READ, flags, file, 0) };
        assert_ne!(read_only, libc::MAP_FAILED);
        // SAFETY: the second page is ours, and nobody uses it.
        unsafe { libc::munmap(read_only.wrapping_byte_add(PAGE), PAGE) };
        Ok(Self {
            bench,
            mr,
            read_only,
        })
    }

    fn memory(&self) -> *mut c_void {
        // SAFETY: the MR is alive.
        unsafe { (*self.mr.raw()).addr }
    }

    fn reg(&self, place: *mut c_void, length: usize, access: u32) -> Said {
        // SAFETY: the PD is alive. What is registered is memory of this stage, or must be refused.
        Said::made(
            || unsafe { sys::inline::reg_mr(self.bench.pd.raw(), place, length, access) },
            sys::ibv_dereg_mr,
        )
    }
}

/// A row that registers the whole memory.
fn access(what: &'static str, flags: u32, errno: c_int) -> Row<Stage> {
    let call = move |stage: &Stage| stage.reg(stage.memory(), 4 * PAGE, flags);
    match errno {
        0 => Row::done(what, call),
        errno => Row::refused(what, errno, call),
    }
}

fn reg_rows(device: Device) -> Vec<Row<Stage>> {
    let (write, atomic) = (sys::IBV_ACCESS_REMOTE_WRITE, sys::IBV_ACCESS_REMOTE_ATOMIC);
    vec![
        access("read by the device alone", 0, 0),
        access(
            "every access",
            LOCAL | write | atomic | sys::IBV_ACCESS_REMOTE_READ,
            0,
        ),
        access("relaxed order", LOCAL | sys::IBV_ACCESS_RELAXED_ORDERING, 0),
        access("remote write without local", write, libc::EINVAL),
        access("remote atomics without local", atomic, libc::EINVAL),
        access("an unknown access", LOCAL | 1 << 15, libc::EINVAL),
        Row::done("one byte", |stage: &Stage| {
            stage.reg(stage.memory(), 1, LOCAL)
        }),
        Row::refused("no byte", libc::EINVAL, |stage: &Stage| {
            stage.reg(stage.memory(), 0, LOCAL)
        }),
        Row::refused("nothing at all", libc::EINVAL, |stage: &Stage| {
            stage.reg(ptr::null_mut(), 0, LOCAL)
        }),
        Row::refused("more than there is", libc::EFAULT, |stage: &Stage| {
            stage.reg(stage.read_only, 2 * PAGE, 0)
        }),
        Row::refused(
            "past the end of the world",
            libc::EINVAL,
            |stage: &Stage| stage.reg(stage.memory(), usize::MAX, LOCAL),
        )
        .beyond_stock(device.pick(None, Some("6.1 registers a page or two (siw_umem_get)"))),
        Row::refused("address 0", libc::EFAULT, |stage: &Stage| {
            stage.reg(ptr::null_mut(), PAGE, LOCAL)
        }),
        Row::refused(
            "write to what is read-only",
            libc::EFAULT,
            |stage: &Stage| stage.reg(stage.read_only, PAGE, LOCAL),
        ),
        Row::refused(
            "another address on another part of a page",
            libc::EINVAL,
            |stage: &Stage| {
                // SAFETY: the PD and the memory are alive.
                Said::made(
                    || unsafe {
                        sys::ibv_reg_mr_iova(stage.bench.pd.raw(), stage.memory(), PAGE, 1, 1)
                    },
                    sys::ibv_dereg_mr,
                )
            },
        ),
    ]
}

fn rereg(stage: &Stage, flags: u32) -> Said {
    let flags = c_int::try_from(flags).unwrap_or(-1);
    // SAFETY: the MR is alive.
    Said::returned(unsafe {
        sys::ibv_rereg_mr(
            stage.mr.raw(),
            flags,
            ptr::null_mut(),
            ptr::null_mut(),
            0,
            0,
        )
    })
}
