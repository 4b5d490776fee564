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
	bool compressed; /* as a whole, by gzip and the like */
};

/* The longest suffix that the first n bytes of name end with, without regard to case, and with
 * something before it. NULL: none. */
const struct suffix *suffix_find(const char *name, size_t n);

#define SUFFIX_PATTERN_SIZE 32 /* ".part", and "[0-9]" for each of five digits, and a NUL */

/*
 * Of a part that split(1) has made of an archive or a compressed file, such as x.tar.gz.aa: how
 * many bytes of name are the name of the whole, and what follows it in the name of each part, as a
 * pattern of the shell (".[a-z][a-z]"). 0: it is not named like one.
 */
size_t suffix_find_part(const char *name, char pattern[static SUFFIX_PATTERN_SIZE]);

/* All of them, for tests; the last one has no text. */
extern const struct suffix suffixes[];
