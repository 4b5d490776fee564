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
/* Copies n bytes of s. -ENOMEM, -E2BIG past EXPAND_MAX_NAMES. */
int names_add(struct names *names, const char *s, size_t n);
/* By bytes. */
void names_sort(struct names *names);

/* Braces alone; a text without any gives itself. "{}", "{a}" and an open "{" stand for themselves,
 * as in the shell. "{01..10}" keeps the width. Pure. */
int expand_braces(const char *pattern, struct names *out, struct error *err);

/* Expands braces, then files. A text without * ? [ is added unchanged, also if no such file exists;
 * a pattern that matches nothing adds nothing. Not sorted. An error names a directory that could
 * not be read, because files in it might match. */
int expand_pattern(const char *pattern, struct names *out, struct error *err);

/*
 * A file that is named exactly like the pattern comes before what the pattern fits. 0: there is
 * none, or the text is no pattern; 1: it is there, and no other file is known to fit; 2: it is
 * there, and other files fit.
 */
int expand_find_name(const char *pattern);

/* One path a line; empty lines are passed over, "\r\n" is a line's end; relative paths are relative
 * to dir. */
int expand_list(const char *data, size_t size, const char *dir, struct names *out,
		struct error *err);
