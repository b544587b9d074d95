// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause

//! Answers to uverbs commands in which a driver says where a ring can be mapped.
//!
//! These are the answers to the creation of a CQ, QP or SRQ and to the resize of a CQ, and what rxe writes to the address in
//! the driver's part of a change of an SRQ.

use std::ptr;

/// `struct ib_uverbs_ioctl_hdr` of `rdma/rdma_user_ioctl_cmds.h`; the attributes follow.
#[repr(C)]
struct Command {
    length: u16,
    object: u16,
    method: u16,
    attributes: u16,
    reserved1: u64,
    driver: u32,
    reserved2: u32,
}

/// `struct ib_uverbs_attr` of `rdma/rdma_user_ioctl_cmds.h`.
#[repr(C)]
struct Attribute {
    id: u16,
    len: u16,
    flags: u16,
    kind: u16,
    /// An address, or up to eight bytes of input themselves.
    data: u64,
}

const _: () = assert!(size_of::<Command>() == 24 && size_of::<Attribute>() == 16);

// Numbers of `rdma/ib_user_ioctl_cmds.h`.
const DEVICE: u16 = 0;
const CQ: u16 = 3;
const QP: u16 = 4;
const SRQ: u16 = 5;
const CREATE: u16 = 0;
const INVOKE_WRITE: u16 = 0;
const WRITE_CMD: u16 = 2;
const UHW_IN: u16 = 0x1000;
const UHW_OUT: u16 = 0x1001;

/// Where in memory `command` has got the place of a ring, and how many bytes that is.
///
/// # Safety
///
/// `command` is the argument of a `RDMA_VERBS_IOCTL` that has succeeded.
pub(crate) unsafe fn ring_place(command: *const std::ffi::c_void) -> Option<(*mut u8, usize)> {
    let command = command.cast::<Command>();
    // SAFETY: the kernel has read the same.
    let (object, method, count) = unsafe {
        let Command {
            object,
            method,
            attributes,
            ..
        } = &*command;
        (*object, *method, usize::from(*attributes))
    };
    // SAFETY: as many attributes as the command says follow it.
    let attributes =
        unsafe { std::slice::from_raw_parts(command.add(1).cast::<Attribute>(), count) };
    let find = |id| attributes.iter().find(|attribute| attribute.id == id);
    match (object, method) {
        (CQ | QP | SRQ, CREATE) => {
            let answer = find(UHW_OUT)?;
            Some((memory(answer.data)?, usize::from(answer.len)))
        }
        (DEVICE, INVOKE_WRITE) if find(WRITE_CMD)?.data == RESIZE_CQ => {
            let answer = find(UHW_OUT)?;
            Some((memory(answer.data)?, usize::from(answer.len)))
        }
        (DEVICE, INVOKE_WRITE) if find(WRITE_CMD)?.data == MODIFY_SRQ => Some((
            memory(find(UHW_IN)?.data)?,
            size_of::<kernel_abi::rxe::MmapInfo>(),
        )),
        _ => None,
    }
}

const RESIZE_CQ: u64 = kernel_abi::uverbs::CMD_RESIZE_CQ as u64;
const MODIFY_SRQ: u64 = kernel_abi::uverbs::CMD_MODIFY_SRQ as u64;

fn memory(address: u64) -> Option<*mut u8> {
    let address = usize::try_from(address).ok()?;
    Some(ptr::with_exposed_provenance_mut(address))
}
