/*
 * chosen: the files and directories that a pattern selects. Their paths are relative to the
 * directory above the first wildcard. Everything in a selected directory is selected, too.
 */
#pragma once

#include <stdbool.h>

#include "common/util/cleanup.h"

struct chosen;
struct error;

enum chosen_part {
	CHOSEN_NOT,
	CHOSEN_ABOVE, /* something below it is chosen */
	CHOSEN_ITSELF,
	CHOSEN_BELOW, /* it is in a chosen directory */
};

/* Expands the pattern on this node, in the same way as staging. Returns 0 or an error with err set;
 * -ENOENT: no file matches, or a name without wildcards does not exist. */
int chosen_new(struct chosen **cp, const char *pattern, struct error *err);
void chosen_free(struct chosen *c);
DEFINE_FREEP(struct chosen, chosen_free)

/* Returns how path, relative to the directory, relates to the chosen names. Notes that a chosen
 * name was met. Thread-safe, but two threads must not ask for one path at the same time. */
enum chosen_part chosen_find(struct chosen *c, const char *path);

/* Checks that all chosen names were met. Returns 0, or -ENOTSUP with the first one that was not. */
int chosen_check_all(const struct chosen *c, struct error *err);
