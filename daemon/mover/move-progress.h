/*
 * move-progress: how far a copy is that is being made, or was when its mover was interrupted, from
 * its journal.
 */
#pragma once

#include <stdint.h>

struct error;

struct progress {
	uint64_t bytes, files; /* done */
	uint64_t size; /* of a source that is one file, 0: of many, whose sum nobody knows yet */
	char *source;  /* NULL: not said */
};

/* dir: of one copy (place.h). 1: filled, the caller frees source; 0: nothing is being made; -errno.
 */
int progress_read(struct progress *p, const char *dir, struct error *err);
