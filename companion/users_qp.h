/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* A user's QP, as far as the exported half of it tells. */
#ifndef LASTWQE_USERS_QP_H
#define LASTWQE_USERS_QP_H

#include <rdma/ib_verbs.h>

/*
 * Whether this is a QP of that driver, a user has it, and it is not being destroyed. The caller sees to it
 * that it is not gone before he is done with it. If a driver's QP turns out to be something else, one line
 * says so, and none is a user's any more.
 */
bool is_users_qp(struct ib_qp *qp, enum rdma_driver_id driver);

/* Has the user told of an event of his QP. In any context; no lock of the driver is held. */
void tell_user(struct ib_qp *qp, enum ib_event_type type);

#endif
