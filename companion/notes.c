// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Notes are written and read in probes, some of them in interrupts: there are no locks, and nothing is
 * allocated. Where two objects meet in one place, the later takes it, and the other's note is lost.
 */
#include <linux/atomic.h>
#include <linux/hash.h>

#include "notes.h"

#define NOTE_BITS 12
#define NOTE_MASK 7UL

static atomic_long_t notes[1 << NOTE_BITS];

static atomic_long_t *place_of(const void *object)
{
	return &notes[hash_ptr(object, NOTE_BITS)];
}

/* The object's note becomes (note & keep) | add. */
static unsigned long change(const void *object, unsigned long keep, unsigned long add)
{
	atomic_long_t *place = place_of(object);
	long old = atomic_long_read(place);
	unsigned long note, next;

	do {
		bool ours = (old & ~NOTE_MASK) == (unsigned long)object;

		note = ours ? old & NOTE_MASK : 0;
		next = (note & keep) | add;
		if (!ours && !next)
			return 0;
	} while (!atomic_long_try_cmpxchg(place, &old, next ? (unsigned long)object | next : 0));
	return note;
}

void note_set(const void *object, unsigned long note)
{
	change(object, 0, note);
}

void note_add(const void *object, unsigned long bits)
{
	change(object, NOTE_MASK, bits);
}

void note_drop(const void *object, unsigned long bits)
{
	change(object, ~bits, 0);
}

unsigned long note_take(const void *object)
{
	return change(object, 0, 0);
}
