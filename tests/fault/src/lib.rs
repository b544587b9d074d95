// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause

//! `libfault.so`, for `LD_PRELOAD`: the kernel, or libibverbs, as a provider hopes never to meet it.
//!
//! The variable `LASTWQE_FAULT` names one fault; without it everything passes through.
//!
//! | `LASTWQE_FAULT` | what happens |
//! |---|---|
//! | `mmap:N` | the `N`th `mmap` of a uverbs file fails with [`MMAP_ERRNO`] |
//! | `mmap:N-M` | so do those after it, up to the `M`th |
//! | `ring:N:SCRIBBLE` | the `N`th ring mapped from a uverbs file is scribbled over before the provider sees it |
//! | `answer:N:SCRIBBLE` | so is the driver's part of the `N`th answer that says where a ring is |
//! | `private_abi` | libibverbs has no `verbs_register_driver_*` to look up |
//! | `layout` | its `verbs_set_ops`, if looked up, sets nothing, so that no layout can be measured |
//! | `kernel_abi` | every device has a user ABI version beyond what any provider knows |
//!
//! A fault with an `N` strikes once, or `M - N + 1` times, and removes the variable, which is looked at each time: the same
//! verb succeeds afterwards, and a process that sets the variable again suffers another fault. `N`
//! counts from 1, which is the next. All of this is for a process with one thread.
//!
//! `SCRIBBLE` is `ones` or `zeros`, which fill the whole; `OFFSET=VALUE`, a 32-bit word in the
//! machine's byte order; or `OFFSET^BITS`, which flips bits of one. The numbers are hexadecimal.
//!
//! Only files under `/dev/infiniband/uverbs*` are touched, and of the commands sent to them only
//! those that go by `ioctl(2)`: linux 6.1 and rdma-core v44.0 send all that matter here that way.

mod answer;
mod plan;

use std::ffi::{CStr, c_char, c_int, c_ulong, c_void};
use std::path::Path;
use std::{fs, mem, ptr};

use plan::{Event, struck};

/// What a failing `mmap` says: an errno that no provider comes up with by itself.
pub const MMAP_ERRNO: c_int = libc::EAGAIN;

/// The user ABI version that a device has under `kernel_abi`.
const FOREIGN_ABI: u64 = 1000;

/// `RDMA_NLDEV_ATTR_CHARDEV_ABI` of `rdma/rdma_netlink.h`, the version's netlink attribute.
const CHARDEV_ABI: u16 = 71;

/// `RDMA_VERBS_IOCTL` of `rdma/rdma_user_ioctl_cmds.h`.
const VERBS_IOCTL: c_ulong = 0xc018_1b01;

/// The definition of `name` that this library stands in front of.
///
/// # Safety
///
/// `F` is the function pointer type of that function, which some library of the process defines.
unsafe fn real<F: Copy>(name: &CStr) -> F {
    const { assert!(size_of::<F>() == size_of::<*mut c_void>()) };
    // SAFETY: `name` is a string.
    let address = unsafe { libc::dlsym(libc::RTLD_NEXT, name.as_ptr()) };
    assert!(!address.is_null(), "{name:?} has no other definition");
    // SAFETY: the caller's promise; the sizes are equal.
    unsafe { mem::transmute_copy(&address) }
}

fn is_uverbs(fd: c_int) -> bool {
    fd >= 0
        && fs::read_link(Path::new("/proc/self/fd").join(fd.to_string())).is_ok_and(|file| {
            file.as_os_str()
                .as_encoded_bytes()
                .starts_with(b"/dev/infiniband/uverbs")
        })
}

/// `mmap(2)`.
///
/// # Safety
///
/// As the system call.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mmap(
    address: *mut c_void,
    len: usize,
    protection: c_int,
    flags: c_int,
    fd: c_int,
    offset: i64,
) -> *mut c_void {
    type Mmap = unsafe extern "C" fn(*mut c_void, usize, c_int, c_int, c_int, i64) -> *mut c_void;
    let uverbs = is_uverbs(fd);
    if uverbs && struck(Event::Mmap).is_some() {
        // SAFETY: the calling thread's own errno.
        unsafe { *libc::__errno_location() = MMAP_ERRNO };
        return libc::MAP_FAILED;
    }
    // SAFETY: the type of the C library's function, and the caller's promise.
    let mapped = unsafe { real::<Mmap>(c"mmap")(address, len, protection, flags, fd, offset) };
    if uverbs
        && mapped != libc::MAP_FAILED
        && let Some(scribble) = struck(Event::Ring)
    {
        // SAFETY: just mapped, for reading and writing as rings are, and known to nobody else.
        unsafe { scribble.over(mapped.cast(), len) };
    }
    mapped
}

/// `mmap64`: the same, under the name that large-file interfaces use.
///
/// # Safety
///
/// As the system call.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mmap64(
    address: *mut c_void,
    len: usize,
    protection: c_int,
    flags: c_int,
    fd: c_int,
    offset: i64,
) -> *mut c_void {
    // SAFETY: the caller's promise.
    unsafe { mmap(address, len, protection, flags, fd, offset) }
}

/// `ioctl(2)`, whose optional argument always fits a pointer.
///
/// # Safety
///
/// As the system call.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ioctl(fd: c_int, request: c_ulong, argument: *mut c_void) -> c_int {
    type Ioctl = unsafe extern "C" fn(c_int, c_ulong, ...) -> c_int;
    // SAFETY: the type of the C library's function, and the caller's promise.
    let returned = unsafe { real::<Ioctl>(c"ioctl")(fd, request, argument) };
    if request == VERBS_IOCTL && returned == 0 && is_uverbs(fd) {
        // SAFETY: the kernel has just accepted the argument of this request.
        let place = unsafe { answer::ring_place(argument.cast_const()) };
        if let Some((at, len)) = place
            && let Some(scribble) = struck(Event::Answer)
        {
            // SAFETY: the kernel may write there, and so may we until the caller looks.
            unsafe { scribble.over(at, len) };
        }
    }
    returned
}

/// `dlvsym(3)`.
///
/// # Safety
///
/// As the function.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dlvsym(
    handle: *mut c_void,
    name: *const c_char,
    version: *const c_char,
) -> *mut c_void {
    type Dlvsym = unsafe extern "C" fn(*mut c_void, *const c_char, *const c_char) -> *mut c_void;
    // SAFETY: the caller's string.
    let asked = unsafe { CStr::from_ptr(name) }.to_bytes();
    if asked.starts_with(b"verbs_register_driver_") && struck(Event::PrivateAbi).is_some() {
        return ptr::null_mut();
    }
    if asked == b"verbs_set_ops" && struck(Event::Layout).is_some() {
        return set_nothing as *mut c_void;
    }
    // SAFETY: the type of the C library's function, and the caller's promise.
    unsafe { real::<Dlvsym>(c"dlvsym")(handle, name, version) }
}

/// In place of `verbs_set_ops`.
extern "C" fn set_nothing(_context: *mut c_void, _ops: *const c_void) {}

/// libnl's `nla_get_u64`, by which libibverbs reads the user ABI version of a device
/// (rdma-core v44.0 `libibverbs/ibdev_nl.c: find_uverbs_sysfs`).
///
/// # Safety
///
/// As the function: `attribute` points to a `struct nlattr`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nla_get_u64(attribute: *const u16) -> u64 {
    type Get = unsafe extern "C" fn(*const u16) -> u64;
    // SAFETY: `nla_type` is the second half-word; attributes are aligned to 4 bytes.
    if unsafe { attribute.add(1).read() } == CHARDEV_ABI && struck(Event::KernelAbi).is_some() {
        return FOREIGN_ABI;
    }
    // SAFETY: the type of libnl's function, and the caller's promise.
    unsafe { real::<Get>(c"nla_get_u64")(attribute) }
}
