// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause

//! lastwqe: a libibverbs provider for the kernel's software RDMA drivers, `rdma_rxe` and `siw`.
//!
//! A verb's name finds its file. The data paths, each to be read top to bottom:
//!
//! * post → ring → kernel: [`post_send`] and [`post_recv`], the driver's `send` and `recv`
//!   ([`rxe`], [`siw`]), [`ledger`], [`ring`], [`doorbell`]. The `ibv_wr_*` calls of [`wr_post`]
//!   gather in a [`draft`] what `ibv_wr_complete` hands to [`post_send`].
//! * kernel → ring → poll: [`poll_cq`] or [`start_poll`]; [`quick_poll`], [`run`] or [`settle`]; the driver's `cqe`,
//!   [`cookie`], [`met`], [`owners`], [`ledger`].
//! * sign of death → flush → completion: [`poll_cq`], [`async_event`], [`qp_state`], [`post_send`],
//!   [`post_recv`] or [`silence`], then [`death`], [`flush`], and [`bell`] for who sleeps.
//! * event → application: [`async_event`], [`last_wqe`], [`claim`], [`announcer`].
//!
//! What the two drivers have in common is generic over [`driver::Driver`]. [`ring`] alone touches
//! memory that the kernel shares; [`ledger`] is plain data; [`lock`] has the order of the locks. A
//! panic ends at [`boundary`], as the verb's failure.
//!
//! `// CAST:` stands beside each `as` that could change a number, and says why it does not.

mod acknowledge;
mod ah;
mod announcer;
mod async_event;
mod bell;
mod boundary;
mod claim;
mod clapper;
mod context;
mod cookie;
mod cq;
mod cq_ex;
mod death;
mod doorbell;
mod draft;
mod driver;
mod earlier_life;
mod errno;
mod flush;
mod held;
mod last_wqe;
mod ledger;
mod lock;
mod mcast;
mod met;
#[cfg(test)]
mod model;
mod mr;
mod mw;
mod object;
mod ops;
mod overrun;
mod own_queue;
mod owners;
mod pd;
mod poll_cq;
mod post_recv;
mod post_send;
mod qp;
mod qp_ex;
mod qp_state;
mod query_rt_values;
mod queue_pair;
mod quick_poll;
mod rarely;
mod read_ahead;
mod read_wc;
mod register;
mod resize_cq;
mod ring;
mod run;
mod rxe;
mod settle;
mod silence;
mod siw;
mod srq;
mod srq_ex;
mod start_poll;
mod td;
mod thread;
mod turn;
mod wr;
mod wr_post;
