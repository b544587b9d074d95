// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * rdma_rxe: one event for a request that the responder of a user's QP refuses, unless a receive completes with
 * the error.
 *
 * Whatever is wrong with a request of a reliable connection, rxe_responder() (linux 6.1; rxe_receiver() in 6.12)
 * comes to one of few places, which are all that is left of do_class_ac_error(): there it stores the syndrome of the
 * NAK in the QP. If it holds a receive then (resp.wqe), do_complete() completes that one with the error. If it holds
 * none, nobody is told; that is noted. In the same pass it ends with rxe_qp_error(), at whose return the QP is in ERR,
 * and the event is raised. Who runs the responder, or moves the QP to ERR, holds a reference to it, for which
 * rxe_destroy_qp() waits: the QP is there until the return probe is done, and so is what uverbs has of it.
 *
 * linux 6.1.192, 6.12.117: drivers/infiniband/sw/rxe/rxe_resp.c, rxe_qp.c, rxe_pool.c, rxe_verbs.c.
 */
#include <linux/kernel.h>
#include <linux/kprobes.h>
#include <linux/module.h>
#include <linux/uaccess.h>
#include <linux/version.h>
#include <rdma/ib_verbs.h>

#include "code.h"
#include "driver.h"
#include "layout.h"
#include "notes.h"
#include "probes.h"
#include "users_qp.h"

/* The note of a QP: what its responder has refused, and no receive tells. */
#define QP_REFUSED_ACCESS 1UL
#define QP_REFUSED_REQUEST 2UL

/* InfiniBand Architecture Specification, volume 1, 9.7.5.2.1: syndromes of an AETH that is a NAK. */
#define NAK_INVALID_REQUEST 0x61
#define NAK_REMOTE_ACCESS_ERROR 0x62

/* How many requests were refused so, for the administrator. */
static unsigned long access_error, invalid_request;
module_param(access_error, ulong, 0444);
module_param(invalid_request, ulong, 0444);
MODULE_PARM_DESC(access_error, "requests for memory that rxe refused, and no receive told of (count)");
MODULE_PARM_DESC(invalid_request, "invalid requests that rxe refused, and no receive told of (count)");

/* Where a QP has the receive that its responder is at. */
static u32 receive_at;

/* A place where the responder refuses. */
struct refusal {
	struct store store;
	unsigned long note;
	struct kprobe probe;
};

/* The compiler makes one of each kind; it may copy them. */
static struct refusal refusals[8];
static size_t refusal_count;

static int on_refusal(struct kprobe *probe, struct pt_regs *regs)
{
	const struct refusal *refusal = container_of(probe, struct refusal, probe);
	const void *qp = code_structure(&refusal->store, regs);
	const void *receive;

	if (!get_kernel_nofault(receive, (const void **)(qp + receive_at)) && !receive)
		note_set(qp, refusal->note);
	return 0;
}

struct failed {
	struct ib_qp *qp;
	unsigned long note;
};

/* rxe_qp_error(qp). Nobody waits for its return but for a QP with a note. */
static int on_error(struct kretprobe_instance *instance, struct pt_regs *regs)
{
	struct failed *failed = (struct failed *)instance->data;

	failed->qp = (struct ib_qp *)regs_get_kernel_argument(regs, 0);
	failed->note = note_take(failed->qp);
	return !failed->note;
}

/* Tasks of several QPs come here at a time. */
static void count(unsigned long *counter)
{
	unsigned long old = READ_ONCE(*counter);

	while (!try_cmpxchg(counter, &old, old + 1))
		;
}

/* ... has returned: the QP is in ERR. */
static int on_failed(struct kretprobe_instance *instance, struct pt_regs *regs)
{
	const struct failed *failed = (const struct failed *)instance->data;

	if (!is_users_qp(failed->qp, RDMA_DRIVER_RXE))
		return 0;
	if (failed->note == QP_REFUSED_ACCESS) {
		count(&access_error);
		tell_user(failed->qp, IB_EVENT_QP_ACCESS_ERR);
	} else {
		count(&invalid_request);
		tell_user(failed->qp, IB_EVENT_QP_REQ_ERR);
	}
	return 0;
}

/* rxe_create_qp(qp, ...): what was noted of another at this address is over. */
static int on_create(struct kprobe *probe, struct pt_regs *regs)
{
	note_take((const void *)regs_get_kernel_argument(regs, 0));
	return 0;
}

static struct probe probes[] = {
	{ "rxe_create_qp", on_create },
	{ "rxe_qp_error", .entry = on_error, .returned = on_failed, .data = sizeof(struct failed) },
};

/* Finds the places where the responder stores this syndrome, and adds them to the refusals. */
static int find_refusals(const char *responder, u32 syndrome_at, u8 syndrome, unsigned long note)
{
	struct store stores[ARRAY_SIZE(refusals) / 2];
	int i, found = code_find_stores(rxe_driver.module, responder, syndrome_at, syndrome, stores,
					ARRAY_SIZE(stores));

	if (found < 0)
		return found;
	if (!found || found > ARRAY_SIZE(stores))
		return -EINVAL;
	for (i = 0; i < found; i++) {
		refusals[refusal_count++] = (struct refusal){
			.store = stores[i],
			.note = note,
			.probe = { .addr = stores[i].at, .pre_handler = on_refusal },
		};
	}
	return 0;
}

static int find_all_refusals(void)
{
	enum { QP, RESPONDER, RECEIVE, SYNDROME };
	struct member members[] = {
		[QP] = { "rxe_qp", "ibqp" },
		[RESPONDER] = { "rxe_qp", "resp" },
		[RECEIVE] = { "rxe_resp_info", "wqe" },
		[SYNDROME] = { "rxe_resp_info", "aeth_syndrome" },
	};
	const char *responder = "rxe_receiver";
	u32 syndrome_at;
	int error = layout_find(rxe_driver.module, members, ARRAY_SIZE(members));

	if (error)
		return error;
	if (members[QP].offset)
		return -EINVAL;
	receive_at = members[RESPONDER].offset + members[RECEIVE].offset;
	syndrome_at = members[RESPONDER].offset + members[SYNDROME].offset;

	refusal_count = 0;
	error = find_refusals(responder, syndrome_at, NAK_INVALID_REQUEST, QP_REFUSED_REQUEST);
	if (error == -ENOENT) {
		responder = "rxe_responder";
		error = find_refusals(responder, syndrome_at, NAK_INVALID_REQUEST, QP_REFUSED_REQUEST);
	}
	return error ? error :
		       find_refusals(responder, syndrome_at, NAK_REMOTE_ACCESS_ERROR, QP_REFUSED_ACCESS);
}

/* Removes the probes of the first refusals. */
static void leave_refusals(size_t number)
{
	while (number--)
		unregister_kprobe(&refusals[number].probe);
}

static int enter_refusals(void)
{
	int error = find_all_refusals();
	size_t i;

	for (i = 0; !error && i < refusal_count; i++) {
		/* Fails if it is not an instruction where it was found. */
		error = register_kprobe(&refusals[i].probe);
		if (error)
			leave_refusals(i);
	}
	return error;
}

/* The probe that reads notes comes before those that write them and goes after them: none is left behind. */
static int rxe_probe(void)
{
	int error;

	/* 6.12 is the last that is known not to raise it: 7.3 raises QP_ACCESS_ERR (rxe_resp.c: rxe_receiver). */
	if (!IS_ENABLED(CONFIG_X86_64) || LINUX_VERSION_CODE >= KERNEL_VERSION(6, 13, 0))
		return -EOPNOTSUPP;
	error = probes_enter(probes, ARRAY_SIZE(probes));
	if (error)
		return error;
	error = enter_refusals();
	if (error)
		probes_leave(probes, ARRAY_SIZE(probes));
	return error;
}

static void rxe_unprobe(void)
{
	leave_refusals(refusal_count);
	probes_leave(probes, ARRAY_SIZE(probes));
}

const struct driver rxe_driver = { "rdma_rxe", rxe_probe, rxe_unprobe };
