/*
 * shard: chooses the files of the sorted set that this node stages.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

struct ctx;
struct error;

struct shard {
	size_t n; /* files that are dealt out; the rest is dropped */
	size_t n_nodes, index;
};

/* For n_all files by the dataset's shard=. Warns where the parts are uneven (epochs of unequal
 * length hang training) or files are dropped. -EINVAL: nothing is left to deal out. */
int shard_init(struct shard *shard, struct ctx *ctx, size_t n_all, struct error *err);

bool shard_takes(const struct shard *shard, size_t i);
