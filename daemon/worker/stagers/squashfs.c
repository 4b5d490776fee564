/*
 * This file has method=mount of squashfs images, plain tars and zips, and method=extract of
 * images, which uses the same reader.
 *
 * A confined child process checks all metadata of the image before the image becomes visible. If
 * the image is damaged, the dataset fails with a message. The mount is made during the check, but
 * no request is answered yet. If the check fails, the mount ends with the worker. squashfuse_ll is
 * started after the check. With a DEST, the image is first copied there and mounted from the copy.
 * With hydrate=copy, it is mounted at once and copied in the background.
 *
 * A tar or zip is mounted by an index of its members (archive-open.h), from its source or from a
 * copy.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/sandbox/data-rlimit.h"
#include "common/util/error.h"
#include "common/util/fd.h"
#include "common/util/page.h"
#include "daemon/engines/archive/archive-index.h"
#include "daemon/engines/archive/stream.h"
#include "daemon/engines/copy/copy-file.h"
#include "daemon/engines/copy/copy-ranges.h"
#include "daemon/engines/copy/hash.h"
#include "daemon/engines/image/sqfs-check.h"
#include "daemon/engines/image/sqfs-extract.h"
#include "daemon/engines/image/sqfs-image.h"
#include "daemon/worker/archive-open.h"
#include "daemon/worker/ctx.h"
#include "daemon/worker/plan.h"
#include "daemon/worker/source.h"
#include "daemon/worker/broadcast/broadcast.h"
#include "daemon/worker/sqfs-mount.h"
#include "daemon/worker/squashfuse.h"
#include "daemon/worker/stager.h"
#include "daemon/worker/target.h"

static bool squashfs_accepts(enum dataset_method method, const struct facts *facts)
{
	if (facts->kind != SOURCE_FILE || facts->filter != FILTER_NONE)
		return false;
	if (facts_is_archive(facts))
		return method == DATASET_METHOD_MOUNT;
	return facts->format == FORMAT_SQUASHFS &&
	       (method == DATASET_METHOD_MOUNT || method == DATASET_METHOD_EXTRACT);
}

static bool squashfs_is_cancelled(void *arg)
{
	return ctx_is_cancelled(arg);
}

static int squashfs_end_check(struct ctx *ctx, struct sqfs_check *check, struct sqfs_counts *counts,
			      struct error *err)
{
	int r;

	r = sqfs_check_end(check, counts, squashfs_is_cancelled, ctx, err);
	if (r == -ECANCELED)
		return ctx_check(ctx, err);
	if (r == -EIO)
		error_set_hint(err, r, "make or copy it again");
	else if (r == -EOPNOTSUPP || r == -EINVAL)
		error_set_hint(err, r, "make it again (stagectl pack)");
	if (r == 0 && counts->n_hidden > 0)
		stage_io_warn(&ctx->io,
			      "devices, FIFOs and sockets of the image are left out: %llu",
			      (unsigned long long)counts->n_hidden);
	return r;
}

static int squashfs_check(struct ctx *ctx, int fd, struct sqfs_counts *counts, struct error *err)
{
	struct sqfs_check check;
	int r;

	r = sqfs_check_begin(&check, fd, err);
	return r < 0 ? r : squashfs_end_check(ctx, &check, counts, err);
}

/* Checks the checksum of an image that is not copied. */
static int squashfs_verify(struct ctx *ctx, struct source *src, struct error *err)
{
	_cleanup_(stream_closep) struct stream *in = NULL;
	_cleanup_(hash_freep) struct hash *hash = NULL;
	int r;

	if (ctx->ds->verify != DATASET_VERIFY_SHA256)
		return 0;
	if (src->is_remote && !src->fetch) /* it was verified while it was fetched */
		return 0;
	if (hash_new(&hash) < 0)
		return error_set(err, ENOMEM, "no memory to verify the image");
	r = stream_new_file(&in, &ctx->io, src->fd, hash, err);
	if (r == 0)
		r = stream_drain(in, err);
	return r < 0 ? r : hash_check(hash, ctx->ds->sha256, src->path, err);
}

static int squashfs_copy_data(struct ctx *ctx, struct source *src, int out, struct error *err)
{
	_cleanup_(hash_freep) struct hash *hash = NULL;
	int r;

	if (ctx->ds->verify == DATASET_VERIFY_SHA256 && hash_new(&hash) < 0)
		return error_set(err, ENOMEM, "no memory to verify the image");
	if (src->landed)
		r = broadcast_move(ctx, src, out, hash, err);
	else if (hash)
		r = copy_file_range_data(&ctx->io, src->fd, out, 0, (uint64_t)src->st.st_size,
					 copy_file_is_sparse(&src->st), hash, err);
	else
		r = copy_ranges_of_file(&ctx->io, src->fd, out, &src->st, err);
	if (r == 0 && !src->landed)
		r = copy_file_finish(src->fd, out, &src->st, err);
	return r < 0 || !hash ? r : hash_check(hash, ctx->ds->sha256, src->path, err);
}

/* Makes an empty file with the size of the image. It is also opened for reading, because the kernel
 * can only splice from such a descriptor. */
static int squashfs_make_copy(struct ctx *ctx, const struct source *src,
			      const struct target *target, int *fdp, struct error *err)
{
	struct stat st = src->st;
	_cleanup_(fd_closep) int out = -1;
	int r;

	st.st_mode = S_IFREG | 0600; /* only this process reads it */
	r = ctx_charge(ctx, copy_file_charge(&st), 1, err);
	if (r == 0)
		r = copy_file_create(target->dirfd, target->name, &st, &out, err);
	if (r < 0)
		return r;
	*fdp = openat(target->dirfd, target->name, O_RDWR | O_NOFOLLOW | O_CLOEXEC);
	return *fdp < 0 ? error_errno(err, errno, "open %s", target->path) : 0;
}

/* Makes a complete copy. */
static int squashfs_copy(struct ctx *ctx, struct source *src, struct target *target, int *fdp,
			 struct error *err)
{
	int r;

	if (src->fetch) { /* a file without a name, because no other process needs it */
		r = source_spool(ctx, src, target, err);
		*fdp = r < 0 ? -1 : steal_fd(&src->fd);
		return r;
	}
	r = squashfs_make_copy(ctx, src, target, fdp, err);
	return r < 0 ? r : squashfs_copy_data(ctx, src, *fdp, err);
}

static int squashfs_take_mount(struct sqfs_mount *m, struct stager_result *result,
			       struct error *err)
{
	result->link_to = strdup(sqfs_mount_get_path(m));
	if (!result->link_to) {
		sqfs_mount_free(m);
		return error_set(err, ENOMEM, "no memory to mount it");
	}
	result->stays = true;
	result->state = m;
	return 0;
}

static void squashfs_forget_mount(struct stager_result *result)
{
	sqfs_mount_free(result->state);
	free(result->link_to);
	*result = (struct stager_result){ 0 };
}

static int squashfs_settle(struct stager_result *result, struct error *err)
{
	int r = sqfs_mount_settle(result->state, err);

	if (r < 0)
		squashfs_forget_mount(result);
	return r;
}

/* fd: the image, or a complete copy. copy: a copy that is filled while the image is served, or
 * -1. */
static int squashfs_mount(struct ctx *ctx, const struct source *src, int fd, int copy,
			  struct stager_result *result, struct error *err)
{
	_cleanup_(sqfs_mount_freep) struct sqfs_mount *m = NULL;
	int r;

	r = sqfs_mount_new(&m, ctx, fd, err);
	if (r == 0 && copy >= 0)
		r = sqfs_mount_set_copy(m, copy, &src->st, err);
	return r < 0 ? r : squashfs_take_mount(steal_ptr(m), result, err);
}

/* Adds a text to the plan's line that the planner could not know. */
static void squashfs_tell(struct ctx *ctx, const struct facts *facts, const struct plan *plan,
			  const char *text)
{
	struct plan told = *plan;
	size_t n = strlen(told.line);

	snprintf(told.line + n, sizeof(told.line) - n, ", %s", text);
	ctx_send_facts(ctx, facts, &told);
}

/* fd: the archive, or a complete copy. */
static int squashfs_mount_archive(struct ctx *ctx, const struct source *src, int fd,
				  const struct facts *facts, const struct plan *plan,
				  struct stager_result *result, struct error *err)
{
	_cleanup_(archive_index_freep) struct archive_index *x = NULL;
	struct archive_counts counts;
	struct sqfs_mount *m;
	struct stat st;
	int r;

	r = archive_open(ctx, src, fd, facts->format, &x, &st, err);
	if (r > 0)
		squashfs_tell(ctx, facts, plan, "by the index beside the archive");
	if (r >= 0)
		r = source_check_unchanged(src, err);
	if (r < 0)
		return r;
	archive_index_get_counts(x, &counts);
	result->bytes = counts.bytes;
	result->files = counts.n_files;
	r = sqfs_mount_new_archive(&m, ctx, steal_ptr(x), fd, &st, err);
	if (r == 0)
		r = squashfs_take_mount(m, result, err);
	return r < 0 ? r : squashfs_settle(result, err);
}

/* Checks the image and mounts it through the same descriptor, so that the checked data is
 * served. */
static int squashfs_check_and_mount(struct ctx *ctx, struct source *src, int fd, int copy,
				    struct sqfs_counts *counts, struct stager_result *result,
				    struct error *err)
{
	/* The mount can be made during the check unless metadata is read for it: to find subdir=,
	 * or by squashfuse_ll. */
	bool beside = ctx->policy.keeper && !ctx->ds->subdir && !ctx->squashfuse;
	struct error mount_err = ERROR_INIT;
	struct sqfs_check check;
	int mounted = 0, r;

	r = sqfs_check_begin(&check, fd, err);
	if (r < 0)
		return r;
	if (beside)
		mounted = squashfs_mount(ctx, src, fd, copy, result, &mount_err);
	r = squashfs_end_check(ctx, &check, counts, err);
	if (r == -EOPNOTSUPP && ctx->squashfuse) {
		stage_io_warn(&ctx->io,
			      "not checked, because only " SQUASHFUSE_PROGRAM " can read it: %s",
			      err->text);
		*counts = (struct sqfs_counts){ 0 };
		r = 0;
	}
	if (r == 0)
		r = source_check_unchanged(src, err);
	if (r < 0) {
		if (beside && mounted == 0)
			squashfs_forget_mount(result);
		return r;
	}
	if (!beside)
		mounted = squashfs_mount(ctx, src, fd, copy, result, &mount_err);
	if (mounted < 0)
		*err = mount_err;
	else
		mounted = squashfs_settle(result, err);
	return mounted;
}

/* Sets how often the bytes are counted: once for the copy or the checksum, and once for the
 * index. */
static void squashfs_count_passes(struct ctx *ctx, const struct source *src, bool is_copied)
{
	bool is_summed = !is_copied && ctx->ds->verify == DATASET_VERIFY_SHA256;

	if (is_copied || is_summed)
		ctx_set_passes(ctx, src->landed ? 3 : 2);
}

static int squashfs_stage_mount(struct ctx *ctx, struct source *src, const struct facts *facts,
				const struct plan *plan, struct target *target,
				struct stager_result *result, struct error *err)
{
	_cleanup_(fd_closep) int copy = -1;
	struct sqfs_counts counts;
	/* squashfuse_ll cannot change from the source to a copy, so the copy is made first. */
	bool first = target && (plan->copy_first || ctx->squashfuse);
	int r;

	if (facts_is_archive(facts))
		squashfs_count_passes(ctx, src, first);
	r = first ? squashfs_copy(ctx, src, target, &copy, err) : squashfs_verify(ctx, src, err);
	if (r == 0 && target && !first)
		r = squashfs_make_copy(ctx, src, target, &copy, err);
	if (r == 0 && facts_is_archive(facts))
		return squashfs_mount_archive(ctx, src, first ? copy : src->fd, facts, plan, result,
					      err);
	if (r == 0)
		r = squashfs_check_and_mount(ctx, src, first ? copy : src->fd, first ? -1 : copy,
					     &counts, result, err);
	if (r < 0)
		return r;
	if (ctx->squashfuse)
		squashfs_tell(ctx, facts, plan, "by " SQUASHFUSE_PROGRAM);
	result->bytes = counts.bytes;
	result->files = counts.n_files + counts.n_symlinks;
	return 0;
}

static int squashfs_make_root(struct target *target, int *fdp, struct error *err)
{
	int fd;

	if (mkdirat(target->dirfd, target->name, 0700) < 0)
		return error_errno(err, errno, "make directory %s", target->path);
	fd = openat(target->dirfd, target->name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0)
		return error_errno(err, errno, "open %s", target->path);
	*fdp = fd;
	return 0;
}

static int squashfs_stage_extract(struct ctx *ctx, struct source *src, struct target *target,
				  struct stager_result *result, struct error *err)
{
	_cleanup_(sqfs_image_closep) struct sqfs_image *img = NULL;
	_cleanup_(fd_closep) int root = -1;
	struct sqfs_extract_result done;
	struct sqfs_counts counts;
	bool is_summed = !src->is_remote && ctx->ds->verify == DATASET_VERIFY_SHA256;
	int r;

	if (src->is_remote || is_summed) /* the bytes are fetched or read for the checksum, and
					  * then unpacked */
		ctx_set_passes(ctx, src->landed ? 4 : 2);
	r = source_spool(ctx, src, target, err);
	if (r == 0)
		r = squashfs_verify(ctx, src, err);
	if (r == 0)
		r = squashfs_check(ctx, src->fd, &counts, err);
	data_rlimit_set(ctx->policy.threads);
	if (r == 0)
		r = sqfs_image_open(&img, src->fd, ctx->policy.cache_size, err);
	if (r == 0)
		r = squashfs_make_root(target, &root, err);
	if (r == 0)
		r = sqfs_extract(&ctx->io, img, root, (uint64_t)src->st.st_size, counts.bytes,
				 &done, err);
	if (r == 0)
		r = source_check_unchanged(src, err);
	if (r < 0)
		return r;
	if (done.n_files == 0 && counts.n_files > 0) {
		error_set(err, ENOENT, "nothing in the image fits what was selected");
		return error_set_hint(err, -ENOENT,
				      "compare subdir=, include= and exclude= with "
				      "unsquashfs -l");
	}
	target->root_mode = done.root_mode;
	result->bytes = done.bytes;
	result->files = done.n_files;
	return 0;
}

static int squashfs_stage(struct ctx *ctx, struct source *src, const struct facts *facts,
			  const struct plan *plan, struct target *target,
			  struct stager_result *result, struct error *err)
{
	if (plan->method == DATASET_METHOD_EXTRACT)
		return squashfs_stage_extract(ctx, src, target, result, err);
	return squashfs_stage_mount(ctx, src, facts, plan, target, result, err);
}

/* Measures the image exactly: the walk that finds damage also counts the content. */
static int squashfs_measure(struct ctx *ctx, struct source *src, struct facts *facts,
			    struct error *err)
{
	struct sqfs_counts counts;
	int r;

	r = squashfs_check(ctx, src->fd, &counts, err);
	if (r < 0)
		return r;
	facts->extract_files = counts.n_files + counts.n_dirs + counts.n_symlinks;
	facts->extract_bytes = counts.charge +
			       page_get_size() * (counts.n_dirs + counts.n_symlinks);
	facts->extract_exact = true;
	return 0;
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
	.measure = squashfs_measure,
	.serve = squashfs_serve,
};
