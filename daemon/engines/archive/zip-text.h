/*
 * zip-text: computes the name of a zip's entry from the fields of the central directory. Pure.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct zip_text {
	const unsigned char *name, *extra;
	size_t n_name, n_extra;
	unsigned flags;
	unsigned char system, version; /* of the program that made it */
};

/* Bytes that are enough for a name of n, which may grow, or stand in an extra field of its own. */
#define ZIP_TEXT_SIZE (3 * 65535 + 1)

/* Into to, which has ZIP_TEXT_SIZE bytes. A NUL ends a name. Its length. */
size_t zip_text_read(const struct zip_text *t, char *to);
