/*
 * s3-tree: the objects below a prefix as a directory.
 */
#pragma once

#include "common/util/error.h"

struct ctx;
struct source;

int s3_tree_open(struct ctx *ctx, struct source *src, struct error *err);

/* Keys become paths; one that could lead out, or is no path, is refused. "a/", the marker of a
 * directory, is 0: left out. 1: fine, -EINVAL with the sentence. */
int s3_tree_check_name(const char *name, struct error *err);
