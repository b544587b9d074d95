// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * siw: one event at the end of each connection of a user's QP, unless the driver has told of it.
 *
 * Whatever ends a connection from outside, siw_cm_work_handler() deals with it, in a workqueue of one
 * thread: it tells the connection manager (siw_cm_upcall), then has the QP flushed
 * (siw_qp_llp_close). What those two and a few others are told says how it ended. The handler holds a
 * reference to the QP meanwhile, for which siw_destroy_qp() waits: the QP is there until the return
 * probe is done, and so is what uverbs has of it, which goes after it.
 *
 * linux 6.1.192, 6.12.117: drivers/infiniband/sw/siw/siw_cm.c, siw_qp.c, siw_qp_rx.c, siw_verbs.c.
 */
#include <linux/kernel.h>
#include <linux/kprobes.h>
#include <linux/module.h>
#include <linux/sched.h>
#include <net/sock.h>
#include <net/tcp_states.h>
#include <rdma/ib_verbs.h>
#include <rdma/iw_cm.h>

#include "driver.h"
#include "notes.h"
#include "probes.h"
#include "users_qp.h"

/* The note of an endpoint, from its socket; then that of the thread that deals with its end. */
enum how {
	HOW_UNKNOWN,
	HOW_CLOSED,	 /* the peer has closed it */
	HOW_RESET,	 /* the peer has reset it */
	HOW_LOST,	 /* TCP has given it up */
	HOW_DROPPED,	 /* siw has dropped it, because of what it received or was told to do */
	HOW_UNCONNECTED, /* it has never been one */
};

/* The note of a QP: bits. */
#define QP_TERMINATED 1UL /* a TERMINATE has come */
#define QP_FAILED 2UL	  /* the driver has raised an error */
#define QP_DRAINED 4UL	  /* the driver has raised SQ_DRAINED */

/* How many connections have ended so, for the administrator. */
static unsigned long closed, bad_close, reset, lost, terminated;
module_param(closed, ulong, 0444);
module_param(bad_close, ulong, 0444);
module_param(reset, ulong, 0444);
module_param(lost, ulong, 0444);
module_param(terminated, ulong, 0444);
MODULE_PARM_DESC(closed, "connections closed by the peer (count)");
MODULE_PARM_DESC(bad_close, "connections dropped because of what was received, or closed with sends in the queue (count)");
MODULE_PARM_DESC(reset, "connections reset by the peer (count)");
MODULE_PARM_DESC(lost, "connections that TCP gave up (count)");
MODULE_PARM_DESC(terminated, "connections ended by a TERMINATE of the peer (count)");

/* siw_cm_llp_state_change(sk): the socket's state tells what TCP knows. Its user data is the endpoint. */
static int on_state_change(struct kprobe *probe, struct pt_regs *regs)
{
	const struct sock *sk = (const struct sock *)regs_get_kernel_argument(regs, 0);
	const void *endpoint = READ_ONCE(sk->sk_user_data);
	int error = READ_ONCE(sk->sk_err);

	if (!endpoint)
		return 0;
	switch (READ_ONCE(sk->sk_state)) {
	case TCP_CLOSE_WAIT:
		note_set(endpoint, HOW_CLOSED);
		break;
	case TCP_CLOSE:
		/* tcp_reset() says EPIPE if the peer had closed before, tcp_abort() ECONNABORTED. */
		if (error == ECONNRESET || error == EPIPE || error == ECONNABORTED)
			note_set(endpoint, HOW_RESET);
		else
			note_set(endpoint, error ? HOW_LOST : HOW_CLOSED);
		break;
	}
	return 0;
}

/*
 * siw_cm_upcall(cep, reason, status): what siw_cm_work_handler() says before it closes the QP, and
 * siw_qp_modify() when it drops a connection.
 */
static int on_upcall(struct kprobe *probe, struct pt_regs *regs)
{
	const void *endpoint = (const void *)regs_get_kernel_argument(regs, 0);
	int status = (int)regs_get_kernel_argument(regs, 2);
	unsigned long how;

	switch ((enum iw_cm_event_type)regs_get_kernel_argument(regs, 1)) {
	case IW_CM_EVENT_DISCONNECT:
		how = note_take(endpoint);
		note_set(current, how ? how : HOW_CLOSED);
		break;
	case IW_CM_EVENT_CLOSE:
		/* What a failed attempt has left has nothing to do with this one. */
		how = note_take(current);
		note_set(current, how && how != HOW_UNCONNECTED ? how : HOW_DROPPED);
		break;
	case IW_CM_EVENT_CONNECT_REPLY:
		if (status)
			note_set(current, HOW_UNCONNECTED);
		break;
	default:
		break;
	}
	return 0;
}

/* siw_proc_terminate(qp) */
static int on_terminate(struct kprobe *probe, struct pt_regs *regs)
{
	note_add((const void *)regs_get_kernel_argument(regs, 0), QP_TERMINATED);
	return 0;
}

/* siw_qp_event(qp, event): what the driver raises by itself. */
static int on_event(struct kprobe *probe, struct pt_regs *regs)
{
	const void *qp = (const void *)regs_get_kernel_argument(regs, 0);

	switch ((enum ib_event_type)regs_get_kernel_argument(regs, 1)) {
	case IB_EVENT_QP_FATAL:
	case IB_EVENT_QP_REQ_ERR:
	case IB_EVENT_QP_ACCESS_ERR:
		note_add(qp, QP_FAILED);
		break;
	case IB_EVENT_SQ_DRAINED:
		note_add(qp, QP_DRAINED);
		break;
	default:
		break;
	}
	return 0;
}

/* siw_create_qp(qp, ...): what was noted of another at this address is over. */
static int on_create(struct kprobe *probe, struct pt_regs *regs)
{
	note_take((const void *)regs_get_kernel_argument(regs, 0));
	return 0;
}

/* siw_qp_llp_close(qp) */
static int on_close(struct kretprobe_instance *instance, struct pt_regs *regs)
{
	struct ib_qp **qp = (struct ib_qp **)instance->data;

	*qp = (struct ib_qp *)regs_get_kernel_argument(regs, 0);
	/* Of an earlier move by the application. */
	note_drop(*qp, QP_DRAINED);
	return 0;
}

/* ... has returned: everything is flushed. */
static int on_closed(struct kretprobe_instance *instance, struct pt_regs *regs)
{
	struct ib_qp *qp = *(struct ib_qp **)instance->data;
	unsigned long how = note_take(current);
	unsigned long noted = note_take(qp);

	if (how == HOW_UNCONNECTED || (noted & QP_FAILED) ||
	    !is_users_qp(qp, RDMA_DRIVER_SIW))
		return 0;

	/* One thread comes here. */
	if (noted & QP_TERMINATED)
		terminated++;
	else if (how == HOW_RESET)
		reset++;
	else if (how == HOW_LOST)
		lost++;
	else if (how == HOW_DROPPED || (noted & QP_DRAINED))
		bad_close++;
	else
		closed++;

	/* kernel-abi, src/siw/llp_event.rs has the mapping, and why. */
	if (qp->srq)
		tell_user(qp, IB_EVENT_QP_LAST_WQE_REACHED);
	else if (noted & QP_TERMINATED)
		tell_user(qp, IB_EVENT_QP_REQ_ERR);
	else if (!(noted & QP_DRAINED))
		tell_user(qp, IB_EVENT_SQ_DRAINED);
	return 0;
}

/*
 * siw_qp_modify(qp, attributes, mask): the way of a connection that the user closes, or librdmacm or the
 * connection manager for him. It never comes to siw_qp_llp_close().
 */
static int on_modify(struct kretprobe_instance *instance, struct pt_regs *regs)
{
	*(struct ib_qp **)instance->data = (struct ib_qp *)regs_get_kernel_argument(regs, 0);
	note_take(current);
	return 0;
}

/* Who has closed it knows; but with an SRQ, not when the last receive is done. */
static int on_modified(struct kretprobe_instance *instance, struct pt_regs *regs)
{
	struct ib_qp *qp = *(struct ib_qp **)instance->data;

	if (note_take(current) == HOW_DROPPED && is_users_qp(qp, RDMA_DRIVER_SIW) && qp->srq &&
	    !(note_take(qp) & QP_FAILED))
		tell_user(qp, IB_EVENT_QP_LAST_WQE_REACHED);
	return 0;
}

static struct probe probes[] = {
	/* Those that write notes come first: the others rely on them. */
	{ "siw_cm_llp_state_change", on_state_change },
	{ "siw_cm_upcall", on_upcall },
	{ "siw_proc_terminate", on_terminate },
	{ "siw_qp_event", on_event },
	{ "siw_create_qp", on_create },
	{ "siw_qp_llp_close", .entry = on_close, .returned = on_closed, .data = sizeof(struct ib_qp *) },
	{ "siw_qp_modify", .entry = on_modify, .returned = on_modified, .data = sizeof(struct ib_qp *) },
};

static int siw_probe(void)
{
	return probes_enter(probes, ARRAY_SIZE(probes));
}

static void siw_unprobe(void)
{
	probes_leave(probes, ARRAY_SIZE(probes));
}

const struct driver siw_driver = { "siw", siw_probe, siw_unprobe };
