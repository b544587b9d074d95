/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Probes of one driver's functions, entered and removed together. */
#ifndef LASTWQE_PROBES_H
#define LASTWQE_PROBES_H

#include <linux/kprobes.h>

/* It has a handler, or two for entry and return. */
struct probe {
	const char *function;
	kprobe_pre_handler_t handler;
	kretprobe_handler_t entry, returned;
	/* Bytes that entry leaves for returned. */
	size_t data;
	struct kprobe probe;
	struct kretprobe return_probe;
	bool entered;
};

/*
 * Enters all of them, or none. Returns -ENODEV if none of the functions is there, -ENOENT if some are not,
 * or what the kernel says to a probe.
 */
int probes_enter(struct probe *probes, size_t count);

/* Removes those that are entered, the last first; when it returns, none of them runs. */
void probes_leave(struct probe *probes, size_t count);

#endif
