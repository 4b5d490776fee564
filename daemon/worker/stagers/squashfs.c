/*
 * method=mount of squashfs images, and method=extract of them by the same reader.
 *
 * The image is walked in a confined child before anything is made of it; a damaged one fails here,
 * with a sentence.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "common/error.h"
#include "daemon/worker/ctx.h"
#include "daemon/worker/plan.h"
#include "daemon/worker/source.h"
#include "daemon/worker/sqfs-check.h"
#include "daemon/worker/sqfs-mount.h"
#include "daemon/worker/stager.h"

static bool squashfs_accepts(enum dataset_method method, const struct facts *facts)
{
	return facts->kind == SOURCE_FILE && facts->format == FORMAT_SQUASHFS &&
	       facts->filter == FILTER_NONE && method == DATASET_METHOD_MOUNT;
}

static bool squashfs_is_cancelled(void *arg)
{
	return ctx_is_cancelled(arg);
}

/* A mount shows the image as it is. */
static int squashfs_check_options(const struct dataset *ds, struct error *err)
{
	const char *option = ds->strip ? "strip=" : ds->n_include ? "include=" :
			     ds->n_exclude ? "exclude=" : ds->nested ? "nested" : NULL;

	if (option)
		return error_set(err, EINVAL, "%s can't be had with method=mount; "
				 "add method=extract", option);
	return 0;
}

static int squashfs_mount(struct ctx *ctx, int fd, struct stager_result *result,
			  struct error *err)
{
	_cleanup_(sqfs_mount_freep) struct sqfs_mount *m = NULL;
	int r;

	r = sqfs_mount_new(&m, ctx, fd, err);
	if (r < 0)
		return r;
	result->link_to = strdup(sqfs_mount_get_path(m));
	if (!result->link_to)
		return error_set(err, ENOMEM, "no memory to mount the image");
	result->stays = true;
	result->state = steal_ptr(m);
	return 0;
}

static int squashfs_stage(struct ctx *ctx, struct source *src, const struct facts *facts,
			  const struct plan *plan, struct target *target,
			  struct stager_result *result, struct error *err)
{
	struct sqfs_counts counts;
	int r;

	r = squashfs_check_options(ctx->ds, err);
	if (r == 0)
		r = sqfs_check_run(src->fd, &counts, squashfs_is_cancelled, ctx, err);
	if (r < 0)
		return r == -ECANCELED ? ctx_check(ctx, err) : r;
	if (counts.n_hidden > 0)
		ctx_warn(ctx, "%llu devices, FIFOs and sockets of the image are not shown",
			 (unsigned long long)counts.n_hidden);
	result->bytes = counts.bytes;
	result->files = counts.n_files;
	return squashfs_mount(ctx, src->fd, result, err);
}

static int squashfs_serve(struct ctx *ctx, void *state, struct error *err)
{
	_cleanup_(sqfs_mount_freep) struct sqfs_mount *m = state;

	return sqfs_mount_serve(m, err);
}

const struct stager stager_squashfs = {
	.name = "squashfs",
	.accepts = squashfs_accepts,
	.stage = squashfs_stage,
	.serve = squashfs_serve,
};
