// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause

//! The calls that are counted: one function for each row, whose name callgrind and we know it by.
//!
//! What counts are the calls that such a function makes, not its own instructions. Each counts
//! for itself how often it was called.

use std::ffi::c_int;
use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use guest::verbs::sys::{
    ibv_cq, ibv_cq_ex, ibv_poll_cq_attr, ibv_qp, ibv_qp_ex, ibv_recv_wr, ibv_send_wr, ibv_sge,
    ibv_srq, ibv_wc, inline,
};
use guest::wr_call;

/// What the names of all of them begin with.
pub(crate) const PREFIX: &str = "measured_";

macro_rules! measured {
    ($($name:ident: fn($($argument:ident: $type:ty),*) -> $result:ty = $body:expr;)*) => {
        $(
            /// # Safety
            ///
            /// As the verb asks.
            #[unsafe(no_mangle)]
            #[inline(never)]
            pub(crate) unsafe extern "C" fn $name($($argument: $type),*) -> $result {
                let row = &ROWS[Row::$name as usize];
                row.begin();
                // SAFETY: the caller's promise.
                let result = unsafe { $body };
                row.end();
                result
            }
        )*

        #[expect(non_camel_case_types, reason = "the names of the functions")]
        enum Row {
            $($name),*
        }

        /// The rows, and how often each was measured.
        pub(crate) static ROWS: [Calls; [$(stringify!($name)),*].len()] = [$(Calls::new(stringify!($name))),*];
    };
}

/// How often a row was measured.
#[derive(Debug)]
pub(crate) struct Calls {
    name: &'static str,
    count: AtomicU32,
}

/// System calls are traced, and each measured call is to be found in the trace.
static TRACED: AtomicBool = AtomicBool::new(false);

/// From now on, a system call of no effect stands before each measured call and behind it.
pub(crate) fn mark_calls() {
    // Relaxed: this program has one thread that measures.
    TRACED.store(true, Ordering::Relaxed);
}

impl Calls {
    const fn new(name: &'static str) -> Self {
        Self {
            name,
            count: AtomicU32::new(0),
        }
    }

    /// The row's name.
    pub(crate) fn name(&self) -> &'static str {
        self.name.strip_prefix(PREFIX).unwrap_or(self.name)
    }

    pub(crate) fn count(&self) -> u32 {
        // Relaxed: as in `mark_calls`.
        self.count.load(Ordering::Relaxed)
    }

    fn begin(&self) {
        // Relaxed: as in `mark_calls`.
        let count = self.count().wrapping_add(1);
        self.count.store(count, Ordering::Relaxed);
        self.mark();
    }

    fn end(&self) {
        self.mark();
    }

    /// `write` to no file, of the row's name.
    fn mark(&self) {
        if TRACED.load(Ordering::Relaxed) {
            let name = self.name();
            // SAFETY: so many bytes are there.
            unsafe { libc::write(-1, name.as_ptr().cast(), name.len()) };
        }
    }
}

/// A verb that posts a list of sends.
pub(crate) type PostSend = unsafe extern "C" fn(*mut ibv_qp, *mut ibv_send_wr) -> c_int;
/// A verb that posts a list of receives.
pub(crate) type PostRecv = unsafe extern "C" fn(*mut ibv_qp, *mut ibv_recv_wr) -> c_int;
/// A verb that posts a list of receives to an SRQ.
pub(crate) type PostSrqRecv = unsafe extern "C" fn(*mut ibv_srq, *mut ibv_recv_wr) -> c_int;
/// A verb that polls for so many completions.
pub(crate) type Poll = unsafe extern "C" fn(*mut ibv_cq, c_int, *mut ibv_wc) -> c_int;

measured! {
    measured_post_send_1: fn(qp: *mut ibv_qp, wr: *mut ibv_send_wr) -> c_int = post_send(qp, wr);
    measured_post_send_16: fn(qp: *mut ibv_qp, wr: *mut ibv_send_wr) -> c_int = post_send(qp, wr);
    measured_post_send_inline: fn(qp: *mut ibv_qp, wr: *mut ibv_send_wr) -> c_int = post_send(qp, wr);
    measured_post_send_3_sges: fn(qp: *mut ibv_qp, wr: *mut ibv_send_wr) -> c_int = post_send(qp, wr);
    measured_post_write_16: fn(qp: *mut ibv_qp, wr: *mut ibv_send_wr) -> c_int = post_send(qp, wr);
    measured_post_recv_1: fn(qp: *mut ibv_qp, wr: *mut ibv_recv_wr) -> c_int = post_recv(qp, wr);
    measured_post_recv_16: fn(qp: *mut ibv_qp, wr: *mut ibv_recv_wr) -> c_int = post_recv(qp, wr);
    measured_post_srq_recv_1: fn(srq: *mut ibv_srq, wr: *mut ibv_recv_wr) -> c_int = post_srq_recv(srq, wr);
    measured_post_srq_recv_16: fn(srq: *mut ibv_srq, wr: *mut ibv_recv_wr) -> c_int = post_srq_recv(srq, wr);
    measured_poll_empty: fn(cq: *mut ibv_cq, room: c_int, wc: *mut ibv_wc) -> c_int = inline::poll_cq(cq, room, wc);
    measured_poll_sends_1: fn(cq: *mut ibv_cq, room: c_int, wc: *mut ibv_wc) -> c_int = inline::poll_cq(cq, room, wc);
    measured_poll_sends_16: fn(cq: *mut ibv_cq, room: c_int, wc: *mut ibv_wc) -> c_int = inline::poll_cq(cq, room, wc);
    measured_poll_writes_16: fn(cq: *mut ibv_cq, room: c_int, wc: *mut ibv_wc) -> c_int = inline::poll_cq(cq, room, wc);
    measured_poll_recvs_1: fn(cq: *mut ibv_cq, room: c_int, wc: *mut ibv_wc) -> c_int = inline::poll_cq(cq, room, wc);
    measured_poll_recvs_16: fn(cq: *mut ibv_cq, room: c_int, wc: *mut ibv_wc) -> c_int = inline::poll_cq(cq, room, wc);
    measured_poll_srq_recvs_1: fn(cq: *mut ibv_cq, room: c_int, wc: *mut ibv_wc) -> c_int = inline::poll_cq(cq, room, wc);
    measured_poll_srq_recvs_16: fn(cq: *mut ibv_cq, room: c_int, wc: *mut ibv_wc) -> c_int = inline::poll_cq(cq, room, wc);
    measured_arm: fn(cq: *mut ibv_cq) -> c_int = inline::req_notify_cq(cq, 0);
    measured_wr_post_16: fn(qp: *mut ibv_qp_ex, sge: ibv_sge) -> c_int = wr_post(qp, sge);
    measured_poll_ex_16: fn(cq: *mut ibv_cq_ex) -> c_int = poll_ex(cq);
    measured_flush: fn(cq: *mut ibv_cq, room: c_int, wc: *mut ibv_wc) -> c_int = inline::poll_cq(cq, room, wc);
}

unsafe fn post_send(qp: *mut ibv_qp, wr: *mut ibv_send_wr) -> c_int {
    let mut bad = ptr::null_mut();
    // SAFETY: the caller's promise.
    unsafe { inline::post_send(qp, wr, &raw mut bad) }
}

unsafe fn post_recv(qp: *mut ibv_qp, wr: *mut ibv_recv_wr) -> c_int {
    let mut bad = ptr::null_mut();
    // SAFETY: the caller's promise.
    unsafe { inline::post_recv(qp, wr, &raw mut bad) }
}

unsafe fn post_srq_recv(srq: *mut ibv_srq, wr: *mut ibv_recv_wr) -> c_int {
    let mut bad = ptr::null_mut();
    // SAFETY: the caller's promise.
    unsafe { inline::post_srq_recv(srq, wr, &raw mut bad) }
}

/// A draft of 16 SENDs of `sge`.
#[inline]
unsafe fn wr_post(qp: *mut ibv_qp_ex, sge: ibv_sge) -> c_int {
    // SAFETY: a QP that was created with these operations, and the caller's promise.
    unsafe {
        wr_call!(qp, wr_start);
        for _ in 0..16 {
            (*qp).wr_flags = guest::verbs::sys::IBV_SEND_SIGNALED;
            wr_call!(qp, wr_send);
            wr_call!(qp, wr_set_sge, sge.lkey, sge.addr, sge.length);
        }
        wr_call!(qp, wr_complete)
    }
}

/// A batch of at most 16, of each of which the length is read; how many.
#[inline]
unsafe fn poll_ex(cq: *mut ibv_cq_ex) -> c_int {
    let mut attributes = ibv_poll_cq_attr { comp_mask: 0 };
    // SAFETY: an extended CQ of which the length may be read, and the caller's promise.
    unsafe {
        let (Some(start), Some(next), Some(end), Some(byte_len)) = (
            (*cq).start_poll,
            (*cq).next_poll,
            (*cq).end_poll,
            (*cq).read_byte_len,
        ) else {
            return 0;
        };
        if start(cq, &raw mut attributes) != 0 {
            return 0;
        }
        let mut count = 1;
        byte_len(cq);
        while count < 16 && next(cq) == 0 {
            byte_len(cq);
            count += 1;
        }
        end(cq);
        count
    }
}
