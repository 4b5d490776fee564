/*
 * Fetches a source on the web unchanged: one file, or a set into a directory.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/dataset/path-filter.h"
#include "common/util/error.h"
#include "common/util/fd.h"
#include "common/util/page.h"
#include "common/util/path.h"
#include "daemon/engines/copy/copy-file.h"
#include "daemon/engines/copy/hash.h"
#include "daemon/engines/web/s3-list.h"
#include "daemon/worker/ctx.h"
#include "daemon/worker/source.h"
#include "daemon/worker/stager.h"
#include "daemon/worker/target.h"
#include "daemon/worker/web/fetch-ranges.h"

static void set_mtime(int fd, const struct source *src)
{
	const struct timespec times[2] = { { .tv_nsec = UTIME_OMIT }, src->st.st_mtim };

	if (src->st.st_mtim.tv_sec > 0)
		futimens(fd, times);
}

static int fetch_one(struct ctx *ctx, struct source *src, struct target *target, struct error *err)
{
	_cleanup_(fd_closep) int fd = -1;
	int r;

	r = ctx_charge(ctx, 0, 1, err);
	if (r < 0)
		return r;
	fd = openat(target->dirfd, target->name, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC,
		    0644);
	if (fd < 0)
		return error_errno(err, errno, "create %s", target->path);
	r = source_fetch(ctx, src, fd, err);
	if (r < 0)
		return r;
	set_mtime(fd, src);
	ctx_add_progress(ctx, 0, 1);
	return copy_file_close(&fd, err);
}

/* ---- a set ---- */

struct set {
	struct ctx *ctx;
	const struct fetch_object *objects;
	int root;
};

/* Creates the file `name`, a relative path without ".." (s3-tree.c), and missing directories above
 * it. Returns the descriptor or an error with err set. */
static int open_below(struct set *s, const char *name, struct error *err)
{
	const int flags = O_WRONLY | O_CREAT | O_EXCL;
	char dir[S3_KEY_SIZE];
	int fd, r;

	fd = fd_open_beneath(s->root, name, flags, 0644);
	for (const char *p = strchr(name, '/'); fd == -ENOENT && p; p = strchr(p + 1, '/')) {
		_cleanup_(fd_closep) int parent = -1;
		const char *base;

		snprintf(dir, sizeof(dir), "%.*s", (int)(p - name), name);
		base = path_base(dir);
		parent = -1;
		if (base == dir)
			parent = fd_open_beneath(s->root, ".", O_RDONLY | O_DIRECTORY, 0);
		if (base != dir) {
			dir[base - dir - 1] = '\0';
			parent = fd_open_beneath(s->root, dir, O_RDONLY | O_DIRECTORY, 0);
		}
		r = ctx_charge(s->ctx, 0, 0, err);
		if (r == 0 && (parent < 0 || (mkdirat(parent, base, 0755) < 0 && errno != EEXIST)))
			return error_errno(err, parent < 0 ? -parent : errno,
					   "make directory for %s", name);
		if (r < 0)
			return r;
	}
	if (fd == -ENOENT)
		fd = fd_open_beneath(s->root, name, flags, 0644);
	return fd < 0 ? error_errno(err, -fd, "create %s", name) : fd;
}

static int open_output(void *arg, size_t i, int *fdp, struct error *err)
{
	struct set *s = arg;
	const struct fetch_object *o = &s->objects[i];
	int fd, r;

	r = ctx_charge(s->ctx, page_round_up(o->size), 1, err);
	if (r < 0)
		return r;
	fd = open_below(s, o->name, err);
	if (fd < 0)
		return fd;
	if (ftruncate(fd, (off_t)o->size) < 0) {
		r = error_errno(err, errno, "make room for %s", o->name);
		close(fd);
		return r;
	}
	*fdp = fd;
	return 0;
}

static int close_output(void *arg, size_t i, int fd, struct error *err)
{
	const struct set *s = arg;
	int r = copy_file_close(&fd, err);

	if (r < 0)
		error_prefix(err, "%s", s->objects[i].name);
	return r;
}

static int fetch_set(struct ctx *ctx, struct source *src, struct target *target, struct error *err)
{
	_cleanup_(fd_closep) int root = -1;
	struct set s = { .ctx = ctx, .objects = src->objects };
	const struct fetch_sink sink = { open_output, close_output, &s };

	if (mkdirat(target->dirfd, target->name, 0700) < 0)
		return error_errno(err, errno, "make directory %s", target->path);
	root = openat(target->dirfd, target->name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (root < 0)
		return error_errno(err, errno, "open %s", target->path);
	target->root_mode = 0755;
	s.root = root;
	return fetch_ranges_all(ctx, src->fetch, src->objects, src->n_objects, &sink, NULL, err);
}

static int fetch_stage(struct ctx *ctx, struct source *src, const struct facts *facts,
		       const struct plan *plan, struct target *target, struct stager_result *result,
		       struct error *err)
{
	uint64_t charged;
	int r;

	if (src->kind == SOURCE_FILE)
		r = fetch_one(ctx, src, target, err);
	else
		r = fetch_set(ctx, src, target, err);
	ctx_get_charged(ctx, &result->bytes, &charged);
	result->files = src->n_objects;
	return r;
}

static bool fetch_accepts(enum dataset_method method, const struct facts *facts)
{
	return method == DATASET_METHOD_COPY && facts->is_remote;
}

const struct stager stager_fetch = {
	.name = "fetch",
	.accepts = fetch_accepts,
	.stage = fetch_stage,
};
