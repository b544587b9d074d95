// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
//! The installed libibverbs is one that this crate knows. Needs no device.

use std::mem::size_of;

use rdma_core_sys::{Library, generation::Generation, provider::verbs_qp};

mod loaded;

#[test]
fn the_installed_libibverbs_is_of_a_known_generation() {
    loaded::libibverbs();
    let library = Library::get().expect("the installed libibverbs is served");
    assert!(Generation::KNOWN.contains(&library.generation));
    assert!(library.generation.pabis.contains(&library.pabi));
    assert!(library.generation.sizes.qp_comp_mask + 16 <= size_of::<verbs_qp>());
}
