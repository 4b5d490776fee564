/*
 * copy-engine: directories and sets of files, as `cp -a` would copy them, less setuid, in parallel.
 */
#pragma once

#include <stdint.h>

struct ctx;
struct error;
struct facts;
struct source;

struct copy_result {
	uint64_t files; /* everything but directories */
};

/*
 * Copies a SOURCE_DIR or SOURCE_SET into the open, empty directory root. By the dataset's include=
 * and exclude=. Sockets, FIFOs, devices and what is mounted inside are left out with a warning;
 * what can't be read fails it, naming the first ten.
 */
int copy_tree(struct ctx *ctx, struct source *src, int root, struct copy_result *result,
	      struct error *err);
