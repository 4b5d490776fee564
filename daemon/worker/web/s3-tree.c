#include "daemon/worker/web/s3-tree.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "common/util/count.h"
#include "common/util/url.h"
#include "daemon/worker/ctx.h"
#include "daemon/worker/shard.h"
#include "daemon/worker/source.h"
#include "daemon/worker/web/fetch-ranges.h"
#include "daemon/worker/web/s3-objects.h"

int s3_tree_check_name(const char *name, struct error *err)
{
	const char *p = name;
	size_t n;

	for (;; p += n + 1) {
		n = strcspn(p, "/");
		if (n == 0 && !p[n] && p != name)
			return 0;
		if (n == 0 || n > NAME_MAX || (n == 1 && p[0] == '.') ||
		    (n == 2 && !memcmp(p, "..", 2)))
			break;
		if (!p[n])
			return 1;
	}
	error_set(err, EINVAL, "the key '%.300s' can't be a path", name);
	return error_set_hint(err, -EINVAL, "name a prefix without it, or the objects themselves");
}

static void free_object(struct fetch_object *o)
{
	free(o->url);
	free(o->name);
}

/* Removes the prefix from the key, which leaves the name. Returns 1; 0: it is a directory marker;
 * or an error with err set. */
static int name_object(struct fetch_object *o, size_t n_prefix, struct error *err)
{
	int r = 0;

	if (o->name[n_prefix]) /* else the key is the marker of the directory itself */
		r = s3_tree_check_name(o->name + n_prefix, err);
	if (r > 0)
		memmove(o->name, o->name + n_prefix, strlen(o->name + n_prefix) + 1);
	return r;
}

/* Warns about objects that have content but are named like directory markers, because no file can
 * have such a name. */
static void warn_of_markers(struct ctx *ctx, size_t n, const char *first)
{
	if (n > 0)
		stage_io_warn(&ctx->io,
			      "%zu %s left out, because %s in \"/\" as no file's name can (%.300s)",
			      n,
			      count_word(n, "object with content is", "objects with content are"),
			      count_word(n, "its key ends", "their keys end"), first);
}

/* Keeps the objects that become files, and frees the others. */
static int take_names(struct ctx *ctx, struct source *src, size_t n_prefix, struct error *err)
{
	_cleanup_(freep) char *first = NULL;
	size_t kept = 0, n_full = 0;
	int r = 0;

	for (size_t i = 0; i < src->n_objects; i++) {
		struct fetch_object o = src->objects[i];

		r = r < 0 ? r : name_object(&o, n_prefix, err);
		src->objects[i] = (struct fetch_object){ 0 };
		if (r > 0) {
			src->objects[kept++] = o;
			continue;
		}
		if (r == 0 && o.size > 0 && n_full++ == 0)
			first = steal_ptr(o.name);
		free_object(&o);
	}
	src->n_objects = kept;
	if (r >= 0)
		warn_of_markers(ctx, n_full, first ? first : "");
	return r < 0 ? r : 0;
}

static int take_shard(struct ctx *ctx, struct source *src, struct error *err)
{
	struct shard shard;
	size_t kept = 0;
	int r;

	r = shard_init(&shard, ctx, src->n_objects, err);
	if (r < 0)
		return r;
	for (size_t i = 0; i < src->n_objects; i++) {
		struct fetch_object o = src->objects[i];

		if (shard_takes(&shard, i)) {
			src->objects[i] = src->objects[kept];
			src->objects[kept++] = o;
		}
	}
	for (size_t i = kept; i < src->n_objects; i++)
		free_object(&src->objects[i]);
	src->n_objects = kept;
	return 0;
}

int s3_tree_open(struct ctx *ctx, struct source *src, struct error *err)
{
	struct url url;
	int r;

	src->kind = SOURCE_DIR;
	if (ctx->ds->n_include || ctx->ds->n_exclude || ctx->ds->subdir) {
		error_set(err, EINVAL, "include=, exclude= and subdir= do not select from s3://");
		return error_set_hint(err, -EINVAL, "name a longer prefix");
	}
	r = url_parse(&url, ctx->ds->source, err);
	if (r == 0)
		r = s3_objects_find(ctx, src, ctx->ds->source, false, &src->objects,
				    &src->n_objects, err);
	if (r == 0)
		r = take_names(ctx, src, url.n_path, err);
	if (r < 0)
		return r;
	if (src->n_objects == 0) {
		error_set(err, ENOENT, "%s: no object is below it", src->path);
		return error_set_hint(err, -ENOENT, "check bucket and prefix");
	}
	return take_shard(ctx, src, err);
}
