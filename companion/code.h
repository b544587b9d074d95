/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Instructions of a driver's function. x86-64 only: elsewhere nothing is found. */
#ifndef LASTWQE_CODE_H
#define LASTWQE_CODE_H

#include <linux/ptrace.h>
#include <linux/types.h>

/* An instruction that stores a constant byte in a structure. */
struct store {
	u8 *at;
	/* The register that points to the structure, as the instruction names it. */
	unsigned int pointer;
};

/*
 * Finds where a function stores that byte, offset bytes from what a register points to. Returns how many there
 * are, at most room of which are in stores; or -ENOENT if there is no such function.
 */
int code_find_stores(const char *module, const char *function, u32 offset, u8 byte,
		     struct store *stores, int room);

/* What a store that is about to run stores in. */
const void *code_structure(const struct store *store, struct pt_regs *regs);

#endif
