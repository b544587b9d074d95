/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * What one probe has seen of an object, for another to read.
 *
 * An object is known by its address alone, and may be gone: it is never followed. A note is a number
 * from 1 to 7, and 0 is none: it fits into the bits that alignment leaves free.
 */
#ifndef LASTWQE_NOTES_H
#define LASTWQE_NOTES_H

/* Writes a note, in place of the one that is there. */
void note_set(const void *object, unsigned long note);

/* Adds bits to the note. */
void note_add(const void *object, unsigned long bits);

/* Takes bits away from the note. */
void note_drop(const void *object, unsigned long bits);

/* Reads the note, and removes it. */
unsigned long note_take(const void *object);

#endif
