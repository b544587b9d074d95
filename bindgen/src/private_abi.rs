// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
//! The functions of the loaded libibverbs, by exact version.
//!
//! libibverbs gives every private function the symbol version `IBVERBS_PRIVATE_<N>`, where `N` is
//! the number of its private ABI, and puts the number into the register function's name too.

use std::{
    ffi::{CStr, CString, c_void},
    mem::transmute,
};

use crate::{Decline, generation::Generation, provider::verbs_device_ops, symbols::Symbols};

/// The type of `verbs_register_driver_<N>`.
pub(crate) type RegisterDriver = unsafe extern "C" fn(*const verbs_device_ops);

/// A loaded libibverbs whose private ABI number is known.
pub(crate) struct PrivateAbi<'a> {
    pub(crate) number: u32,
    pub(crate) register_driver: RegisterDriver,
    symbols: &'a Symbols,
    version: CString,
}

impl<'a> PrivateAbi<'a> {
    /// The private ABI of `symbols`, if it is one of the known.
    pub(crate) fn of(symbols: &'a Symbols) -> Result<Self, Decline> {
        Generation::PABIS
            .into_iter()
            .find_map(|number| Self::with_number(symbols, number))
            .ok_or(Decline::UnknownPrivateAbi)
    }

    fn with_number(symbols: &'a Symbols, number: u32) -> Option<Self> {
        let name = CString::new(format!("verbs_register_driver_{number}")).ok()?;
        let version = CString::new(format!("IBVERBS_PRIVATE_{number}")).ok()?;
        let address = symbols.versioned(&name, &version)?;
        // SAFETY: the function has this type in every release that has it (v33 to v65).
        let register_driver = unsafe { transmute::<*mut c_void, RegisterDriver>(address.as_ptr()) };
        Some(Self {
            number,
            register_driver,
            symbols,
            version,
        })
    }

    /// The address of a private function.
    pub(crate) fn private(&self, name: &'static CStr) -> Result<*mut c_void, Decline> {
        self.public(name, &self.version)
    }

    /// The address of a public function, as it was in `version`.
    pub(crate) fn public(
        &self,
        name: &'static CStr,
        version: &CStr,
    ) -> Result<*mut c_void, Decline> {
        match self.symbols.versioned(name, version) {
            Some(address) => Ok(address.as_ptr()),
            None => Err(Decline::MissingFunction {
                pabi: self.number,
                name,
            }),
        }
    }
}
