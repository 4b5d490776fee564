/*
 * Makes the data visible where it is: by a symbolic link to a file or a directory, and for a set by
 * a directory of links, so that the result has the same structure as a copy.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/util/error.h"
#include "common/util/path.h"
#include "common/util/rmtree.h"
#include "common/util/strutil.h"
#include "daemon/worker/ctx.h"
#include "daemon/worker/source.h"
#include "daemon/worker/stager.h"

/* Makes the directory of links beside the incomplete datasets; data/<name> becomes a link to it.
 * Its name has a dot, which names of datasets cannot have. */
static int make_links_dir(struct ctx *ctx, char **pathp, int *fdp, struct error *err)
{
	_cleanup_(freep) char *path = NULL, *name = NULL;
	int r;

	name = strutil_printf("%s.links", ctx->ds->name);
	path = name ? path_join(ctx->tmp_path, name) : NULL;
	if (!path)
		return error_set(err, ENOMEM, "out of memory");
	r = ctx_record(ctx, MANIFEST_TREE, path, err);
	if (r == 0)
		r = rmtree_at(ctx->tmp_fd, name, NULL, err);
	if (r < 0)
		return r;
	if (mkdirat(ctx->tmp_fd, name, 0700) < 0)
		return error_errno(err, errno, "make directory %s", path);
	*fdp = openat(ctx->tmp_fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (*fdp < 0)
		return error_errno(err, errno, "open %s", path);
	*pathp = steal_ptr(path);
	return 0;
}

/* Opens each member once, so that its resolved path is checked against the rule. */
static int link_member(struct ctx *ctx, struct source *src, size_t i, int dirfd, struct error *err)
{
	_cleanup_(freep) char *real = NULL;
	_cleanup_(fd_closep) int fd = -1;
	struct stat st;
	int r;

	r = ctx_check(ctx, err);
	if (r == 0)
		r = allowed_open_path(src->rules, src->members[i].path, &fd, &st, &real, err);
	if (r < 0)
		return r;
	if (symlinkat(real, dirfd, src->members[i].name) < 0)
		return error_errno(err, errno, "make link %s", src->members[i].name);
	return 0;
}

static int link_set(struct ctx *ctx, struct source *src, struct stager_result *result,
		    struct error *err)
{
	_cleanup_(freep) char *path = NULL;
	_cleanup_(fd_closep) int fd = -1;
	int r;

	r = make_links_dir(ctx, &path, &fd, err);
	for (size_t i = 0; r == 0 && i < src->n_members; i++)
		r = link_member(ctx, src, i, fd, err);
	if (r < 0)
		return r;
	result->link_to = steal_ptr(path);
	return 0;
}

static int link_stage(struct ctx *ctx, struct source *src, const struct facts *facts,
		      const struct plan *plan, struct target *target, struct stager_result *result,
		      struct error *err)
{
	result->bytes = facts->bytes;
	result->files = facts->n_files;
	if (src->kind == SOURCE_SET)
		return link_set(ctx, src, result, err);
	result->link_to = strdup(src->real);
	return result->link_to ? 0 : error_set(err, ENOMEM, "out of memory");
}

static bool link_accepts(enum dataset_method method, const struct facts *facts)
{
	return method == DATASET_METHOD_LINK && !facts->is_remote;
}

const struct stager stager_link = {
	.name = "link",
	.accepts = link_accepts,
	.stage = link_stage,
};
