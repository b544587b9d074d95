// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause

//! `ibv_open_device`, `ibv_close_device`, `ibv_query_device_ex`, `ibv_query_port`.

use std::any::Any;
use std::collections::BTreeMap;
use std::ffi::{CString, c_int, c_void};
use std::fmt::Debug;
use std::os::fd::RawFd;
use std::sync::{Arc, OnceLock, Weak};

use kernel_abi::uverbs;
use rdma_core_sys::provider::{VERBS_LOG_INFO, private_data, verbs_context};
use rdma_core_sys::{
    Library, ibv_context, ibv_device, ibv_device_attr_ex, ibv_port_attr, ibv_query_device_ex_input,
};
use zerocopy::FromZeros;

use crate::announcer::Announcer;
use crate::boundary::{pointer, status};
use crate::cookie::OwnerId;
use crate::death::Cause;
use crate::driver::Driver;
use crate::errno::{Errno, Result};
use crate::lock::{Mutex, lock};
use crate::owners::Owners;
use crate::query_rt_values::describe_clock;
use crate::queue_pair::QueuePair;

/// What the objects of one open device share.
#[derive(Debug)]
pub(crate) struct Context {
    pub(crate) library: &'static Library,
    pub(crate) owners: Owners,
    /// The uverbs file of the device; libibverbs closes it with the context.
    pub(crate) cmd_fd: RawFd,
    /// `Driver::raises_last_wqe`, once it was asked.
    pub(crate) raises_last_wqe: OnceLock<bool>,
    /// All QPs, by the index of their owner.
    pairs: Mutex<BTreeMap<u32, Weak<dyn Mortal>>>,
    /// The driver's `Announcer`, once it was needed, behind those that are retired. They have objects
    /// that hold the context: `close` lets them go.
    announcers: Mutex<Vec<Arc<dyn Any + Send + Sync>>>,
}

/// The announcer that is not retired.
fn usable<D: Driver>(announcers: &[Arc<dyn Any + Send + Sync>]) -> Option<Arc<Announcer<D>>> {
    let last = announcers.last().map(Arc::clone)?;
    let announcer = last.downcast::<Announcer<D>>().ok()?;
    (!announcer.is_retired()).then_some(announcer)
}

/// A QP of either driver.
trait Mortal: Debug + Send + Sync {
    fn die(&self, cause: Cause);
}

impl<D: Driver> Mortal for QueuePair<D> {
    fn die(&self, cause: Cause) {
        Self::die(self, cause);
    }
}

impl Context {
    /// Writes a line into libibverbs' log, at its info level.
    pub(crate) fn note(&self, line: &str) {
        if let Ok(line) = CString::new(format!("lastwqe: {line}")) {
            self.library.log(VERBS_LOG_INFO, &line);
        }
    }

    /// Notes a QP.
    pub(crate) fn enter<D: Driver>(&self, pair: &Arc<QueuePair<D>>) {
        let pair = Arc::clone(pair);
        let index = pair.id.index();
        let pair: Arc<dyn Mortal> = pair;
        lock(&self.pairs).insert(index, Arc::downgrade(&pair));
    }

    /// Forgets a QP.
    pub(crate) fn leave(&self, id: OwnerId) {
        lock(&self.pairs).remove(&id.index());
    }

    /// The device has failed, and with it all QPs. No lock is held.
    pub(crate) fn fail(&self, cause: Cause) {
        let pairs: Vec<_> = lock(&self.pairs)
            .values()
            .filter_map(Weak::upgrade)
            .collect();
        for pair in pairs {
            pair.die(cause);
        }
    }

    /// The announcer, which is made now if there is none.
    ///
    /// # Errors
    ///
    /// As [`Announcer::new`].
    ///
    /// # Safety
    ///
    /// `context` is libibverbs' half of this one, and open.
    pub(crate) unsafe fn announcer<D: Driver>(
        &self,
        context: *mut ibv_context,
    ) -> Result<Arc<Announcer<D>>> {
        if let Some(announcer) = self.announcer_if_any() {
            return Ok(announcer);
        }
        // Without the lock, which the end of a QP takes, and it makes and ends some.
        // SAFETY: the caller's promise.
        let made = Arc::new(unsafe { Announcer::new(context) }?);
        let mut announcers = lock(&self.announcers);
        if let Some(announcer) = usable(&announcers) {
            // Another thread was faster. Its end waits for nobody, but takes the lock too.
            drop(announcers);
            drop(made);
            return Ok(announcer);
        }
        announcers.push(Arc::<Announcer<D>>::clone(&made));
        Ok(made)
    }

    fn announcer_if_any<D: Driver>(&self) -> Option<Arc<Announcer<D>>> {
        usable(&lock(&self.announcers))
    }

    /// All announcers, also those that are retired.
    pub(crate) fn announcers<D: Driver>(&self) -> Vec<Arc<Announcer<D>>> {
        let announcers = lock(&self.announcers);
        announcers
            .iter()
            .filter_map(|announcer| Arc::clone(announcer).downcast().ok())
            .collect()
    }

    /// Destroys what the retired announcers have. That waits for those of their events that are being
    /// looked at, so without a lock, and with the announcers still known.
    pub(crate) fn dismiss_retired<D: Driver>(&self) {
        let retired: Vec<_> = self.announcers::<D>();
        for announcer in retired.iter().filter(|announcer| announcer.is_retired()) {
            announcer.close();
        }
        drop(retired);
        lock(&self.announcers).retain(|announcer| {
            announcer
                .downcast_ref::<Announcer<D>>()
                .is_none_or(|announcer| !announcer.is_closed())
        });
    }

    /// The context behind libibverbs' one.
    ///
    /// # Safety
    ///
    /// `context` is an `ibv_context` of ours.
    pub(crate) unsafe fn of(context: *mut ibv_context) -> Arc<Self> {
        // SAFETY: `open` put an `Arc` into the private data, which stays there until `close`;
        // raising its count first leaves it in place.
        unsafe {
            let ours = private_data(context).cast::<*const Self>().read();
            Arc::increment_strong_count(ours);
            Arc::from_raw(ours)
        }
    }
}

#[cfg(test)]
impl Context {
    /// A context on the file of the model's kernel.
    pub(crate) fn over(library: &'static Library, cmd_fd: RawFd) -> Arc<Self> {
        Arc::new(Self {
            library,
            owners: Owners::default(),
            cmd_fd,
            raises_last_wqe: OnceLock::new(),
            pairs: Mutex::default(),
            announcers: Mutex::default(),
        })
    }
}

/// `verbs_device_ops.alloc_context`: libibverbs has opened `cmd_fd` and gives it to us.
///
/// # Safety
///
/// Called by libibverbs, with a device that [`register`](crate::register) allocated.
pub(crate) unsafe extern "C" fn open<D: Driver>(
    device: *mut ibv_device,
    cmd_fd: c_int,
    _private: *mut c_void,
) -> *mut verbs_context {
    pointer(|| {
        let library = Library::get().map_err(|_| Errno::EOPNOTSUPP)?;
        // SAFETY: the device that libibverbs opens.
        let context =
            unsafe { library.alloc_context(device, cmd_fd, size_of::<*const Context>(), D::ID) };
        if context.is_null() {
            return Err(Errno::last());
        }
        let mut request = uverbs::Request::<uverbs::GetContext>::zeroed();
        let mut answer = uverbs::Response::<uverbs::GetContextResp, D::ContextAnswer>::zeroed();
        // SAFETY: request and answer are as large as their sizes say.
        let answered = Errno::check(unsafe {
            library.get_context(
                context,
                (&raw mut request).cast(),
                size_of_val(&request),
                (&raw mut answer).cast(),
                size_of_val(&answer),
            )
        });
        if let Err(errno) = answered {
            // SAFETY: just allocated, and known to nobody else.
            unsafe { library.free_context(context) };
            return Err(errno);
        }
        let ours = Arc::new(Context {
            library,
            owners: Owners::default(),
            cmd_fd,
            raises_last_wqe: OnceLock::new(),
            pairs: Mutex::default(),
            announcers: Mutex::default(),
        });
        // SAFETY: the context is new, and has room for our pointer behind it.
        unsafe {
            let ibv = library.ibv_context_of(context);
            private_data(ibv)
                .cast::<*const Context>()
                .write(Arc::into_raw(ours));
            library.set_ops(context, &crate::ops::table::<D>());
        }
        Ok(context)
    })
}

/// `ibv_close_device`(3).
///
/// # Safety
///
/// Called by libibverbs, with a context of ours.
pub(crate) unsafe extern "C" fn close(context: *mut ibv_context) {
    status(|| {
        // SAFETY: the `Arc` that `open` stored, given up once. Objects that the application did
        // not destroy keep theirs.
        let ours = unsafe { Arc::from_raw(private_data(context).cast::<*const Context>().read()) };
        let library = ours.library;
        let announcers = std::mem::take(&mut *lock(&ours.announcers));
        drop(announcers);
        // SAFETY: ours, and closed once.
        unsafe { library.free_context(library.verbs_context_of(context)) };
        Ok(())
    });
}

/// `ibv_query_device_ex`(3), and by it `ibv_query_device`(3).
///
/// # Safety
///
/// As the man page asks.
pub(crate) unsafe extern "C" fn query_device_ex<D: Driver>(
    context: *mut ibv_context,
    input: *const ibv_query_device_ex_input,
    attributes: *mut ibv_device_attr_ex,
    attributes_size: usize,
) -> c_int {
    status(|| {
        // SAFETY: a context of ours.
        let ours = unsafe { Context::of(context) };
        let mut answer = uverbs::ExQueryDeviceResp::new_zeroed();
        let mut answer_size = size_of_val(&answer);
        // SAFETY: the caller's attributes; the answer is as large as its size says.
        Errno::check(unsafe {
            (ours.library.calls.ibv_cmd_query_device_any)(
                context,
                input,
                attributes,
                attributes_size,
                (&raw mut answer).cast(),
                &raw mut answer_size,
            )
        })?;
        let text = firmware_version(answer.base.fw_ver);
        // SAFETY: the caller's attributes begin with the 64 bytes of `orig_attr.fw_ver`, which
        // `attributes_size` covers in every release (`ibv_cmd_query_device_any` checks).
        unsafe { attributes.cast::<[u8; 64]>().write(text) };
        // SAFETY: the caller's attributes.
        unsafe { describe_clock(attributes, attributes_size) };
        if D::MARKS_AHEAD {
            // One entry of a queue is for the mark.
            // SAFETY: the caller's attributes, as above.
            unsafe {
                let max = &raw mut (*attributes).orig_attr.max_qp_wr;
                max.write(max.read().saturating_sub(1));
            }
        }
        Ok(())
    })
}

/// The kernel's three 16-bit numbers as text, padded with NUL.
fn firmware_version(raw: u64) -> [u8; 64] {
    let part = |shift: u32| (raw >> shift) & 0xffff;
    let mut text = [0; 64];
    // Three numbers of at most five digits leave room for the NUL.
    for (to, from) in text
        .iter_mut()
        .zip(format!("{}.{}.{}", part(32), part(16), part(0)).bytes())
    {
        *to = from;
    }
    text
}

/// `ibv_query_port`(3).
///
/// # Safety
///
/// As the man page asks.
pub(crate) unsafe extern "C" fn query_port(
    context: *mut ibv_context,
    port: u8,
    attributes: *mut ibv_port_attr,
) -> c_int {
    status(|| {
        // SAFETY: a context of ours.
        let ours = unsafe { Context::of(context) };
        let mut request = uverbs::Request::<uverbs::QueryPort>::zeroed();
        // SAFETY: the caller's attributes; the request is as large as its size says.
        Errno::check(unsafe {
            (ours.library.calls.ibv_cmd_query_port)(
                context,
                port,
                attributes,
                (&raw mut request).cast(),
                size_of_val(&request),
            )
        })
    })
}

#[cfg(test)]
mod tests {
    use super::firmware_version;

    #[test]
    fn a_firmware_version_has_three_parts() {
        let text = firmware_version(0x0001_0002_ffff);
        assert_eq!(text.split(|b| *b == 0).next(), Some(&b"1.2.65535"[..]));
    }
}
