/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Where the members of a driver's structures are, as its type information (BTF) says. */
#ifndef LASTWQE_LAYOUT_H
#define LASTWQE_LAYOUT_H

#include <linux/types.h>

struct member {
	/* The structure's name, and the member's in it. */
	const char *structure, *name;
	/* Bytes from the structure's beginning; filled in. */
	u32 offset;
};

/*
 * Finds members in the type information of a module. Returns -ENOENT if the kernel has none for it or one of
 * them is not there, and -EINVAL if it is not understood. May sleep.
 */
int layout_find(const char *module, struct member *members, size_t count);

#endif
