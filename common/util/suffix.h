/*
 * suffix: the type of a file according to the end of its name: an archive, an image, or compressed
 * data. All programs use one table. The worker finds the real type by the first bytes
 * (daemon/engines/archive/magic.h).
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

enum suffix_kind {
	SUFFIX_TAR, /* compressed or not */
	SUFFIX_ZIP,
	SUFFIX_IMAGE,  /* squashfs */
	SUFFIX_STREAM, /* one file, compressed */
};

struct suffix {
	const char *text; /* with its dot */
	enum suffix_kind kind;
	bool compressed; /* the whole file is compressed, by gzip or similar */
};

/* Finds the longest suffix of the first n bytes of name, ignoring case. Something must come before
 * the suffix. Returns NULL if there is none. */
const struct suffix *suffix_find(const char *name, size_t n);

#define SUFFIX_PATTERN_SIZE 32 /* ".part-", "[0-9]" for each of five digits, and a NUL */

/* Handles parts that split(1) makes of an archive or compressed file, such as x.tar.gz.aa. Returns
 * the length of the whole file's name, and in `pattern` a shell pattern (".[a-z][a-z]") for the
 * rest of the names of all parts. Returns 0 if name is not that of a part. */
size_t suffix_find_part(const char *name, char pattern[static SUFFIX_PATTERN_SIZE]);

/* The table, for tests; in the last entry, text is NULL. */
extern const struct suffix suffixes[];
