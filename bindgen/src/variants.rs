// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
//! The three private functions whose C type changed between the served releases.
//!
//! Each gained a parameter that these drivers never use, and each change came with a new private
//! ABI number: `ibv_cmd_get_context` in v57, `ibv_cmd_create_cq_ex` in v59, `ibv_cmd_create_qp_ex2`
//! in v64.

use std::{
    ffi::{c_int, c_void},
    mem::transmute,
    ptr::null_mut,
};

use crate::{
    Decline, Library,
    private_abi::PrivateAbi,
    provider::{verbs_context, verbs_cq, verbs_qp},
    public::{ibv_context, ibv_cq_init_attr_ex, ibv_qp_init_attr_ex},
};

type GetContext = unsafe extern "C" fn(
    *mut verbs_context,
    cmd: *mut c_void,
    cmd_size: usize,
    resp: *mut c_void,
    resp_size: usize,
) -> c_int;

type GetContextFdArray = unsafe extern "C" fn(
    *mut verbs_context,
    cmd: *mut c_void,
    cmd_size: usize,
    fd_array: *mut c_void,
    resp: *mut c_void,
    resp_size: usize,
) -> c_int;

type CreateCqEx = unsafe extern "C" fn(
    *mut ibv_context,
    *const ibv_cq_init_attr_ex,
    *mut verbs_cq,
    cmd: *mut c_void,
    cmd_size: usize,
    resp: *mut c_void,
    resp_size: usize,
    cmd_flags: u32,
) -> c_int;

type CreateCqExProviderAttributes = unsafe extern "C" fn(
    *mut ibv_context,
    *const ibv_cq_init_attr_ex,
    provider_attributes: *mut c_void,
    *mut verbs_cq,
    cmd: *mut c_void,
    cmd_size: usize,
    resp: *mut c_void,
    resp_size: usize,
    cmd_flags: u32,
) -> c_int;

type CreateQpEx2 = unsafe extern "C" fn(
    *mut ibv_context,
    *mut verbs_qp,
    *mut ibv_qp_init_attr_ex,
    cmd: *mut c_void,
    cmd_size: usize,
    resp: *mut c_void,
    resp_size: usize,
) -> c_int;

type CreateQpEx2Driver = unsafe extern "C" fn(
    *mut ibv_context,
    *mut verbs_qp,
    *mut ibv_qp_init_attr_ex,
    cmd: *mut c_void,
    cmd_size: usize,
    resp: *mut c_void,
    resp_size: usize,
    driver: *mut c_void,
) -> c_int;

/// The functions in the type that the loaded libibverbs has.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Variants {
    get_context: Variant<GetContext, GetContextFdArray>,
    create_cq_ex: Variant<CreateCqEx, CreateCqExProviderAttributes>,
    create_qp_ex2: Variant<CreateQpEx2, CreateQpEx2Driver>,
}

#[derive(Clone, Copy, Debug)]
enum Variant<Old, New> {
    Old(Old),
    New(New),
}

impl Variants {
    pub(crate) fn find(abi: &PrivateAbi<'_>) -> Result<Self, Decline> {
        let get_context = abi.private(c"ibv_cmd_get_context")?;
        let create_cq_ex = abi.private(c"ibv_cmd_create_cq_ex")?;
        let create_qp_ex2 = abi.private(c"ibv_cmd_create_qp_ex2")?;
        // SAFETY: the type that each private ABI gives these functions is in the module's header.
        unsafe {
            Ok(Self {
                get_context: if abi.number < 57 {
                    Variant::Old(transmute::<*mut c_void, GetContext>(get_context))
                } else {
                    Variant::New(transmute::<*mut c_void, GetContextFdArray>(get_context))
                },
                create_cq_ex: if abi.number < 59 {
                    Variant::Old(transmute::<*mut c_void, CreateCqEx>(create_cq_ex))
                } else {
                    Variant::New(transmute::<*mut c_void, CreateCqExProviderAttributes>(
                        create_cq_ex,
                    ))
                },
                create_qp_ex2: if abi.number < 64 {
                    Variant::Old(transmute::<*mut c_void, CreateQpEx2>(create_qp_ex2))
                } else {
                    Variant::New(transmute::<*mut c_void, CreateQpEx2Driver>(create_qp_ex2))
                },
            })
        }
    }
}

impl Library {
    /// Makes the kernel's context (`ibv_cmd_get_context`); 0 or a positive errno.
    ///
    /// # Safety
    ///
    /// * `context` is a context this library made.
    /// * `cmd` and `resp` are as [`calls`](crate::calls) says, for `get_context`.
    pub unsafe fn get_context(
        &self,
        context: *mut verbs_context,
        cmd: *mut c_void,
        cmd_size: usize,
        resp: *mut c_void,
        resp_size: usize,
    ) -> c_int {
        // SAFETY: the arguments are the caller's; no descriptor array is an allowed array.
        unsafe {
            match self.variants.get_context {
                Variant::Old(call) => call(context, cmd, cmd_size, resp, resp_size),
                Variant::New(call) => call(context, cmd, cmd_size, null_mut(), resp, resp_size),
            }
        }
    }

    /// Makes the kernel's completion queue for an extended CQ (`ibv_cmd_create_cq_ex`); 0 or a
    /// positive errno.
    ///
    /// # Safety
    ///
    /// * `context` is open, `attributes` and `cq` are readable and writable.
    /// * `cmd` and `resp` are as [`calls`](crate::calls) says, for the extended `create_cq`.
    #[expect(clippy::too_many_arguments, reason = "libibverbs' own list")]
    pub unsafe fn create_cq_ex(
        &self,
        context: *mut ibv_context,
        attributes: *const ibv_cq_init_attr_ex,
        cq: *mut verbs_cq,
        cmd: *mut c_void,
        cmd_size: usize,
        resp: *mut c_void,
        resp_size: usize,
        cmd_flags: u32,
    ) -> c_int {
        // SAFETY: the arguments are the caller's; provider attributes are optional.
        unsafe {
            match self.variants.create_cq_ex {
                Variant::Old(call) => call(
                    context, attributes, cq, cmd, cmd_size, resp, resp_size, cmd_flags,
                ),
                Variant::New(call) => call(
                    context,
                    attributes,
                    null_mut(),
                    cq,
                    cmd,
                    cmd_size,
                    resp,
                    resp_size,
                    cmd_flags,
                ),
            }
        }
    }

    /// Makes the kernel's queue pair for an extended QP (`ibv_cmd_create_qp_ex2`); 0 or a positive
    /// errno.
    ///
    /// # Safety
    ///
    /// * `context` is open, `qp` and `attributes` are readable and writable.
    /// * `cmd` and `resp` are as [`calls`](crate::calls) says, for the extended `create_qp`.
    #[expect(clippy::too_many_arguments, reason = "libibverbs' own list")]
    pub unsafe fn create_qp_ex2(
        &self,
        context: *mut ibv_context,
        qp: *mut verbs_qp,
        attributes: *mut ibv_qp_init_attr_ex,
        cmd: *mut c_void,
        cmd_size: usize,
        resp: *mut c_void,
        resp_size: usize,
    ) -> c_int {
        // SAFETY: the arguments are the caller's; driver attributes are optional.
        unsafe {
            match self.variants.create_qp_ex2 {
                Variant::Old(call) => call(context, qp, attributes, cmd, cmd_size, resp, resp_size),
                Variant::New(call) => call(
                    context,
                    qp,
                    attributes,
                    cmd,
                    cmd_size,
                    resp,
                    resp_size,
                    null_mut(),
                ),
            }
        }
    }
}
