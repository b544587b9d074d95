/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* What the module does to one driver. */
#ifndef LASTWQE_DRIVER_H
#define LASTWQE_DRIVER_H

/*
 * Enters the probes of siw. Returns -ENODEV if it is not loaded, and -ENOENT, or what the kernel says
 * to a probe, if it is not the driver that is expected.
 */
int siw_probe(void);

/* Removes them; when it returns, none of them runs. */
void siw_unprobe(void);

#endif
