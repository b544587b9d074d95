// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause

//! Links the guest tests against the installed libibverbs and librdmacm: unlike the provider, they
//! are an ordinary application of both.

fn main() {
    println!("cargo:rustc-link-lib=ibverbs");
    println!("cargo:rustc-link-lib=rdmacm");
    println!("cargo:rerun-if-changed=build.rs");
}
