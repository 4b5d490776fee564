/*
 * filter: include= and exclude= for trees and archives.
 *
 * A pattern without "/" fits any component of a path: "*.jpg", "train". One with "/" is held against
 * the whole path from the top, "**" spanning components: "train/n01*". What fits a directory holds
 * for everything below it. Braces are expanded. A path is taken when it fits an include= (or there
 * is none) and no exclude=.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "common/util/cleanup.h"

struct dataset;
struct error;
struct filter;

int filter_new(struct filter **fp, const struct dataset *ds, struct error *err);
void filter_free(struct filter *f);
DEFINE_FREEP(struct filter, filter_free)

/* Relative, normal paths. A file or link: is it taken? */
bool filter_takes(const struct filter *f, const char *path);
/* A directory: is everything below it left out? */
bool filter_prunes(const struct filter *f, const char *dir);
/* Are there includes, so that a directory only comes with what is taken below it? */
bool filter_has_includes(const struct filter *f);
