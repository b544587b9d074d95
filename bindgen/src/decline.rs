// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
//! Why a libibverbs is left alone.

use std::{error::Error, ffi::CStr, fmt};

use crate::{
    generation::{Generation, Sizes},
    ops::Op,
};

/// Why the loaded libibverbs cannot be served; displays as one line.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Decline {
    /// No `libibverbs.so.1` is loaded in this process.
    NotLoaded,
    /// None of the known private ABIs is there.
    UnknownPrivateAbi,
    /// The private ABI is known but lacks a function it should have.
    MissingFunction {
        /// The private ABI found.
        pabi: u32,
        /// The function looked for.
        name: &'static CStr,
    },
    /// libibverbs did not make the context that is measured; most likely out of memory.
    NoProbe,
    /// The measured context has no recognisable shape.
    Unrecognisable {
        /// The private ABI found.
        pabi: u32,
        /// What could not be found in it.
        what: &'static str,
    },
    /// The layout has sizes of no known generation of its private ABI.
    UnknownSizes {
        /// The private ABI found.
        pabi: u32,
        /// The sizes measured.
        found: Sizes,
    },
    /// The sizes are known but an operation is not where it should be.
    MovedOp {
        /// The private ABI found.
        pabi: u32,
        /// The generation whose sizes were found.
        generation: char,
        /// The operation.
        op: Op,
        /// Its slot in the table of operations, if it was found at all.
        found: Option<usize>,
        /// Its slot in the generation.
        expected: usize,
    },
}

impl fmt::Display for Decline {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotLoaded => write!(f, "libibverbs.so.1 is not loaded"),
            Self::UnknownPrivateAbi => {
                write!(f, "libibverbs has none of the known private ABIs")?;
                let mut separator = " ";
                for pabi in Generation::PABIS {
                    write!(f, "{separator}{pabi}")?;
                    separator = ", ";
                }
                Ok(())
            }
            Self::MissingFunction { pabi, name } => {
                write!(
                    f,
                    "libibverbs with private ABI {pabi} lacks {}",
                    name.to_string_lossy()
                )
            }
            Self::NoProbe => write!(f, "libibverbs could not make a context to measure"),
            Self::Unrecognisable { pabi, what } => {
                write!(f, "libibverbs with private ABI {pabi}: {what} not found")
            }
            Self::UnknownSizes { pabi, found } => {
                write!(
                    f,
                    "libibverbs with private ABI {pabi} has an unknown layout: {found}"
                )?;
                let mut introduction = "; known: ";
                for known in Generation::of_pabi(*pabi) {
                    write!(f, "{introduction}{}", known.sizes)?;
                    introduction = " or ";
                }
                Ok(())
            }
            Self::MovedOp {
                pabi,
                generation,
                op,
                found,
                expected,
            } => {
                write!(
                    f,
                    "libibverbs with private ABI {pabi} has {} in ",
                    op.name()
                )?;
                match found {
                    Some(slot) => write!(f, "slot {slot}")?,
                    None => write!(f, "no slot")?,
                }
                write!(
                    f,
                    ", expected slot {expected} as in generation {generation}"
                )
            }
        }
    }
}

impl Error for Decline {}
