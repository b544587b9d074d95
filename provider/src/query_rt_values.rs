// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause

//! `ibv_query_rt_values_ex`, and the clock that completion timestamps are read from.
//!
//! Neither device has a clock of its own, and no CQE carries a time. The *device's clock* is therefore
//! `CLOCK_MONOTONIC` in nanoseconds, as `ibv_query_device_ex` says: 10⁶ kHz, 64 bits. It is read through
//! the vDSO, without a system call where the kernel's clock source allows it.

use std::ffi::c_int;
use std::mem::offset_of;

use rdma_core_sys::{IBV_VALUES_MASK_RAW_CLOCK, ibv_context, ibv_device_attr_ex, ibv_values_ex};

use crate::boundary::status;
use crate::errno::Errno;

/// `ibv_device_attr_ex.hca_core_clock`, in kHz.
const KHZ: u64 = 1_000_000;
/// `ibv_device_attr_ex.completion_timestamp_mask`: all bits of a timestamp count.
const ALL_BITS: u64 = u64::MAX;

/// The device's clock, in nanoseconds.
pub(crate) fn raw_clock() -> u64 {
    nanoseconds(libc::CLOCK_MONOTONIC)
}

/// The time of day, in nanoseconds since the epoch.
pub(crate) fn wallclock() -> u64 {
    nanoseconds(libc::CLOCK_REALTIME)
}

fn nanoseconds(clock: libc::clockid_t) -> u64 {
    let mut now = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: room for the time. These two clocks are always there.
    unsafe { libc::clock_gettime(clock, &raw mut now) };
    now.tv_sec
        .unsigned_abs()
        .wrapping_mul(1_000_000_000)
        .wrapping_add(now.tv_nsec.unsigned_abs())
}

/// `ibv_query_rt_values_ex`(3).
///
/// The clock is all in `tv_nsec`, and `tv_sec` is 0: programs read it there, as a number that is compared
/// with timestamps (rdma-core v44.0 `providers/mlx5/verbs.c: mlx5_query_rt_values`). Whatever else is asked
/// for is not answered, and taken out of `comp_mask`.
///
/// # Safety
///
/// As the man page asks.
pub(crate) unsafe extern "C" fn query_rt_values(
    _context: *mut ibv_context,
    values: *mut ibv_values_ex,
) -> c_int {
    status(|| {
        // SAFETY: NULL or the caller's.
        let values = unsafe { values.as_mut() }.ok_or(Errno::EINVAL)?;
        values.comp_mask &= IBV_VALUES_MASK_RAW_CLOCK;
        if values.comp_mask != 0 {
            values.raw_clock.tv_sec = 0;
            values.raw_clock.tv_nsec = raw_clock().try_into().map_err(|_| Errno::EIO)?;
        }
        Ok(())
    })
}

/// Says in a device's attributes what its clock is, as far as their size reaches.
///
/// # Safety
///
/// `attributes` are attributes of `size` bytes that were filled in.
pub(crate) unsafe fn describe_clock(attributes: *mut ibv_device_attr_ex, size: usize) {
    // The younger of the two stands behind the other.
    const END: usize = offset_of!(ibv_device_attr_ex, hca_core_clock) + size_of::<u64>();
    if size >= END {
        // SAFETY: inside the caller's attributes.
        unsafe {
            (&raw mut (*attributes).completion_timestamp_mask).write(ALL_BITS);
            (&raw mut (*attributes).hca_core_clock).write(KHZ);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_clock_goes_on_and_is_the_one_that_is_answered() {
        let before = raw_clock();
        let mut values = ibv_values_ex {
            comp_mask: u32::MAX,
            ..Default::default()
        };
        // SAFETY: the values are a local; the context is not looked at.
        let answer = unsafe { query_rt_values(std::ptr::null_mut(), &raw mut values) };
        let after = raw_clock();
        assert_eq!((answer, values.comp_mask), (0, IBV_VALUES_MASK_RAW_CLOCK));
        assert_eq!(values.raw_clock.tv_sec, 0);
        let said = values.raw_clock.tv_nsec.unsigned_abs();
        assert!(before <= said && said <= after);
    }

    #[test]
    fn attributes_of_an_older_size_are_left_alone() {
        let mut attributes = ibv_device_attr_ex::default();
        let at = offset_of!(ibv_device_attr_ex, hca_core_clock);
        // SAFETY: more than the size says.
        unsafe { describe_clock(&raw mut attributes, at) };
        assert_eq!(attributes.completion_timestamp_mask, 0);
        let whole = size_of_val(&attributes);
        // SAFETY: as large as that.
        unsafe { describe_clock(&raw mut attributes, whole) };
        assert_eq!(attributes.hca_core_clock, KHZ);
    }
}
