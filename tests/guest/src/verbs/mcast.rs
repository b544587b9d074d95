// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause

//! Multicast groups.

use std::io;

use super::{Qp, check, sys};

impl Qp {
    /// Attaches the QP to a group.
    ///
    /// # Errors
    ///
    /// The errno of `ibv_attach_mcast`.
    pub fn attach_mcast(&self, group: &sys::ibv_gid, lid: u16) -> io::Result<()> {
        // SAFETY: the QP is alive, and the GID a valid one.
        check(unsafe { sys::ibv_attach_mcast(self.raw(), group, lid) })
    }

    /// Detaches it.
    ///
    /// # Errors
    ///
    /// The errno of `ibv_detach_mcast`.
    pub fn detach_mcast(&self, group: &sys::ibv_gid, lid: u16) -> io::Result<()> {
        // SAFETY: the QP is alive, and the GID a valid one.
        check(unsafe { sys::ibv_detach_mcast(self.raw(), group, lid) })
    }
}
