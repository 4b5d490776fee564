/*
 * s3://BUCKET/KEY is a web file that needs a signature. A key with braces is a set of such files.
 * s3://BUCKET/PREFIX/ is a directory.
 */
#include <errno.h>
#include <string.h>

#include "common/util/error.h"
#include "daemon/worker/ctx.h"
#include "daemon/worker/source.h"
#include "daemon/worker/web/s3-tree.h"
#include "daemon/worker/web/web-set.h"

static int s3_open(struct ctx *ctx, struct source *src, struct error *err)
{
	const char *source = ctx->ds->source;
	int r;

	r = web_begin(ctx, src, source, err);
	if (r < 0)
		return r;
	if (ctx->ds->is_set)
		return web_set_open(ctx, src, err);
	if (source[strlen(source) - 1] == '/')
		return s3_tree_open(ctx, src, err);
	if (ctx->ds->shard != DATASET_SHARD_ALL) {
		error_set(err, EINVAL, "shard= divides a prefix, %s is one object", src->path);
		return error_set_hint(err, -EINVAL, "leave shard= out");
	}
	return web_open_one(ctx, src, err);
}

const struct scheme scheme_s3 = {
	.name = "s3",
	.scheme = DATASET_SCHEME_S3,
	.open = s3_open,
};
