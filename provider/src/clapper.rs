// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause

//! A QP of the library's own, in ERR, whose flush causes CQEs on a CQ: rxe flushes whatever is put
//! into its ring, as often as it is kicked. siw's ERROR is final, and takes a new QP for each CQE.

use std::marker::PhantomData;

use rdma_core_sys::{
    IBV_QP_ACCESS_FLAGS, IBV_QP_PKEY_INDEX, IBV_QP_PORT, IBV_QP_STATE, IBV_QPS_INIT, IBV_QPT_RC,
    ibv_cq, ibv_pd, ibv_qp, ibv_qp_attr, ibv_qp_cap, ibv_qp_init_attr,
};

use crate::cookie::Queue;
use crate::driver::Driver;
use crate::errno::{Errno, Result};
use crate::pd;
use crate::qp::{self, Qp};

/// More sends than can be outstanding at a time.
const STRIKES: u32 = 1024;

/// The QP, and a PD for it.
#[derive(Debug)]
pub(crate) struct Clapper<D: Driver> {
    pd: *mut ibv_pd,
    qp: *mut ibv_qp,
    _driver: PhantomData<D>,
}

// SAFETY: its objects are its own, and libibverbs' functions may be called from any thread.
unsafe impl<D: Driver> Send for Clapper<D> {}
// SAFETY: as above; the pointers do not change.
unsafe impl<D: Driver> Sync for Clapper<D> {}

impl<D: Driver> Clapper<D> {
    /// # Errors
    ///
    /// What the verbs say.
    ///
    /// # Safety
    ///
    /// `cq` is a CQ of ours, which outlives the clapper.
    pub(crate) unsafe fn new(cq: *mut ibv_cq) -> Result<Self> {
        // SAFETY: the CQ's context.
        let pd = unsafe { pd::alloc((*cq).context) };
        if pd.is_null() {
            return Err(Errno::last());
        }
        // SAFETY: a PD of our own, and the caller's CQ.
        let qp = unsafe { create_qp::<D>(pd, cq, STRIKES) };
        let ours = Self {
            pd,
            qp,
            _driver: PhantomData,
        };
        if qp.is_null() {
            return Err(Errno::last());
        }
        ours.bring_to_error()?;
        Ok(ours)
    }

    fn qp(&self) -> Result<&Qp<D>> {
        // SAFETY: ours as long as `self` is.
        unsafe { Qp::<D>::of(self.qp) }.ok_or(Errno::EIO)
    }

    /// By way of INIT, since RESET does not lead to ERR.
    fn bring_to_error(&self) -> Result<()> {
        let pair = &self.qp()?.pair;
        let mut attr = ibv_qp_attr {
            qp_state: IBV_QPS_INIT,
            port_num: 1,
            ..Default::default()
        };
        let mask = IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS;
        // SAFETY: the attributes that the mask tells of.
        unsafe { pair.modify_kernel(&raw mut attr, mask) }?;
        pair.kick()
    }

    /// Causes one CQE.
    pub(crate) fn strike(&self) {
        if let Ok(qp) = self.qp() {
            qp.pair.put_mark(Queue::Send);
            // A device that is gone wakes its waiters itself.
            let _ = qp.pair.kick();
        }
    }
}

impl<D: Driver> Drop for Clapper<D> {
    fn drop(&mut self) {
        // SAFETY: both are ours alone. What their verbs say cannot be helped.
        unsafe {
            if !self.qp.is_null() {
                qp::destroy::<D>(self.qp);
            }
            pd::dealloc(self.pd);
        }
    }
}

/// Creates the smallest QP for `sends` sends; NULL if that fails.
///
/// # Safety
///
/// A PD and a CQ of ours.
pub(crate) unsafe fn create_qp<D: Driver>(
    pd: *mut ibv_pd,
    cq: *mut ibv_cq,
    sends: u32,
) -> *mut ibv_qp {
    let mut attr = ibv_qp_init_attr {
        send_cq: cq,
        recv_cq: cq,
        qp_type: IBV_QPT_RC,
        cap: ibv_qp_cap {
            max_send_wr: sends,
            max_recv_wr: 1,
            max_send_sge: 1,
            max_recv_sge: 1,
            max_inline_data: 0,
        },
        ..Default::default()
    };
    // SAFETY: the caller's promise.
    unsafe { qp::create::<D>(pd, &raw mut attr) }
}
