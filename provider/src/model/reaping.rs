// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause

//! The application reaps asynchronous events, as `ibv_get_async_event` has the provider's hook see
//! them, and acknowledges each at once.

use rdma_core_sys::{
    IBV_EVENT_CLIENT_REREGISTER, IBV_EVENT_COMM_EST, IBV_EVENT_CQ_ERR,
    IBV_EVENT_QP_LAST_WQE_REACHED, IBV_EVENT_SQ_DRAINED, IBV_QPS_ERR, ibv_async_event,
    ibv_async_event__bindgen_ty_1, ibv_cq, ibv_qp,
};

use super::application::{Application, next_event};
use super::reference::Verdict;
use crate::async_event::async_event;
use crate::driver::Driver;
use crate::last_wqe::is_catastrophic;

impl<D: Driver> Application<D> {
    /// Reaps one event; whether there was one.
    pub(super) fn reap(&mut self) -> Result<bool, String> {
        let Some(desc) = next_event(self.context) else {
            return Ok(false);
        };
        let address = usize::try_from(desc.element).unwrap();
        let qp = std::ptr::with_exposed_provenance_mut::<ibv_qp>(address);
        let mut event = ibv_async_event {
            element: ibv_async_event__bindgen_ty_1 { qp },
            event_type: desc.event_type,
        };
        // SAFETY: the context, and an event that the kernel has raised for one of its objects.
        unsafe { async_event::<D>(self.context, &raw mut event) };
        let what = event.event_type;
        self.kernel().core.note(format!("told: event {what}"));
        self.told(&event)?;
        Ok(true)
    }

    fn told(&mut self, event: &ibv_async_event) -> Verdict {
        match event.event_type {
            IBV_EVENT_CLIENT_REREGISTER => Ok(()),
            // SAFETY: this event names a CQ.
            IBV_EVENT_CQ_ERR => self.told_of_cq(unsafe { event.element.cq }),
            // SAFETY: all the others that the model raises name a QP.
            event_type => self.told_of_qp(unsafe { event.element.qp }, event_type),
        }
    }

    fn told_of_cq(&mut self, cq: *mut ibv_cq) -> Verdict {
        // SAFETY: as the provider says, a CQ; its handle is compared before it is used otherwise.
        let handle = unsafe { (*cq).handle };
        let Some(told) = self.cqs.iter_mut().find(|told| told.handle == handle) else {
            return Err("the application is told of a CQ that is not its own".into());
        };
        if std::mem::replace(&mut told.overran, true) {
            return Err("CQ_ERR is told twice".into());
        }
        // SAFETY: a CQ of ours.
        unsafe { (*cq).async_events_completed = (*cq).async_events_completed.wrapping_add(1) };
        Ok(())
    }

    fn told_of_qp(&mut self, qp: *mut ibv_qp, event_type: u32) -> Verdict {
        let Some(told) = self.qps.iter_mut().find(|told| told.qp == qp) else {
            return Err(format!(
                "event {event_type} is told of a QP that is not there"
            ));
        };
        // SAFETY: a QP of ours.
        unsafe { (*qp).events_completed = (*qp).events_completed.wrapping_add(1) };
        if is_catastrophic(event_type) {
            told.told_catastrophe = true;
        }
        let (name, handle) = (told.name, told.known.handle);
        if event_type == IBV_EVENT_QP_LAST_WQE_REACHED {
            if told.told_catastrophe {
                return Err(format!("QP {name}: LAST_WQE_REACHED after a catastrophe"));
            }
            if std::mem::replace(&mut told.told_last_wqe, true) {
                return Err(format!("QP {name}: LAST_WQE_REACHED twice"));
            }
            if self.srq.is_none() {
                return Err(format!("QP {name}: LAST_WQE_REACHED without an SRQ"));
            }
            let kernel = self.kernel();
            if kernel.qps[&handle].machine.state() != IBV_QPS_ERR {
                return Err(format!("QP {name} lives, and has reached its last WQE"));
            }
        } else if !is_catastrophic(event_type)
            && event_type != IBV_EVENT_SQ_DRAINED
            && event_type != IBV_EVENT_COMM_EST
        {
            return Err(format!("QP {name}: event {event_type}"));
        }
        Ok(())
    }
}
