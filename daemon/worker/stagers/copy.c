/*
 * Copies the source unchanged: one file, or with copy-engine a directory or a set.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/util/error.h"
#include "common/util/path.h"
#include "daemon/engines/copy/copy-engine.h"
#include "daemon/engines/copy/copy-file.h"
#include "daemon/engines/copy/copy-ranges.h"
#include "daemon/engines/copy/hash.h"
#include "daemon/worker/ctx.h"
#include "daemon/worker/source.h"
#include "daemon/worker/broadcast/broadcast.h"
#include "daemon/worker/stager.h"
#include "daemon/worker/target.h"

/* ---- one file ---- */

struct file_copy {
	struct ctx *ctx;
	int in, out;
	struct stat st;
};

static int copy_hashed(struct file_copy *f, const struct source *src, struct error *err)
{
	_cleanup_(hash_freep) struct hash *hash = NULL;
	int r;

	if (hash_new(&hash) < 0)
		return error_set(err, ENOMEM, "out of memory");
	r = copy_file_range_data(&f->ctx->io, f->in, f->out, 0, (uint64_t)f->st.st_size,
				 copy_file_is_sparse(&f->st), hash, err);
	return r < 0 ? r : hash_check(hash, f->ctx->ds->sha256, src->path, err);
}

/* Moves a file that sbcast has delivered, because a copy would need the memory twice. */
static int copy_landed(struct file_copy *f, struct source *src, struct error *err)
{
	_cleanup_(hash_freep) struct hash *hash = NULL;
	int r;

	if (f->ctx->ds->verify == DATASET_VERIFY_SHA256 && hash_new(&hash) < 0)
		return error_set(err, ENOMEM, "out of memory");
	r = broadcast_move(f->ctx, src, f->out, hash, err);
	return r < 0 || !hash ? r : hash_check(hash, f->ctx->ds->sha256, src->path, err);
}

static int check_size(const struct file_copy *f, struct error *err)
{
	struct stat st;

	if (fstat(f->out, &st) < 0 || st.st_size != f->st.st_size)
		return error_set(err, EIO, "the copy has not the size of the source");
	return 0;
}

static int copy_file(struct ctx *ctx, struct source *src, struct target *target, struct error *err)
{
	struct file_copy f = { .ctx = ctx, .in = src->fd, .out = -1, .st = src->st };
	int r;

	r = ctx_charge(ctx, copy_file_charge(&src->st), 1, err);
	if (r == 0)
		r = copy_file_create(target->dirfd, target->name, &src->st, &f.out, err);
	if (r == 0 && src->landed)
		r = copy_landed(&f, src, err);
	else if (r == 0 && ctx->ds->verify == DATASET_VERIFY_SHA256)
		r = copy_hashed(&f, src, err);
	else if (r == 0)
		r = copy_ranges_of_file(&ctx->io, f.in, f.out, &f.st, err);
	if (r == 0 && ctx->ds->verify != DATASET_VERIFY_NONE)
		r = check_size(&f, err);
	if (r == 0 && !src->landed)
		r = copy_file_finish(f.in, f.out, &src->st, err);
	if (r == 0)
		r = source_check_unchanged(src, err);
	else if (r != -ECANCELED)
		error_prefix(err, "%s", src->path);
	ctx_add_progress(ctx, 0, r == 0);
	fd_closep(&f.out);
	return r;
}

/* ---- directories and sets ---- */

static int refuse_itself(const struct source *src, const struct target *target, struct error *err)
{
	error_set(err, EINVAL, "%s would be copied into itself (%s)", src->path, target->path);
	return error_set_hint(err, -EINVAL, "name what is to be staged below it, or another DEST");
}

static struct copy_member get_member(const void *arg, size_t i)
{
	const struct source_member *m = &((const struct source *)arg)->members[i];

	return (struct copy_member){ m->path, m->name };
}

static int open_member(const void *arg, size_t i, int *fdp, struct stat *st, struct error *err)
{
	const struct source *src = arg;

	return allowed_open_path(src->rules, src->members[i].path, fdp, st, NULL, err);
}

static int open_link(const void *arg, int root, int dirfd, const char *name, const char *path,
		     int *fdp, struct stat *st, struct error *err)
{
	const struct allowed a = source_get_allowed(arg);

	return allowed_open_link(&a, root, dirfd, name, path, fdp, st, err);
}

static bool takes(const void *arg, const char *path)
{
	return source_takes(arg, path);
}

static const struct copy_source_ops source_ops = {
	.get_member = get_member,
	.open_member = open_member,
	.open_link = open_link,
	.takes = takes,
};

static int copy_dir(struct ctx *ctx, struct source *src, struct target *target,
		    struct copy_result *result, struct error *err)
{
	const struct copy_source from = {
		.ops = &source_ops,
		.arg = src,
		.path = src->path,
		.fd = src->kind == SOURCE_SET ? -1 : src->fd,
		.n_members = src->n_members,
		.is_part = src->taken,
		.kept = src->kept,
		.n_readers = src->n_readers,
	};
	_cleanup_(fd_closep) int root = -1;

	if (src->real && path_is_beneath(target->path, src->real))
		return refuse_itself(src, target, err);
	if (mkdirat(target->dirfd, target->name, 0700) < 0)
		return error_errno(err, errno, "make directory %s", target->path);
	root = openat(target->dirfd, target->name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (root < 0)
		return error_errno(err, errno, "open %s", target->path);
	target->root_mode = src->kind == SOURCE_DIR ? copy_file_mode(src->st.st_mode) : 0755;
	return copy_tree(&ctx->io, &from, root, result, err);
}

static int copy_stage(struct ctx *ctx, struct source *src, const struct facts *facts,
		      const struct plan *plan, struct target *target, struct stager_result *result,
		      struct error *err)
{
	struct copy_result copied = { .files = 1 };
	uint64_t charged;
	int r;

	if (src->kind == SOURCE_FILE)
		r = copy_file(ctx, src, target, err);
	else
		r = copy_dir(ctx, src, target, &copied, err);
	ctx_get_charged(ctx, &result->bytes, &charged);
	result->files = copied.files;
	return r;
}

static bool copy_accepts(enum dataset_method method, const struct facts *facts)
{
	return method == DATASET_METHOD_COPY;
}

const struct stager stager_copy = {
	.name = "copy",
	.accepts = copy_accepts,
	.stage = copy_stage,
};
