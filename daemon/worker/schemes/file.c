/*
 * Files, directories, patterns and lists on file systems that this node sees.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/dataset/expand.h"
#include "common/util/error.h"
#include "common/util/fd.h"
#include "common/util/path.h"
#include "daemon/worker/ctx.h"
#include "daemon/worker/shard.h"
#include "daemon/worker/source.h"

#define LIST_MAX_SIZE (512 * 1024 * 1024)

static int expand_from_list(const struct source *src, const char *path, struct names *names,
			    struct error *err)
{
	_cleanup_(freep) char *data = NULL, *dir = strdup(path);
	_cleanup_(fd_closep) int fd = -1;
	struct stat st;
	size_t size;
	int r;

	if (!dir)
		return error_set(err, ENOMEM, "out of memory");
	r = allowed_open_path(src->rules, path, &fd, &st, NULL, err);
	if (r < 0)
		return r;
	if (!S_ISREG(st.st_mode)) {
		error_set(err, EINVAL, "%s is a directory, not a list of files", path);
		return error_set_hint(err, -EINVAL, "leave the @@ out to stage it");
	}
	r = fd_read_file(fd, LIST_MAX_SIZE, &data, &size);
	if (r < 0)
		return error_errno(err, -r, "read %s", path);
	*strrchr(dir, '/') = '\0';
	return expand_list(data, size, dir, names, err);
}

static int refuse_member(const char *path, struct error *err)
{
	error_set(err, EINVAL, "%s can't be in a set: the path is /, leads above /, or is too long",
		  path);
	return error_set_hint(err, -EINVAL, "remove it from the set");
}

/* Selects this node's members from names, which are sorted. */
static int take_members(struct ctx *ctx, struct source *src, const struct names *names,
			struct error *err)
{
	struct shard shard;
	int r;

	r = shard_init(&shard, ctx, names->n, err);
	if (r < 0)
		return r;
	src->members = calloc(names->n + 1, sizeof(*src->members));
	if (!src->members)
		return error_set(err, ENOMEM, "out of memory");
	src->n_members_all = names->n;
	for (size_t i = 0; i < names->n; i++) {
		struct source_member *m = &src->members[src->n_members];
		char path[PATH_MAX];

		if (!shard_takes(&shard, i))
			continue;
		if (path_normalize(names->v[i], path, sizeof(path)) < 0 || !path[1])
			return refuse_member(names->v[i], err);
		m->path = strdup(path);
		if (!m->path)
			return error_set(err, ENOMEM, "out of memory");
		m->name = path_base(m->path);
		src->n_members++;
	}
	return source_check_names(src, err);
}

static int refuse_empty(struct ctx *ctx, const struct source *src, struct error *err)
{
	struct stat st;

	if (ctx->ds->scheme == DATASET_SCHEME_LIST) {
		error_set(err, ENOENT, "%s is empty", src->path);
		return error_set_hint(err, -ENOENT, "write a path a line into it");
	}
	error_set(err, ENOENT, "%s: no file fits the pattern", src->path);
	if (lstat(src->path, &st) == 0)
		return error_set_hint(
			err, -ENOENT,
			"to stage the file of exactly this name, write %%5B for [, %%2A "
			"for *, %%3F for ? and %%7B for {");
	return error_set_hint(err, -ENOENT, "check it with ls on node %s", ctx->node);
}

static int open_set(struct ctx *ctx, struct source *src, struct error *err)
{
	_cleanup_(names_deinit) struct names names = { 0 };
	int r;

	src->kind = SOURCE_SET;
	if (ctx->ds->scheme == DATASET_SCHEME_LIST)
		r = expand_from_list(src, src->path, &names, err);
	else
		r = expand_pattern(src->path, &names, err);
	if (r < 0)
		return r;
	if (names.n == 0)
		return refuse_empty(ctx, src, err);
	names_sort(&names);
	return take_members(ctx, src, &names, err);
}

/* Opens subdir= of a directory, without following links in it. */
static int enter_subdir(struct source *src, const char *subdir, struct error *err)
{
	char *path = path_join(src->path, subdir), *real = path_join(src->real, subdir);
	int fd = fd_open_beneath(src->fd, subdir, O_RDONLY | O_DIRECTORY, 0);

	if (!path || !real || fd < 0 || fstat(fd, &src->st) < 0) {
		free(path);
		free(real);
		if (fd >= 0)
			close(fd);
		return error_errno(err, fd < 0 ? -fd : ENOMEM, "%s/%s", src->path, subdir);
	}
	free(src->path);
	src->top = src->real;
	src->path = path;
	src->real = real;
	close(src->fd);
	src->fd = fd;
	return 0;
}

static int refuse_shard(const char *path, struct error *err)
{
	error_set(err, EINVAL, "shard= divides a directory or a set, %s is one file", path);
	return error_set_hint(err, -EINVAL, "leave shard= out, or name the shards by a pattern");
}

static int file_open(struct ctx *ctx, struct source *src, struct error *err)
{
	char path[PATH_MAX];
	int r;

	r = path_normalize(ctx->ds->source, path, sizeof(path));
	if (r < 0)
		return error_set(err, -r, "'%s' is not an absolute path", ctx->ds->source);
	src->path = strdup(path);
	if (!src->path)
		return error_set(err, ENOMEM, "out of memory");
	if (ctx->ds->is_set || ctx->ds->scheme == DATASET_SCHEME_LIST)
		return open_set(ctx, src, err);
	r = allowed_open_path(src->rules, path, &src->fd, &src->st, &src->real, err);
	if (r < 0)
		return r;
	src->kind = S_ISDIR(src->st.st_mode) ? SOURCE_DIR : SOURCE_FILE;
	if (src->kind == SOURCE_FILE && ctx->ds->shard != DATASET_SHARD_ALL)
		return refuse_shard(path, err);
	if (src->kind == SOURCE_DIR && ctx->ds->subdir)
		return enter_subdir(src, ctx->ds->subdir, err);
	return 0;
}

const struct scheme scheme_file = {
	.name = "file",
	.scheme = DATASET_SCHEME_FILE,
	.open = file_open,
};
