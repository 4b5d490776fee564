/*
 * shard: chooses the files of the sorted set that this node stages.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

struct ctx;
struct error;

struct shard {
	size_t n; /* number of files that are dealt out; the rest is dropped */
	size_t n_nodes, index;
};

/* Decides how n_all files are dealt out for the dataset's shard=. Warns if the parts differ in size
 * (epochs of different length make training hang) or files are dropped. Returns 0 or an error with
 * err set; -EINVAL: no file is left to deal out. */
int shard_init(struct shard *shard, struct ctx *ctx, size_t n_all, struct error *err);

bool shard_takes(const struct shard *shard, size_t i);
