// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause

//! The open device.

use std::ffi::{CStr, c_int};
use std::io;
use std::mem::MaybeUninit;
use std::net::Ipv4Addr;
use std::os::fd::RawFd;
use std::ptr::{self, NonNull};
use std::sync::Arc;
use std::time::Duration;

use super::{AsyncEvent, CmId, check, object, readable, sys};

/// An open device, `ibv_context`.
#[derive(Debug)]
pub struct Context {
    raw: NonNull<sys::ibv_context>,
    /// The CM id that the context was borrowed from; without one it is ours to close.
    lender: Option<CmId>,
}

// SAFETY: libibverbs allows any thread to use a context (man ibv_open_device(3) and rdma-core's
// Documentation/libibverbs.md, "Thread safety"), and the wrapper holds no other state.
unsafe impl Send for Context {}
// SAFETY: as above.
unsafe impl Sync for Context {}

impl Context {
    /// Opens the device called `name`.
    ///
    /// # Errors
    ///
    /// `NotFound` if libibverbs lists no such device, else the errno of `ibv_open_device`.
    pub fn open(name: &str) -> io::Result<Arc<Self>> {
        let mut count: c_int = 0;
        // SAFETY: `count` is a valid place for the count.
        let list = object(unsafe { sys::ibv_get_device_list(&raw mut count) })?;
        let opened = Self::open_listed(list, usize::try_from(count).unwrap_or(0), name);
        // SAFETY: the list came from `ibv_get_device_list`; an open context keeps its device.
        unsafe { sys::ibv_free_device_list(list.as_ptr()) };
        Ok(Arc::new(Self {
            raw: opened?,
            lender: None,
        }))
    }

    fn open_listed(
        list: NonNull<*mut sys::ibv_device>,
        count: usize,
        name: &str,
    ) -> io::Result<NonNull<sys::ibv_context>> {
        for at in 0..count {
            // SAFETY: libibverbs says that the list has `count` entries.
            let device = unsafe { *list.as_ptr().add(at) };
            // SAFETY: the entry is a valid device, and its name a string that lives as long.
            let listed = unsafe { CStr::from_ptr(sys::ibv_get_device_name(device)) };
            if listed.to_bytes() == name.as_bytes() {
                // SAFETY: the device is valid as long as the list is not freed.
                return object(unsafe { sys::ibv_open_device(device) });
            }
        }
        Err(io::Error::new(
            io::ErrorKind::NotFound,
            format!("libibverbs lists no device {name}"),
        ))
    }

    /// Borrows the context of a CM id that is bound to a device: librdmacm opens each device once
    /// per process, and only objects of that context can be used with the id.
    ///
    /// # Errors
    ///
    /// `NotFound` if the id is not bound to a device.
    pub fn of_cm_id(id: CmId) -> io::Result<Arc<Self>> {
        let raw = id.verbs().ok_or_else(|| {
            io::Error::new(io::ErrorKind::NotFound, "the CM id is bound to no device")
        })?;
        Ok(Arc::new(Self {
            raw,
            lender: Some(id),
        }))
    }

    /// The object that libibverbs knows.
    #[must_use]
    pub fn raw(&self) -> *mut sys::ibv_context {
        self.raw.as_ptr()
    }

    /// The limits of the device.
    ///
    /// # Errors
    ///
    /// The errno of `ibv_query_device`.
    pub fn limits(&self) -> io::Result<sys::ibv_device_attr> {
        let mut attributes = MaybeUninit::zeroed();
        // SAFETY: the context is open and the place is big enough for the attributes.
        check(unsafe { sys::ibv_query_device(self.raw(), attributes.as_mut_ptr()) })?;
        // SAFETY: all-zero is a valid value, and the verb has filled it in.
        Ok(unsafe { attributes.assume_init() })
    }

    /// All that the device says of itself.
    ///
    /// # Errors
    ///
    /// The errno of `ibv_query_device_ex`.
    pub fn attributes(&self) -> io::Result<sys::ibv_device_attr_ex> {
        let mut attributes = sys::ibv_device_attr_ex::default();
        // SAFETY: the context is open.
        check(unsafe { sys::extended::query_device_ex(self.raw(), &mut attributes) })?;
        Ok(attributes)
    }

    /// What the device says of the values that `comp_mask` names.
    ///
    /// # Errors
    ///
    /// The errno of `ibv_query_rt_values_ex`.
    pub fn rt_values(&self, comp_mask: u32) -> io::Result<sys::ibv_values_ex> {
        let mut values = sys::ibv_values_ex {
            comp_mask,
            ..Default::default()
        };
        // SAFETY: the context is open.
        check(unsafe { sys::extended::query_rt_values_ex(self.raw(), &mut values) })?;
        Ok(values)
    }

    /// Index of the GID that carries `address`; RoCEv2 uses the IPv4-mapped form.
    ///
    /// # Errors
    ///
    /// `NotFound` if port 1 has no such GID.
    pub fn gid_index(&self, address: Ipv4Addr) -> io::Result<(u8, sys::ibv_gid)> {
        let wanted = address.to_ipv6_mapped().octets();
        for index in 0..u8::MAX {
            let mut gid = sys::ibv_gid { raw: [0; 16] };
            // SAFETY: the context is open, and `gid` is a valid place for the GID.
            let returned =
                unsafe { sys::ibv_query_gid(self.raw(), 1, c_int::from(index), &raw mut gid) };
            if returned != 0 {
                break;
            }
            // SAFETY: every bit pattern is a valid byte array.
            if unsafe { gid.raw } == wanted {
                return Ok((index, gid));
            }
        }
        Err(io::Error::new(
            io::ErrorKind::NotFound,
            format!("port 1 has no GID of {address}"),
        ))
    }

    /// File descriptor of the asynchronous events.
    #[must_use]
    pub fn async_fd(&self) -> RawFd {
        // SAFETY: the context is open; libibverbs does not change the descriptor.
        unsafe { (*self.raw()).async_fd }
    }

    /// The next asynchronous event, or `None` if none comes within `limit`.
    ///
    /// # Errors
    ///
    /// The errno of poll(2) or of `ibv_get_async_event`.
    pub fn next_event(self: &Arc<Self>, limit: Duration) -> io::Result<Option<AsyncEvent>> {
        if !readable(self.async_fd(), limit)? {
            return Ok(None);
        }
        self.get_event().map(Some)
    }

    /// The next asynchronous event; sleeps in `ibv_get_async_event` until there is one, unless the
    /// descriptor is non-blocking.
    ///
    /// # Errors
    ///
    /// The errno of `ibv_get_async_event`.
    pub fn get_event(self: &Arc<Self>) -> io::Result<AsyncEvent> {
        AsyncEvent::get(self)
    }
}

impl Drop for Context {
    fn drop(&mut self) {
        if self.lender.is_none() {
            // SAFETY: we opened the context, and every object made from it holds an `Arc` of it.
            super::destroyed("ibv_close_device", unsafe {
                sys::ibv_close_device(self.raw())
            });
        }
    }
}

/// Makes libibverbs load the providers, which it does when it first lists the devices.
///
/// # Errors
///
/// The errno of `ibv_get_device_list`.
pub fn load_providers() -> io::Result<()> {
    let mut count: c_int = 0;
    // SAFETY: `count` is a valid place for the count.
    let list = object(unsafe { sys::ibv_get_device_list(&raw mut count) })?;
    // SAFETY: the list has just come from `ibv_get_device_list`.
    unsafe { sys::ibv_free_device_list(list.as_ptr()) };
    Ok(())
}

/// A null pointer, where a verb takes an optional one.
pub(super) fn none<T>() -> *mut T {
    ptr::null_mut()
}
