/*
 * expand: makes names from a pattern or a list file: braces {a,b} {000..146}, then * ? [..] as
 * glob(3), as the shell would on this node.
 */
#pragma once

#include <stddef.h>

#include "common/util/cleanup.h"

struct error;

#define EXPAND_MAX_NAMES 4000000

struct names {
	char **v;
	size_t n, size;
};

void names_deinit(struct names *names);
/* Adds a copy of the n bytes at s. Returns 0, -ENOMEM, or -E2BIG beyond EXPAND_MAX_NAMES. */
int names_add(struct names *names, const char *s, size_t n);
/* Sorts by byte values. */
void names_sort(struct names *names);

/* Expands braces only. A text without braces is added unchanged. "{}", "{a}" and an unclosed "{"
 * are ordinary text, as in the shell. "{01..10}" keeps the width. Accesses no files. */
int expand_braces(const char *pattern, struct names *out, struct error *err);

/* Expands braces, then file patterns. A text without * ? [ is added unchanged, even if no such file
 * exists. A pattern without matches adds nothing. The result is not sorted. It is an error if a
 * directory cannot be read, because files in it might match; err names it. */
int expand_pattern(const char *pattern, struct names *out, struct error *err);

/* Looks for a file whose name is exactly the pattern; it takes precedence over matches of the
 * pattern. Returns 0: there is none, or the text is no pattern; 1: it exists, and no other match is
 * known; 2: it exists, and other files match. */
int expand_find_name(const char *pattern);

/* Adds the paths in data, one per line. Skips empty lines and accepts "\r\n". Relative paths are
 * relative to dir. */
int expand_list(const char *data, size_t size, const char *dir, struct names *out,
		struct error *err);
