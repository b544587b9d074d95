// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * A function that a compiler has put into another has no name to probe. What it stores shows where it is.
 */
#include <linux/errno.h>
#include <linux/kallsyms.h>
#include <linux/kernel.h>
#include <linux/kprobes.h>
#include <linux/string.h>

#include "code.h"

#ifdef CONFIG_X86_64

/* Intel SDM, volume 2: MOV r/m8, imm8 is C6 /0 ib; here with a displacement of four bytes. */
#define REX_B 0x41
#define MOV_BYTE 0xc6
#define MODRM_DISP32 0x80
#define MODRM_RM 0x07
/* This r/m says that a SIB byte follows, in which this is the same register without an index. */
#define RM_SIB 4
#define SIB_NO_INDEX 0x24

struct text {
	u8 *begin, *end;
};

/* A function's place. */
static int find_function(const char *module, const char *function, struct text *text)
{
	/* Not armed: nothing is written. Registered, it knows the address, which nothing else exported tells. */
	struct kprobe finder = { .symbol_name = function, .flags = KPROBE_FLAG_DISABLED };
	/* Under the lock of loading. */
	static char name[KSYM_SYMBOL_LEN];
	unsigned long from, size;
	size_t length = strlen(function);
	char *tail;
	u8 *at;
	int error = register_kprobe(&finder);

	if (error)
		return error;
	at = finder.addr;
	unregister_kprobe(&finder);

	/* "rxe_receiver+0x4/0x1d40 [rdma_rxe]": kprobes stand behind an ENDBR. */
	sprint_symbol(name, (unsigned long)at);
	if (strncmp(name, function, length) || sscanf(name + length, "+%lx/%lx", &from, &size) != 2 ||
	    from >= size)
		return -EINVAL;
	tail = strstr(name, " [");
	if (!tail || strncmp(tail + 2, module, strlen(module)) || strcmp(tail + 2 + strlen(module), "]"))
		return -EINVAL;
	*text = (struct text){ at - from, at - from + size };
	return 0;
}

/* The length of such a store, or 0 if this is none. */
static size_t decode(const u8 *code, const u8 *end, u32 offset, u8 byte, struct store *store)
{
	/* All of them are of 7 to 9 bytes, and a function does not end with one. */
	const u8 *at = code;
	unsigned int high = 0, low;
	u32 displacement;

	if (end - code < 9)
		return 0;
	if (*at == REX_B) {
		high = 8;
		at++;
	}
	if (*at++ != MOV_BYTE)
		return 0;
	low = *at & MODRM_RM;
	if ((*at++ & ~MODRM_RM) != MODRM_DISP32)
		return 0;
	/* Without REX.B it would be the stack. */
	if (low == RM_SIB && (!high || *at++ != SIB_NO_INDEX))
		return 0;
	memcpy(&displacement, at, sizeof(displacement));
	at += sizeof(displacement);
	if (displacement != offset || *at++ != byte)
		return 0;
	*store = (struct store){ (u8 *)code, high | low };
	return at - code;
}

int code_find_stores(const char *module, const char *function, u32 offset, u8 byte,
		     struct store *stores, int room)
{
	struct text text;
	struct store store;
	int found = 0;
	int error = find_function(module, function, &text);

	if (error)
		return error;
	/* That a match is the beginning of an instruction, a kprobe sees to. */
	while (text.begin < text.end) {
		size_t length = decode(text.begin, text.end, offset, byte, &store);

		if (length && found++ < room)
			stores[found - 1] = store;
		text.begin += length ? length : 1;
	}
	return found;
}

const void *code_structure(const struct store *store, struct pt_regs *regs)
{
	static const unsigned int registers[] = {
		offsetof(struct pt_regs, ax),  offsetof(struct pt_regs, cx),
		offsetof(struct pt_regs, dx),  offsetof(struct pt_regs, bx),
		offsetof(struct pt_regs, sp),  offsetof(struct pt_regs, bp),
		offsetof(struct pt_regs, si),  offsetof(struct pt_regs, di),
		offsetof(struct pt_regs, r8),  offsetof(struct pt_regs, r9),
		offsetof(struct pt_regs, r10), offsetof(struct pt_regs, r11),
		offsetof(struct pt_regs, r12), offsetof(struct pt_regs, r13),
		offsetof(struct pt_regs, r14), offsetof(struct pt_regs, r15),
	};

	return (const void *)regs_get_register(regs, registers[store->pointer]);
}

#else

int code_find_stores(const char *module, const char *function, u32 offset, u8 byte,
		     struct store *stores, int room)
{
	return -EOPNOTSUPP;
}

const void *code_structure(const struct store *store, struct pt_regs *regs)
{
	return NULL;
}

#endif
