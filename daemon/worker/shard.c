#include "daemon/worker/shard.h"

#include <errno.h>

#include "common/util/count.h"
#include "common/util/error.h"
#include "daemon/worker/ctx.h"

int shard_init(struct shard *shard, struct ctx *ctx, size_t n_all, struct error *err)
{
	size_t n_nodes = ctx->policy.n_nodes, rest;

	*shard = (struct shard){ .n = n_all, .n_nodes = 1 };
	if (ctx->ds->shard == DATASET_SHARD_ALL || n_nodes <= 1)
		return 0;
	if (ctx->policy.node_index >= n_nodes) {
		error_set(err, EINVAL, "node %u of %zu nodes has no share", ctx->policy.node_index,
			  n_nodes);
		return error_set_hint(err, -EINVAL, "leave shard= out and tell the site");
	}
	shard->n_nodes = n_nodes;
	shard->index = ctx->policy.node_index;
	rest = n_all % n_nodes;
	if (rest == 0)
		return 0;
	if (ctx->ds->shard == DATASET_SHARD_NODE) {
		stage_io_warn(&ctx->io,
			      "%zu files on %zu nodes: some nodes have one file more; "
			      "shard=node-even drops the rest",
			      n_all, n_nodes);
		return 0;
	}
	shard->n = n_all - rest;
	if (shard->n == 0) {
		error_set(err, EINVAL, "shard=node-even: %zu files are fewer than %zu nodes", n_all,
			  n_nodes);
		return error_set_hint(err, -EINVAL,
				      "make more shards (stagectl pack --shards), or ask for fewer "
				      "nodes");
	}
	stage_io_warn(&ctx->io, "shard=node-even: %zu of %zu files %s on no node", rest, n_all,
		      count_word(rest, "is", "are"));
	return 0;
}

bool shard_takes(const struct shard *shard, size_t i)
{
	return i < shard->n && i % shard->n_nodes == shard->index;
}
