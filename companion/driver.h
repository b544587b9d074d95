/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* What the module does to one driver. */
#ifndef LASTWQE_DRIVER_H
#define LASTWQE_DRIVER_H

struct driver {
	/* The driver's module. */
	const char *module;
	/*
	 * Enters the probes. Returns -ENODEV if the driver is not loaded, -EOPNOTSUPP if it is to be left
	 * alone on this kernel, and anything else if it is not what is expected.
	 */
	int (*probe)(void);
	/* Removes them; when it returns, none of them runs. */
	void (*unprobe)(void);
};

extern const struct driver rxe_driver;
extern const struct driver siw_driver;

#endif
