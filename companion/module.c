// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * lastwqe_events: the asynchronous events that the stock siw and rdma_rxe do not raise.
 *
 * Which, and why: docs/llp-events.md. Drivers and module may be loaded in any order: a driver's probes are
 * entered when both are there, and removed when the first of them goes.
 */
#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#include <linux/module.h>
#include <linux/mutex.h>
#include <linux/notifier.h>

#include "driver.h"

/* Orders loading and unloading of the drivers with our own. */
static DEFINE_MUTEX(probing);

static struct {
	const struct driver *driver;
	bool probed;
} drivers[] = { { &siw_driver }, { &rxe_driver } };

static int enter(size_t i)
{
	int error = drivers[i].probed ? 0 : drivers[i].driver->probe();

	if (!error)
		drivers[i].probed = true;
	return error;
}

static void leave(size_t i)
{
	if (drivers[i].probed)
		drivers[i].driver->unprobe();
	drivers[i].probed = false;
}

static int driver_changed(struct notifier_block *block, unsigned long state, void *data)
{
	const struct module *module = data;
	size_t i;

	for (i = 0; i < ARRAY_SIZE(drivers); i++) {
		int error;

		if (strcmp(module->name, drivers[i].driver->module))
			continue;
		mutex_lock(&probing);
		if (state == MODULE_STATE_COMING) {
			error = enter(i);
			if (error && error != -EOPNOTSUPP)
				pr_err("this %s is not what is expected (%d): left alone\n",
				       module->name, error);
		} else if (state == MODULE_STATE_GOING) {
			leave(i);
		}
		mutex_unlock(&probing);
		return NOTIFY_OK;
	}
	return NOTIFY_DONE;
}

static struct notifier_block driver_block = { .notifier_call = driver_changed };

/* Enters the probes of the drivers that are there; the others' are entered when they come. */
static int enter_all(void)
{
	size_t i;

	for (i = 0; i < ARRAY_SIZE(drivers); i++) {
		const char *name = drivers[i].driver->module;
		int error = enter(i);

		if (error == -EOPNOTSUPP) {
			pr_warn("%s is left alone on this kernel\n", name);
		} else if (error && error != -ENODEV) {
			pr_err("this %s is not what is expected: %d\n", name, error);
			while (i--)
				leave(i);
			return error;
		}
	}
	return 0;
}

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
	error = enter_all();
	mutex_unlock(&probing);
	if (error)
		unregister_module_notifier(&driver_block);
	return error;
}

static void __exit lastwqe_events_exit(void)
{
	size_t i;

	unregister_module_notifier(&driver_block);
	mutex_lock(&probing);
	for (i = 0; i < ARRAY_SIZE(drivers); i++)
		leave(i);
	mutex_unlock(&probing);
}

module_init(lastwqe_events_init);
module_exit(lastwqe_events_exit);
MODULE_DESCRIPTION("Asynchronous events that siw and rdma_rxe do not raise");
MODULE_LICENSE("Dual BSD/GPL");
MODULE_VERSION("0.1.0");
