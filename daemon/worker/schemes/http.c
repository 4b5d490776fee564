/*
 * http:// and https://, by stage-fetch. The beginning of an object is requested as a part. The
 * answer shows the size of the object, whether the server supports parts, and the format. The part
 * is stored in memory, at its offset in a file of the object's size, so that the probe reads it
 * like any other file. For formats with facts at their end, the end is requested, too.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "common/util/error.h"
#include "common/util/fd.h"
#include "daemon/engines/archive/magic.h"
#include "daemon/engines/web/web.h"
#include "daemon/worker/ctx.h"
#include "daemon/worker/source.h"
#include "daemon/worker/web/fetch-ranges.h"
#include "daemon/worker/web/web-set.h"

#define HEAD_SIZE (1u << 20) /* as much as probe.c reads */
#define HEAD_LZ4_SIZE (HEAD_SIZE + (4u << 20))
#define TAIL_SIZE (64u << 10)

/* Fetches bytes [from, to) of the object into src->fd. */
static int look_at(struct ctx *ctx, struct source *src, uint64_t from, uint64_t to,
		   struct http_reply *reply, struct error *err)
{
	const struct fetch_object *o = src->objects;
	const struct fetch_get get = {
		.url = o->url,
		.from = from,
		.to = to,
		.whole_is_fine = from == 0,
		.any_end = ctx->ds->verify == DATASET_VERIFY_SHA256,
		.known = from > 0 ? &o->validator : NULL,
		.known_total = o->size,
	};

	return fetch_get_now(src->fetch, ctx, &get, src->fd, reply, err);
}

static void set_stat(struct source *src)
{
	const struct fetch_object *o = src->objects;
	uint64_t size = o->size == HTTP_END ? 0 : o->size;

	src->st = (struct stat){ .st_mode = S_IFREG | 0644 };
	src->st.st_size = (off_t)size;
	src->st.st_blocks = (blkcnt_t)((size + 511) / 512);
	src->st.st_mtim.tv_sec = http_date_read(o->validator.modified);
}

/* Fetches the end for formats that store the size of their content there. */
static int look_at_end(struct ctx *ctx, struct source *src, struct error *err)
{
	const struct fetch_object *o = src->objects;
	unsigned char head[MAGIC_SIZE];
	ssize_t n = pread(src->fd, head, sizeof(head), 0);
	enum facts_filter filter = n > 0 ? magic_get_filter(head, (size_t)n) : FILTER_NONE;
	struct http_reply reply;
	uint64_t from;

	if (o->size == HTTP_END || !o->ranges || o->size <= HEAD_SIZE)
		return 0;
	if (filter == FILTER_LZ4)
		return look_at(ctx, src, HEAD_SIZE,
			       o->size < HEAD_LZ4_SIZE ? o->size : HEAD_LZ4_SIZE, &reply, err);
	if (filter != FILTER_GZIP && filter != FILTER_XZ)
		return 0;
	from = o->size - HEAD_SIZE < TAIL_SIZE ? HEAD_SIZE : o->size - TAIL_SIZE;
	return look_at(ctx, src, from, o->size, &reply, err);
}

static int refuse_size(const struct source *src, struct error *err)
{
	error_set(err, EIO, "%s: the server says that it has %llu bytes, more than a file can have",
		  src->path, (unsigned long long)src->objects->size);
	return error_set_hint(err, -EIO,
			      "check the address, and tell the administrator of the "
			      "server");
}

int web_open_one(struct ctx *ctx, struct source *src, struct error *err)
{
	struct fetch_object *o = calloc(1, sizeof(*o));
	struct http_reply reply;
	int r;

	src->objects = o;
	src->n_objects = o != NULL;
	if (!o || !(o->url = strdup(ctx->ds->source)))
		return error_set(err, ENOMEM, "out of memory");
	src->kind = SOURCE_FILE;
	src->fd = memfd_create("web", MFD_CLOEXEC);
	if (src->fd < 0)
		return error_errno(err, errno, "make a file in memory");
	o->size = HTTP_END;
	r = look_at(ctx, src, 0, HEAD_SIZE, &reply, err);
	if (r < 0)
		return r;
	o->size = reply.total;
	o->validator = reply.validator;
	o->ranges = reply.ranges && http_validator_for_range(&o->validator);
	src->called = strdup(reply.name);
	if (!src->called)
		return error_set(err, ENOMEM, "out of memory");
	r = look_at_end(ctx, src, err);
	if (r < 0)
		return r;
	if (o->size != HTTP_END && (o->size > INT64_MAX || ftruncate(src->fd, (off_t)o->size) < 0))
		return refuse_size(src, err);
	set_stat(src);
	return 0;
}

int web_begin(struct ctx *ctx, struct source *src, const char *shown, struct error *err)
{
	src->path = strdup(shown);
	src->is_remote = true;
	src->fetch = ctx->fetch;
	if (!src->path)
		return error_set(err, ENOMEM, "out of memory");
	if (!src->fetch)
		return error_set(err, EOPNOTSUPP, "this stage-worker has no " FETCH_PROGRAM);
	return 0;
}

static int http_open(struct ctx *ctx, struct source *src, struct error *err)
{
	char shown[DATASET_MAX_ITEM];
	int r;

	r = web_begin(ctx, src, web_show(ctx->ds->source, shown, sizeof(shown)), err);
	if (r < 0)
		return r;
	if (ctx->ds->is_set)
		return web_set_open(ctx, src, err);
	if (ctx->ds->shard != DATASET_SHARD_ALL) {
		error_set(err, EINVAL, "shard= divides a set, %s is one file", src->path);
		return error_set_hint(err, -EINVAL,
				      "leave shard= out, or name the shards by a pattern");
	}
	return web_open_one(ctx, src, err);
}

const struct scheme scheme_http = {
	.name = "http",
	.scheme = DATASET_SCHEME_HTTP,
	.open = http_open,
};
