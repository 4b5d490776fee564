/*
 * path-filter: include= and exclude= for trees and archives.
 *
 * A pattern without "/" fits any component of a path: "*.jpg", "train". A pattern with "/" is
 * compared with the whole path from the top, and "**" matches several components: "train/n01*". A
 * pattern that matches a directory applies to everything below it. Braces are expanded. A path is
 * staged if it matches an include= (or there is none) and no exclude=.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "common/util/cleanup.h"

struct dataset;
struct error;
struct path_filter;

int path_filter_new(struct path_filter **fp, const struct dataset *ds, struct error *err);
void path_filter_free(struct path_filter *f);
DEFINE_FREEP(struct path_filter, path_filter_free)

/* All paths are relative and normal. Returns whether the file or link is staged. */
bool path_filter_takes(const struct path_filter *f, const char *path);
/* Returns whether everything below the directory is left out. */
bool path_filter_prunes(const struct path_filter *f, const char *dir);
/* Returns whether there is an include=. Then a directory is made only if something below it is
 * staged. */
bool path_filter_has_includes(const struct path_filter *f);
