// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
//! Lines go where libibverbs' own go, and no further. Alone in its process, whose environment it
//! changes.

use std::{env, fs, process, ptr::null_mut};

use rdma_core_sys::{
    ibv_free_device_list, ibv_get_device_list,
    log::log,
    provider::{VERBS_LOG_DEBUG, VERBS_LOG_ERR, VERBS_LOG_WARN},
};

#[link(name = "ibverbs")]
unsafe extern "C" {}

#[test]
fn the_level_and_the_file_are_libibverbs_own() {
    let file = env::temp_dir().join(format!("verbs-log-{}", process::id()));
    // SAFETY: no other thread of this process reads or writes the environment now.
    unsafe {
        env::set_var("VERBS_LOG_LEVEL", VERBS_LOG_WARN.to_string());
        env::set_var("VERBS_LOG_FILE", &file);
    }

    log(VERBS_LOG_ERR, c"before libibverbs read the environment");
    // SAFETY: the list, which may be missing where the kernel has no RDMA, is freed at once.
    unsafe {
        let list = ibv_get_device_list(null_mut());
        if !list.is_null() {
            ibv_free_device_list(list);
        }
    }
    log(VERBS_LOG_WARN, c"100 %s, as given");
    log(VERBS_LOG_DEBUG, c"below the level");

    // SAFETY: null stands for every open stream.
    unsafe { libc::fflush(null_mut()) };
    let lines = fs::read_to_string(&file).expect("libibverbs made its log file");
    fs::remove_file(&file).expect("the log file is ours");
    assert_eq!(lines, "100 %s, as given\n");
}
