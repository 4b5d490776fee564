/*
 * zip-entry-name: computes the name of a zip's entry from the fields of the central directory.
 * Pure.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct zip_entry_name {
	const unsigned char *name, *extra;
	size_t n_name, n_extra;
	unsigned flags;
	unsigned char system, version; /* of the program that made the zip */
};

/* Buffer size that is enough for each name: a conversion may make it longer, and it may be in an
 * extra field. */
#define ZIP_ENTRY_NAME_SIZE (3 * 65535 + 1)

/* Writes the name to `to`, which has ZIP_ENTRY_NAME_SIZE bytes. A NUL ends the name. Returns its
 * length. */
size_t zip_entry_name_read(const struct zip_entry_name *t, char *to);
