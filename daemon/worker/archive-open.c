#include "daemon/worker/archive-open.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/sandbox/data-rlimit.h"
#include "common/util/count.h"
#include "common/util/error.h"
#include "common/util/fd.h"
#include "daemon/engines/archive/archive-index.h"
#include "daemon/engines/archive/index-file.h"
#include "daemon/engines/archive/tar-scan.h"
#include "daemon/engines/archive/zip-names.h"
#include "daemon/engines/archive/zip-scan.h"
#include "daemon/worker/ctx.h"
#include "daemon/worker/hint.h"
#include "daemon/worker/plan.h"
#include "daemon/worker/source.h"

#define OPEN_READERS 24
#define OPEN_MAX_READERS 32
#define OPEN_GROWTH 2 /* the index doubles its arrays, and does not use all of their memory */

struct opening {
	struct ctx *ctx;
	uint64_t reserved; /* bytes reserved for this index */
};

static int open_reserve(void *arg, uint64_t bytes, struct error *err)
{
	struct opening *o = arg;
	int r = ctx_claim_beside(o->ctx, o->reserved + bytes, err);

	if (r < 0) {
		error_prefix(err, "memory for the index of the archive");
		return r;
	}
	o->reserved += bytes;
	data_rlimit_add(OPEN_GROWTH * bytes);
	return 0;
}

/* Makes an empty index. It refers to o, which must live until the index is finished. */
static int open_new_index(const struct source *src, struct opening *o, struct archive_index **xp,
			  struct error *err)
{
	int r = archive_index_new(xp, src->origin.st_mtim.tv_sec, err);

	if (r == 0)
		archive_index_set_reserve(*xp, open_reserve, o);
	return r;
}

static int open_tar(struct ctx *ctx, int fd, uint64_t size, struct archive_index *x,
		    const char **odd_endp, struct error *err)
{
	const struct tar_scan scan = {
		.fd = fd,
		.size = size,
		.io = &ctx->io,
		.n_readers = (unsigned)stage_io_get_most(ctx->policy.max_readers, OPEN_READERS,
							 OPEN_MAX_READERS),
		.odd_end = ctx->ds->verify == DATASET_VERIFY_NONE ? odd_endp : NULL,
		.nested = ctx->ds->nested,
	};

	return tar_scan(x, &scan, err);
}

static int open_zip(struct ctx *ctx, int fd, uint64_t size, struct archive_index *x,
		    struct error *err)
{
	const struct zip_scan scan = {
		.fd = fd,
		.size = size,
		.io = &ctx->io,
	};

	return zip_scan(x, &scan, err);
}

static int open_scan(struct ctx *ctx, const struct source *src, int fd, enum facts_format format,
		     const struct stat *st, struct archive_index *x, const char **odd_endp,
		     struct error *err)
{
	uint64_t size = (uint64_t)st->st_size;
	int r;

	r = format == FORMAT_ZIP ? open_zip(ctx, fd, size, x, err)
				 : open_tar(ctx, fd, size, x, odd_endp, err);
	if (r == 0)
		r = archive_index_finish(x, &ctx->io, err);
	if (r < 0 && ctx_is_cancelled(ctx))
		return ctx_check(ctx, err);
	if (format == FORMAT_ZIP && (r == -EBADMSG || r == -ENODATA))
		r = zip_names_find_fault(fd, size, err);
	if (r == -EFBIG)
		error_set_hint(err, r, "method=extract unpacks it");
	return r < 0 ? hint_archive(src, format, r, err) : 0;
}

/* ---- an index file ---- */

/* Returns whether the file may be used as an index. It must belong to this user, root or the
 * archive's owner, and only they may write to it. */
static bool open_may_be_taken(const struct stat *st, const struct stat *archive)
{
	return S_ISREG(st->st_mode) && !(st->st_mode & (S_IWGRP | S_IWOTH)) &&
	       (st->st_uid == geteuid() || st->st_uid == 0 || st->st_uid == archive->st_uid);
}

/* Opens the index file beside the archive. Returns -1 if there is none that may be used. */
static int open_index_file(struct ctx *ctx, const struct source *src)
{
	char path[PATH_MAX];
	struct stat st;
	int fd;

	if (!src->real || src->is_remote ||
	    snprintf(path, sizeof(path), "%s" INDEX_FILE_SUFFIX, src->real) >= PATH_MAX)
		return -1;
	fd = open(path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
	if (fd < 0)
		return -1;
	if (fstat(fd, &st) == 0 && open_may_be_taken(&st, &src->origin))
		return fd;
	stage_io_warn(
		&ctx->io,
		"%s is not used: an index has to be a file of yours, of the archive's owner or of "
		"root that others can't write to",
		path);
	close(fd);
	return -1;
}

/* Reads the index from the file beside the archive. fd may be a copy with another time, so the
 * index is compared with the archive. Returns 1: *xp is the index; 0: there is no usable file;
 * -ECANCELED; -ENOSPC. */
static int open_by_file(struct ctx *ctx, const struct source *src, int fd,
			struct archive_index **xp, struct error *err)
{
	const struct stat *st = &src->origin;
	_cleanup_(archive_index_freep) struct archive_index *x = NULL;
	_cleanup_(fd_closep) int file = open_index_file(ctx, src);
	struct opening o = { .ctx = ctx };
	struct error why = ERROR_INIT;
	int r;

	if (file < 0)
		return 0;
	r = open_new_index(src, &o, &x, &why);
	if (r == 0)
		r = index_file_load(x, &ctx->io, file, fd, st, ctx->ds->nested, &why);
	if (r == 0)
		r = archive_index_finish(x, &ctx->io, &why);
	if (r < 0 && ctx_is_cancelled(ctx))
		return ctx_check(ctx, err);
	if (r == -ENOSPC) { /* an index by the headers would need the same memory */
		*err = why;
		return r;
	}
	if (r < 0) {
		stage_io_warn(&ctx->io,
			      "the index %s" INDEX_FILE_SUFFIX " is not used: %s; make it again "
			      "(stagectl index%s)",
			      src->real, why.text, ctx->ds->nested ? " --nested" : "");
		return 0;
	}
	*xp = steal_ptr(x);
	return 1;
}

/* Reports the same warnings as extraction does. */
static void open_report(struct ctx *ctx, const struct archive_counts *counts, const char *odd_end)
{
	if (counts->n_replaced)
		stage_io_warn(&ctx->io, "%llu %s more than once in the archive, the last %s",
			      (unsigned long long)counts->n_replaced,
			      count_word(counts->n_replaced, "name comes", "names come"),
			      count_word(counts->n_replaced, "one counts", "ones count"));
	if (counts->n_absolute)
		stage_io_warn(&ctx->io,
			      "%llu %s in the archive began with \"/\", which was taken off, as "
			      "tar and unzip do",
			      (unsigned long long)counts->n_absolute,
			      count_word(counts->n_absolute, "name", "names"));
	if (odd_end)
		stage_io_warn(&ctx->io, "%s; accepted, as verify=none says", odd_end);
}

/* Makes the index from the archive's headers. */
static int open_by_scan(struct ctx *ctx, const struct source *src, int fd, enum facts_format format,
			const struct stat *st, struct archive_index **xp, const char **odd_endp,
			struct error *err)
{
	_cleanup_(archive_index_freep) struct archive_index *x = NULL;
	struct opening o = { .ctx = ctx };
	int r;

	r = open_new_index(src, &o, &x, err);
	if (r == 0)
		r = open_scan(ctx, src, fd, format, st, x, odd_endp, err);
	if (r == 0)
		*xp = steal_ptr(x);
	return r;
}

int archive_open(struct ctx *ctx, const struct source *src, int fd, enum facts_format format,
		 struct archive_index **xp, struct stat *st, struct error *err)
{
	_cleanup_(archive_index_freep) struct archive_index *x = NULL;
	struct archive_counts counts;
	const char *odd_end = NULL;
	int r, by_file;

	if (fstat(fd, st) < 0)
		return error_errno(err, errno, "look at the archive");
	data_rlimit_set(ctx->policy.threads);
	by_file = format == FORMAT_TAR && ctx->ds->verify != DATASET_VERIFY_SHA256
			  ? open_by_file(ctx, src, fd, &x, err)
			  : 0;
	r = by_file ? by_file : open_by_scan(ctx, src, fd, format, st, &x, &odd_end, err);
	if (r < 0)
		return r;
	archive_index_get_counts(x, &counts);
	open_report(ctx, &counts, odd_end);
	*xp = steal_ptr(x);
	return by_file;
}
