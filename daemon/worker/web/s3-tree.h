/*
 * s3-tree: the objects below a prefix as a directory.
 */
#pragma once

#include "common/util/error.h"

struct ctx;
struct source;

int s3_tree_open(struct ctx *ctx, struct source *src, struct error *err);

/* Checks a key that becomes a path. Returns 1; 0: a directory marker such as "a/", which is left
 * out; -EINVAL with err set: it is not a valid path, or could lead out of the directory. */
int s3_tree_check_name(const char *name, struct error *err);
