// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause

//! The commands of `/dev/infiniband/uverbsN` that a driver extends.
//!
//! C header: `include/uapi/rdma/ib_user_verbs.h`.
//!
//! A core struct here is the C struct `ib_uverbs_*` without its flexible `driver_data`. [`Request`]
//! and [`Response`] put the driver's part behind it, at the offset where the kernel looks for it.

mod command;
mod completion_queue;
mod context;
mod event;
mod memory;
mod queue_pair;
mod shared_receive_queue;

pub use command::{CommandHeader, ExCommandHeader, ExRequest, Request, Response};
pub use completion_queue::{
    CreateCq, CreateCqResp, ExCreateCq, ExCreateCqResp, ReqNotifyCq, ResizeCq, ResizeCqResp, Wc,
};
pub use context::{
    CqModerationCaps, CreateAhResp, ExQueryDeviceResp, GetContext, GetContextResp, OdpCaps,
    QueryDeviceResp, QueryPort, RssCaps, TmCaps,
};
pub use event::AsyncEventDesc;
pub use memory::{AllocMw, AllocMwResp, AllocPd, AllocPdResp, RegMr, RegMrResp};
pub use queue_pair::{
    CreateQp, CreateQpResp, ExCreateQp, ExCreateQpResp, ModifyQp, PostSend, PostSendResp, QpDest,
    QueryQp,
};
pub use shared_receive_queue::{CreateSrq, CreateSrqResp, CreateXsrq, ModifySrq, QuerySrq};

/// Version of the uverbs ABI that these types describe (`IB_USER_VERBS_ABI_VERSION`).
pub const ABI_VERSION: u32 = 6;

/// Marks a command whose header continues with [`ExCommandHeader`].
pub const CMD_FLAG_EXTENDED: u32 = 0x8000_0000;

/// Opens the device; core struct [`GetContext`].
pub const CMD_GET_CONTEXT: u32 = 0;
/// Reads the attributes of the device; the extended form answers [`ExQueryDeviceResp`].
pub const CMD_QUERY_DEVICE: u32 = 1;
/// Reads the attributes of a port; core struct [`QueryPort`].
pub const CMD_QUERY_PORT: u32 = 2;
/// Allocates a protection domain; core struct [`AllocPd`].
pub const CMD_ALLOC_PD: u32 = 3;
/// Frees a protection domain.
pub const CMD_DEALLOC_PD: u32 = 4;
/// Creates an address handle; answers [`CreateAhResp`].
pub const CMD_CREATE_AH: u32 = 5;
/// Destroys an address handle.
pub const CMD_DESTROY_AH: u32 = 8;
/// Registers a memory region; core struct [`RegMr`].
pub const CMD_REG_MR: u32 = 9;
/// Deregisters a memory region.
pub const CMD_DEREG_MR: u32 = 13;
/// Allocates a memory window; core struct [`AllocMw`].
pub const CMD_ALLOC_MW: u32 = 14;
/// Frees a memory window.
pub const CMD_DEALLOC_MW: u32 = 16;
/// Creates a completion queue; core struct [`CreateCq`], extended [`ExCreateCq`].
pub const CMD_CREATE_CQ: u32 = 18;
/// Resizes a completion queue; core struct [`ResizeCq`].
pub const CMD_RESIZE_CQ: u32 = 19;
/// Destroys a completion queue.
pub const CMD_DESTROY_CQ: u32 = 20;
/// Arms a completion queue; core struct [`ReqNotifyCq`].
pub const CMD_REQ_NOTIFY_CQ: u32 = 23;
/// Creates a queue pair; core struct [`CreateQp`], extended [`ExCreateQp`].
pub const CMD_CREATE_QP: u32 = 24;
/// Reads the attributes of a queue pair; core struct [`QueryQp`].
pub const CMD_QUERY_QP: u32 = 25;
/// Changes the attributes of a queue pair; core struct [`ModifyQp`].
pub const CMD_MODIFY_QP: u32 = 26;
/// Destroys a queue pair.
pub const CMD_DESTROY_QP: u32 = 27;
/// Rings the doorbell of a send queue; core struct [`PostSend`].
pub const CMD_POST_SEND: u32 = 28;
/// Joins a queue pair to a multicast group.
pub const CMD_ATTACH_MCAST: u32 = 30;
/// Removes a queue pair from a multicast group.
pub const CMD_DETACH_MCAST: u32 = 31;
/// Creates a shared receive queue; core struct [`CreateSrq`].
pub const CMD_CREATE_SRQ: u32 = 32;
/// Changes the attributes of a shared receive queue; core struct [`ModifySrq`].
pub const CMD_MODIFY_SRQ: u32 = 33;
/// Reads the attributes of a shared receive queue; core struct [`QuerySrq`].
pub const CMD_QUERY_SRQ: u32 = 34;
/// Destroys a shared receive queue.
pub const CMD_DESTROY_SRQ: u32 = 35;
/// Creates a shared receive queue of a given type; core struct [`CreateXsrq`].
pub const CMD_CREATE_XSRQ: u32 = 39;
