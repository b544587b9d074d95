// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Both drivers' structures begin with struct ib_qp, which is known here, and go on with what is not. Nothing
 * is followed that has not been read with care.
 */
#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#include <linux/kernel.h>
#include <linux/uaccess.h>
#include <rdma/restrack.h>

#include "users_qp.h"

/* A QP is not what is expected: nothing is raised any more. */
static bool is_strange;

static bool is_of(struct ib_qp *qp, enum rdma_driver_id driver)
{
	struct ib_device *device;
	struct ib_qp *self;
	enum rdma_restrack_type type;
	enum rdma_driver_id id;

	return !get_kernel_nofault(self, &qp->real_qp) && self == qp &&
	       !get_kernel_nofault(type, &qp->res.type) && type == RDMA_RESTRACK_QP &&
	       !get_kernel_nofault(device, &qp->device) &&
	       !get_kernel_nofault(id, &device->ops.driver_id) && id == driver;
}

bool is_users_qp(struct ib_qp *qp, enum rdma_driver_id driver)
{
	struct ib_uobject *object;

	if (READ_ONCE(is_strange))
		return false;
	if (!is_of(qp, driver)) {
		WRITE_ONCE(is_strange, true);
		pr_err_once("%s's QPs are not what is expected: no more events\n",
			    driver == RDMA_DRIVER_SIW ? "siw" : "rdma_rxe");
		return false;
	}
	/* uverbs' object begins with what every object has, and that names the QP. */
	object = (struct ib_uobject *)READ_ONCE(qp->uobject);
	if (!object || rdma_is_kernel_res(&qp->res) || READ_ONCE(object->object) != qp)
		return false;
	/* core/rdma_core.c: it is locked for its destruction, and the lock is -1. */
	return atomic_read(&object->usecnt) >= 0;
}

void tell_user(struct ib_qp *qp, enum ib_event_type type)
{
	struct ib_event event = {
		.device = qp->device,
		.element.qp = qp,
		.event = type,
	};

	/* uverbs' handler takes a spinlock and allocates atomically (core/uverbs_main.c: ib_uverbs_async_handler). */
	if (qp->event_handler)
		qp->event_handler(&event, qp->qp_context);
}
