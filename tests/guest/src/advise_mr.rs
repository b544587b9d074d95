// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause

//! Theme `advise_mr`: neither driver pages on demand in linux 6.1 and 6.12, so there is nothing to advise.

use guest::links::Device;
use guest::pair::Bench;
use guest::suite::{Outcome, Suite};
use guest::verbs::errno;

/// Adds the cases of this theme.
pub(crate) fn add(suite: &mut Suite) {
    for device in Device::ALL {
        suite.on("advise_mr", device, "unsupported", unsupported);
    }
}

/// Whatever is advised of a region.
fn unsupported(device: Device) -> Outcome {
    let bench = Bench::open_directly(device)?;
    let memory = bench.memory(4096)?;
    // To prefetch, for reading, for writing, without faults, and what there is not; also at once.
    for advice in [0, 1, 2, 77] {
        for flags in [0, 1] {
            let said = bench
                .pd
                .advise_mr(advice, flags, &[memory.sge(0, 4096), memory.sge(8, 8)]);
            assert_eq!(errno(said), Some(libc::EOPNOTSUPP), "{advice}, {flags}");
        }
    }
    Ok(())
}
