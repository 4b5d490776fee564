/*
 * chosen: what a pattern names, beneath the directory above all of it. What is in a chosen
 * directory is chosen, too.
 */
#pragma once

#include <stdbool.h>

#include "common/util/cleanup.h"

struct chosen;
struct error;

enum chosen_part {
	CHOSEN_NOT,
	CHOSEN_ABOVE, /* something below it is */
	CHOSEN_ITSELF,
	CHOSEN_BELOW, /* what it is in is */
};

/* Expands pattern here and now, as staging would. -ENOENT: it fits nothing, or a name that it
 * spells out is not there. */
int chosen_new(struct chosen **cp, const char *pattern, struct error *err);
void chosen_free(struct chosen *c);
DEFINE_FREEP(struct chosen, chosen_free)

/* path: relative to the directory. Notes that what is chosen itself was met. Any thread, but not
 * two for one path at once. */
enum chosen_part chosen_find(struct chosen *c, const char *path);

/* All of it was met: -ENOTSUP, with the first that was not. */
int chosen_check_all(const struct chosen *c, struct error *err);
