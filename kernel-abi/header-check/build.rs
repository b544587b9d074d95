// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause

//! Turns the installed kernel headers into Rust declarations.
//!
//! To check the headers of another kernel, put its `include/uapi` first:
//! `BINDGEN_EXTRA_CLANG_ARGS=-I<linux>/include/uapi`.

use std::{env, error::Error, fs, path::PathBuf};

fn main() -> Result<(), Box<dyn Error>> {
    println!("cargo:rerun-if-changed=headers.h");
    println!("cargo:rustc-check-cfg=cfg(rxe_flush)");

    let bindings = bindgen::Builder::default()
        .header("headers.h")
        .allowlist_type("(ib_uverbs|rxe|siw)_.*|mminfo")
        .allowlist_var("(IB_USER_VERBS|RXE|SIW)_.*")
        .default_enum_style(bindgen::EnumVariation::Consts)
        .prepend_enum_name(false)
        .generate_comments(false)
        .rust_edition(bindgen::RustEdition::Edition2024)
        .parse_callbacks(Box::new(bindgen::CargoCallbacks::new()))
        .generate()?
        .to_string();

    // `wr.flush` came after linux 6.1.
    if bindings.contains("pub flush:") {
        println!("cargo:rustc-cfg=rxe_flush");
    }
    fs::write(
        PathBuf::from(env::var("OUT_DIR")?).join("headers.rs"),
        bindings,
    )?;
    Ok(())
}
