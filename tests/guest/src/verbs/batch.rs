// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause

//! Polling an extended completion queue.

use std::io;

use super::{Cq, Wc, check, sys};

/// What an extended CQ of `entries` entries is created from, of which `wc_flags` are to be read.
#[must_use]
pub fn attributes_ex(entries: u32, wc_flags: u32) -> sys::ibv_cq_init_attr_ex {
    sys::ibv_cq_init_attr_ex {
        cqe: entries,
        wc_flags: wc_flags.into(),
        ..Default::default()
    }
}

/// A batch of completions, from `ibv_start_poll` to `ibv_end_poll`, which is called when it is dropped.
#[derive(Debug)]
pub struct Batch<'c> {
    cq: &'c Cq,
}

impl<'c> Batch<'c> {
    /// Begins a batch with the first completion; `None` if there is none.
    ///
    /// # Errors
    ///
    /// What `ibv_start_poll` returns, but for `ENOENT`.
    pub fn start(cq: &'c Cq) -> io::Result<Option<Self>> {
        let raw = extended(cq);
        let mut attr = sys::ibv_poll_cq_attr { comp_mask: 0 };
        // SAFETY: an extended CQ that is alive.
        let started = unsafe { (*raw).start_poll.map(|start| start(raw, &raw mut attr)) };
        Ok(found(started)?.then(|| Self { cq }))
    }

    /// Begins a batch with attributes that do not exist, and returns what that is answered with.
    #[must_use]
    pub fn start_with_unknown(cq: &Cq) -> i32 {
        let raw = extended(cq);
        let mut attr = sys::ibv_poll_cq_attr { comp_mask: 1 };
        // SAFETY: an extended CQ that is alive.
        unsafe {
            (*raw)
                .start_poll
                .map_or(0, |start| start(raw, &raw mut attr))
        }
    }

    /// Goes on to the next completion; false if there is none.
    ///
    /// # Errors
    ///
    /// What `ibv_next_poll` returns, but for `ENOENT`.
    pub fn go_on(&mut self) -> io::Result<bool> {
        let raw = extended(self.cq);
        // SAFETY: an extended CQ that is alive, in a batch.
        found(unsafe { (*raw).next_poll.map(|next| next(raw)) })
    }

    /// The completion, as far as it can be read: what was not asked for is 0.
    #[must_use]
    pub fn wc(&self) -> Wc {
        let raw = extended(self.cq);
        // SAFETY: an extended CQ that is alive, in a batch.
        unsafe {
            let cq = &*raw;
            let imm_data = cq.read_imm_data.map_or(0, |read| read(raw));
            Wc(sys::ibv_wc {
                wr_id: cq.wr_id,
                status: cq.status,
                opcode: cq.read_opcode.map_or(u32::MAX, |read| read(raw)),
                vendor_err: cq.read_vendor_err.map_or(u32::MAX, |read| read(raw)),
                byte_len: cq.read_byte_len.map_or(0, |read| read(raw)),
                __bindgen_anon_1: sys::ibv_wc__bindgen_ty_1 { imm_data },
                qp_num: cq.read_qp_num.map_or(0, |read| read(raw)),
                src_qp: cq.read_src_qp.map_or(0, |read| read(raw)),
                wc_flags: cq.read_wc_flags.map_or(u32::MAX, |read| read(raw)),
                pkey_index: 0,
                slid: u16::try_from(cq.read_slid.map_or(0, |read| read(raw))).unwrap_or(u16::MAX),
                sl: cq.read_sl.map_or(0, |read| read(raw)),
                dlid_path_bits: cq.read_dlid_path_bits.map_or(0, |read| read(raw)),
            })
        }
    }

    /// What was asked for when the CQ was created, as its readers tell; `enum ibv_create_cq_wc_flags`.
    #[must_use]
    pub fn readable(&self) -> u32 {
        // SAFETY: as above.
        let cq = unsafe { &*extended(self.cq) };
        [
            (cq.read_byte_len.is_some(), sys::IBV_WC_EX_WITH_BYTE_LEN),
            (cq.read_imm_data.is_some(), sys::IBV_WC_EX_WITH_IMM),
            (cq.read_qp_num.is_some(), sys::IBV_WC_EX_WITH_QP_NUM),
            (cq.read_src_qp.is_some(), sys::IBV_WC_EX_WITH_SRC_QP),
            (cq.read_slid.is_some(), sys::IBV_WC_EX_WITH_SLID),
            (cq.read_sl.is_some(), sys::IBV_WC_EX_WITH_SL),
            (
                cq.read_dlid_path_bits.is_some(),
                sys::IBV_WC_EX_WITH_DLID_PATH_BITS,
            ),
            (
                cq.read_completion_ts.is_some(),
                sys::IBV_WC_EX_WITH_COMPLETION_TIMESTAMP,
            ),
        ]
        .into_iter()
        .fold(
            0,
            |flags, (has, flag)| if has { flags | flag } else { flags },
        )
    }

    /// When it came, on the device's clock and on the wall, in nanoseconds; 0 if it was not asked for.
    #[must_use]
    pub fn times(&self) -> (u64, u64) {
        let raw = extended(self.cq);
        // SAFETY: as above.
        unsafe {
            let cq = &*raw;
            let clock = cq.read_completion_ts.map_or(0, |read| read(raw));
            let wall = cq.read_completion_wallclock_ns.map_or(0, |read| read(raw));
            (clock, wall)
        }
    }
}

impl Drop for Batch<'_> {
    fn drop(&mut self) {
        let raw = extended(self.cq);
        // SAFETY: an extended CQ that is alive, in a batch that ends here.
        unsafe {
            if let Some(end) = (*raw).end_poll {
                end(raw);
            }
        }
    }
}

fn extended(cq: &Cq) -> *mut sys::ibv_cq_ex {
    cq.raw().cast()
}

/// Whether a call came to a completion.
fn found(returned: Option<i32>) -> io::Result<bool> {
    match returned {
        Some(libc::ENOENT) => Ok(false),
        Some(errno) => check(errno).map(|()| true),
        None => Err(io::Error::other("the CQ has no such function")),
    }
}

impl Cq {
    /// Polls an extended CQ for one batch of at most `room.len()` completions.
    pub(super) fn poll_batch(&self, room: &mut [Wc]) -> io::Result<usize> {
        if room.is_empty() {
            return Ok(0);
        }
        let Some(mut batch) = Batch::start(self)? else {
            return Ok(0);
        };
        let mut count = 0;
        while count < room.len() {
            room[count] = batch.wc();
            count += 1;
            if count < room.len() && !batch.go_on()? {
                break;
            }
        }
        Ok(count)
    }
}
