// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include <linux/kprobes.h>

#include "probes.h"

/* A probe that was entered once has an address, and could not be entered by name again. */
static int enter(struct probe *probe)
{
	int error;

	if (probe->handler) {
		probe->probe = (struct kprobe){
			.symbol_name = probe->function,
			.pre_handler = probe->handler,
		};
		error = register_kprobe(&probe->probe);
	} else {
		probe->return_probe = (struct kretprobe){
			.kp.symbol_name = probe->function,
			.entry_handler = probe->entry,
			.handler = probe->returned,
			.data_size = probe->data,
			/* Those who wait for a lock in there count. */
			.maxactive = 64,
		};
		error = register_kretprobe(&probe->return_probe);
	}
	probe->entered = !error;
	return error;
}

int probes_enter(struct probe *probes, size_t count)
{
	bool any = false;
	int failed = 0;
	size_t i;

	for (i = 0; i < count; i++) {
		int error = enter(&probes[i]);

		any |= !error;
		if (error && (!failed || failed == -ENOENT))
			failed = error;
	}
	if (!failed)
		return 0;
	probes_leave(probes, count);
	return any || failed != -ENOENT ? failed : -ENODEV;
}

void probes_leave(struct probe *probes, size_t count)
{
	while (count--) {
		struct probe *probe = &probes[count];

		if (!probe->entered)
			continue;
		if (probe->handler)
			unregister_kprobe(&probe->probe);
		else
			unregister_kretprobe(&probe->return_probe);
		probe->entered = false;
	}
}
