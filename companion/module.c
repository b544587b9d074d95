// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * lastwqe_events: the asynchronous events of a connection's end, which the stock siw does not raise.
 *
 * Which, and why: docs/llp-events.md. Driver and module may be loaded in any order: the probes are
 * entered when both are there, and removed when the first of them goes.
 */
#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#include <linux/module.h>
#include <linux/mutex.h>
#include <linux/notifier.h>

#include "driver.h"

/* Orders loading and unloading of the driver with our own. */
static DEFINE_MUTEX(probing);
static bool probed;

static int enter(void)
{
	int error = probed ? 0 : siw_probe();

	if (!error)
		probed = true;
	return error;
}

static void leave(void)
{
	if (probed)
		siw_unprobe();
	probed = false;
}

static int driver_changed(struct notifier_block *block, unsigned long state, void *data)
{
	const struct module *module = data;

	if (strcmp(module->name, "siw"))
		return NOTIFY_DONE;
	mutex_lock(&probing);
	if (state == MODULE_STATE_COMING && enter())
		pr_err("this siw has not the functions that are expected: left alone\n");
	else if (state == MODULE_STATE_GOING)
		leave();
	mutex_unlock(&probing);
	return NOTIFY_OK;
}

static struct notifier_block driver_block = { .notifier_call = driver_changed };

static int __init lastwqe_events_init(void)
{
	int error;

	/* Return probes run with preemption off, where uverbs' locks must not be taken then. */
	if (IS_ENABLED(CONFIG_PREEMPT_RT)) {
		pr_err("not for PREEMPT_RT\n");
		return -EOPNOTSUPP;
	}
	error = register_module_notifier(&driver_block);
	if (error)
		return error;
	mutex_lock(&probing);
	error = enter();
	mutex_unlock(&probing);
	/* It will be entered when it comes. */
	if (error == -ENODEV)
		return 0;
	if (error) {
		unregister_module_notifier(&driver_block);
		pr_err("this siw has not the functions that are expected: %d\n", error);
	}
	return error;
}

static void __exit lastwqe_events_exit(void)
{
	unregister_module_notifier(&driver_block);
	mutex_lock(&probing);
	leave();
	mutex_unlock(&probing);
}

module_init(lastwqe_events_init);
module_exit(lastwqe_events_exit);
MODULE_DESCRIPTION("Asynchronous events at the end of siw's connections");
MODULE_LICENSE("Dual BSD/GPL");
MODULE_VERSION("0.1.0");
