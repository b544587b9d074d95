// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
//! Turns the installed `infiniband/verbs.h` into Rust declarations.
//!
//! No link flag is printed: a provider is loaded by libibverbs and finds it at run time, and a
//! test that calls the `extern` functions adds `-libverbs` itself.

use std::{env, error::Error, path::PathBuf};

use bindgen::callbacks::{DeriveTrait, ImplementsTrait, ParseCallbacks};

/// Tells bindgen what it cannot know of the types that come from `libc`.
#[derive(Debug)]
struct LibcTypes;

impl ParseCallbacks for LibcTypes {
    fn blocklisted_type_implements_trait(
        &self,
        _name: &str,
        derive_trait: DeriveTrait,
    ) -> Option<ImplementsTrait> {
        matches!(derive_trait, DeriveTrait::Copy | DeriveTrait::Debug)
            .then_some(ImplementsTrait::Yes)
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    println!("cargo:rerun-if-changed=wrapper.h");

    let mut builder = bindgen::Builder::default()
        .header("wrapper.h")
        .allowlist_type("_?ibv_.*")
        .allowlist_function("_?ibv_.*")
        .allowlist_var("IBV_.*")
        // `verbs_context` differs between releases and is never laid out at build time.
        .blocklist_type("verbs_context")
        .allowlist_type("rdma_driver_id")
        // The system's own types come from `libc`.
        .blocklist_type("pthread_.*_t|__pthread_.*|__atomic_wide_counter.*|timespec")
        .blocklist_type("sockaddr.*|in6?_addr.*|in_port_t|socklen_t|__socklen_t|sa_family_t")
        .raw_line("use libc::*;")
        .default_enum_style(bindgen::EnumVariation::Consts)
        .prepend_enum_name(false)
        .derive_default(true)
        .generate_comments(false)
        .layout_tests(true)
        .rust_edition(bindgen::RustEdition::Edition2024)
        .parse_callbacks(Box::new(LibcTypes))
        .parse_callbacks(Box::new(bindgen::CargoCallbacks::new()));
    if env::var_os("CARGO_FEATURE_CM").is_some() {
        builder = builder
            .clang_arg("-DWITH_RDMA_CM")
            .allowlist_type("rdma_.*")
            .allowlist_function("rdma_.*")
            .allowlist_var("RDMA_.*");
    }

    let output = PathBuf::from(env::var("OUT_DIR")?).join("verbs.rs");
    builder.generate()?.write_to_file(output)?;
    Ok(())
}
