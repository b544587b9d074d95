// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause

//! The application: calls the provider's verbs, and holds what they say against the reference.

use std::alloc::{Layout, alloc_zeroed};
use std::marker::PhantomData;
use std::ptr;
use std::sync::Arc;

use rdma_core_sys::provider::private_data;
use rdma_core_sys::{
    IBV_QPT_RC, IBV_WC_EX_WITH_QP_NUM, ibv_context, ibv_cq, ibv_pd, ibv_qp, ibv_qp_cap,
    ibv_qp_init_attr, ibv_srq, ibv_srq_attr, ibv_srq_init_attr,
};

use super::calls::{self, Device};
use super::events::Events;
use super::kernel::{Kernel, Uid};
use super::reference::{Known, Reference, Verdict};
use super::steps::{Setup, Step};
use super::whims::Whims;
use crate::context::{self, Context};
use crate::driver::Driver;
use crate::lock::{MutexGuard, lock};
use crate::{cq, cq_ex, pd, qp, srq};

/// A CQ, and who waits for it.
#[derive(Debug)]
pub(super) struct Cq {
    pub(super) cq: *mut ibv_cq,
    pub(super) handle: u32,
    /// The waiter is in `ibv_get_cq_event`.
    pub(super) is_asleep: bool,
    /// How many of its events the waiter has taken.
    pub(super) seen: u32,
    /// The application was told that CQEs were dropped.
    pub(super) overran: bool,
}

/// A QP.
#[derive(Debug)]
pub(super) struct Qp {
    pub(super) qp: *mut ibv_qp,
    /// What the application calls it.
    pub(super) name: usize,
    pub(super) known: Known,
    pub(super) cap: ibv_qp_cap,
    /// In this life of the QP.
    pub(super) told_last_wqe: bool,
    pub(super) told_catastrophe: bool,
    /// It was moved to RESET by an application that cannot have it live again: nothing is told of it.
    pub(super) was_reset: bool,
}

pub(super) struct Application<D: Driver> {
    pub(super) device: Device,
    pub(super) context: *mut ibv_context,
    pd: *mut ibv_pd,
    pub(super) srq: Option<*mut ibv_srq>,
    pub(super) srq_depth: u32,
    pub(super) cqs: Vec<Cq>,
    pub(super) qps: Vec<Qp>,
    pub(super) reference: Reference,
    pub(super) setup: Setup,
    /// How often it has polled.
    pub(super) polls: u32,
    /// Near the end: no QP lives.
    pub(super) killed_all: bool,
    last_uid: Uid,
    last_qp: usize,
    _driver: PhantomData<D>,
}

pub(super) fn expect(holds: bool, what: impl FnOnce() -> String) -> Verdict {
    if holds { Ok(()) } else { Err(what()) }
}

impl<D: Driver> Application<D> {
    pub(super) fn new(setup: Setup) -> Result<Self, String> {
        let device = calls::plug(Kernel::new(setup.kind, Whims::new(setup.whims.clone())));
        let context = open(&device);
        // SAFETY: the context that was just opened.
        let pd = unsafe { pd::alloc(context) };
        let mut app = Self {
            device,
            context,
            pd,
            srq: None,
            srq_depth: 0,
            cqs: Vec::new(),
            qps: Vec::new(),
            reference: Reference::default(),
            setup,
            polls: 0,
            killed_all: false,
            last_uid: 0x1000,
            last_qp: 0,
            _driver: PhantomData,
        };
        for _ in 0..app.setup.cqs {
            app.create_cq()?;
        }
        if app.setup.has_srq {
            app.create_srq()?;
        }
        for _ in 0..app.setup.qps {
            app.create_qp()?;
        }
        Ok(app)
    }

    pub(super) fn kernel(&self) -> MutexGuard<'_, Kernel> {
        lock(&self.device)
    }

    pub(super) fn uid(&mut self) -> Uid {
        self.last_uid += 0x10;
        self.last_uid
    }

    fn create_cq(&mut self) -> Verdict {
        let room = self.setup.room.cast_signed();
        // SAFETY: an open context.
        let cq = unsafe { cq::create_with_room::<D>(self.context, 1, room, ptr::null_mut(), 0) };
        expect(!cq.is_null(), || "no CQ".into())?;
        // SAFETY: just created, known to nobody else.
        let handle = unsafe {
            cq_ex::extend::<D>(cq, IBV_WC_EX_WITH_QP_NUM.into(), false);
            (*cq).handle
        };
        self.cqs.push(Cq {
            cq,
            handle,
            is_asleep: false,
            seen: 0,
            overran: false,
        });
        Ok(())
    }

    fn create_srq(&mut self) -> Verdict {
        let mut attr = ibv_srq_init_attr {
            srq_context: ptr::null_mut(),
            attr: ibv_srq_attr {
                max_wr: self.setup.depth,
                max_sge: 1,
                srq_limit: 0,
            },
        };
        // SAFETY: a PD of ours.
        let srq = unsafe { srq::create::<D>(self.pd, &raw mut attr) };
        expect(!srq.is_null(), || "no SRQ".into())?;
        self.srq = Some(srq);
        self.srq_depth = attr.attr.max_wr;
        Ok(())
    }

    fn create_qp(&mut self) -> Verdict {
        let (send_cq, recv_cq) = (0, self.cqs.len() - 1);
        let mut attr = ibv_qp_init_attr {
            send_cq: self.cqs[send_cq].cq,
            recv_cq: self.cqs[recv_cq].cq,
            srq: self.srq.unwrap_or(ptr::null_mut()),
            cap: ibv_qp_cap {
                max_send_wr: self.setup.depth,
                max_recv_wr: self.setup.depth,
                max_send_sge: 1,
                max_recv_sge: 1,
                max_inline_data: 0,
            },
            qp_type: IBV_QPT_RC,
            sq_sig_all: self.setup.signal_all.into(),
            ..Default::default()
        };
        // SAFETY: objects of ours.
        let qp = unsafe { qp::create::<D>(self.pd, &raw mut attr) };
        expect(!qp.is_null(), || "no QP".into())?;
        self.last_qp += 1;
        let name = self.last_qp;
        // SAFETY: just created.
        let (number, handle) = unsafe { ((*qp).qp_num, (*qp).handle) };
        let known = Known {
            number,
            handle,
            send_cq,
            recv_cq,
            is_revived: false,
        };
        self.reference.enter(name, known);
        self.qps.push(Qp {
            qp,
            name,
            known,
            cap: attr.cap,
            told_last_wqe: false,
            told_catastrophe: false,
            was_reset: false,
        });
        self.connect(self.qps.len() - 1)
    }

    /// Does one step.
    pub(super) fn step(&mut self, step: &Step) -> Verdict {
        self.kernel().core.note(format!("{step:?}"));
        let pick = |n: usize, of: usize| n % of;
        let (qps, cqs) = (self.qps.len(), self.cqs.len());
        match step {
            Step::PostSend { qp, sends } => self.post_send(pick(*qp, qps), sends)?,
            Step::PostRecv { qp, count } => self.post_recv(pick(*qp, qps), *count)?,
            Step::Kernel { qp, act } => {
                let handle = self.qps[pick(*qp, qps)].known.handle;
                self.kernel().act(handle, *act);
            }
            Step::Breathe => self.kernel().breathe(),
            Step::Run => {
                self.kernel().run();
            }
            Step::Poll { cq, room } => {
                self.poll(pick(*cq, cqs), *room)?;
            }
            Step::Sleep { cq } => self.sleep(pick(*cq, cqs))?,
            Step::Wake { cq } => {
                self.wake(pick(*cq, cqs))?;
            }
            Step::Resize { cq, size } => self.resize(pick(*cq, cqs), *size)?,
            Step::Kill { qp, closes } => self.kill(pick(*qp, qps), *closes)?,
            Step::Reset { qp } => self.reset(pick(*qp, qps))?,
            Step::Query { qp } => self.query(pick(*qp, qps))?,
            Step::Reap if self.setup.reaps => {
                self.reap()?;
            }
            Step::Reap => {}
            Step::Replace { qp } => {
                self.destroy_qp(pick(*qp, qps))?;
                self.create_qp()?;
            }
        }
        self.no_faults()
    }

    pub(super) fn no_faults(&self) -> Verdict {
        self.kernel().core.faults.pop().map_or(Ok(()), Err)
    }

    /// Destroys all but the QPs, which are destroyed.
    pub(super) fn close(&mut self) -> Verdict {
        for cq in self.cqs.drain(..) {
            // SAFETY: a CQ of ours, not used again.
            let answer = unsafe { cq::destroy::<D>(cq.cq) };
            expect(answer == 0, || {
                format!("a CQ cannot be destroyed: {answer}")
            })?;
        }
        if let Some(srq) = self.srq.take() {
            // SAFETY: an SRQ of ours, not used again.
            let answer = unsafe { srq::destroy::<D>(srq) };
            expect(answer == 0, || {
                format!("an SRQ cannot be destroyed: {answer}")
            })?;
        }
        // SAFETY: a PD and a context of ours, not used again.
        unsafe {
            pd::dealloc(self.pd);
            context::close(self.context);
        }
        self.no_faults()
    }
}

impl<D: Driver> Drop for Application<D> {
    fn drop(&mut self) {
        let fd = self.kernel().core.memory.fd();
        calls::unplug(fd);
    }
}

/// Opens the device: the context as libibverbs and `context::open` make it.
fn open(device: &Device) -> *mut ibv_context {
    let library = calls::library();
    let kernel = lock(device);
    let (cmd_fd, async_fd) = (kernel.core.memory.fd(), kernel.core.events.fd());
    let layout = Layout::from_size_align(4096, 16).unwrap();
    // SAFETY: the layout has a size; the memory is `calloc`'s in effect, as the system's allocator is
    // `malloc`, and more than any `verbs_context` and a pointer need.
    unsafe {
        let context = library.ibv_context_of(alloc_zeroed(layout).cast());
        (*context).cmd_fd = cmd_fd;
        (*context).async_fd = async_fd;
        let ours = Context::over(library, cmd_fd);
        private_data(context)
            .cast::<*const Context>()
            .write(Arc::into_raw(ours));
        context
    }
}

/// The next event of the context's.
pub(super) fn next_event(context: *mut ibv_context) -> Option<kernel_abi::uverbs::AsyncEventDesc> {
    // SAFETY: an open context.
    Events::read(unsafe { (*context).async_fd })
}
