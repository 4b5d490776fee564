#include "daemon/worker/archive-open.h"

#include <errno.h>
#include <sys/stat.h>

#include "common/sandbox/data-rlimit.h"
#include "common/util/error.h"
#include "daemon/engines/archive/archive-index.h"
#include "daemon/engines/archive/tar-scan.h"
#include "daemon/worker/ctx.h"
#include "daemon/worker/hint.h"
#include "daemon/worker/plan.h"
#include "daemon/worker/source.h"

#define OPEN_READERS 24
#define OPEN_MAX_READERS 32

static bool open_is_cancelled(void *arg)
{
	return ctx_is_cancelled(arg);
}

/* A slow file system gives a header in a millisecond, and stalls only if none comes. */
static void open_has_read(void *arg)
{
	ctx_add_progress(arg, 0, 1);
}

static int open_scan(struct ctx *ctx, const struct source *src, int fd, const struct stat *st,
		     struct archive_index *x, const char **odd_endp, struct error *err)
{
	const struct tar_scan scan = {
		.fd = fd,
		.size = (uint64_t)st->st_size,
		.is_cancelled = open_is_cancelled,
		.has_read = open_has_read,
		.n_readers = (unsigned)policy_get_most(ctx->policy.max_readers, OPEN_READERS,
						       OPEN_MAX_READERS),
		.arg = ctx,
		.odd_end = ctx->ds->verify == DATASET_VERIFY_NONE ? odd_endp : NULL,
	};
	int r;

	r = tar_scan(x, &scan, err);
	if (r == 0)
		r = archive_index_finish(x, err);
	if (r < 0 && ctx_is_cancelled(ctx))
		return ctx_check(ctx, err);
	return r < 0 ? hint_archive(src, FORMAT_TAR, r, err) : 0;
}

/* As extraction says it. */
static void open_report(struct ctx *ctx, const struct archive_counts *counts, const char *odd_end)
{
	if (counts->n_replaced)
		ctx_warn(ctx, "%llu names come more than once in the archive, the last ones count",
			 (unsigned long long)counts->n_replaced);
	if (counts->n_absolute)
		ctx_warn(ctx,
			 "%llu names in the archive began with \"/\", which was taken off, as tar "
			 "and "
			 "unzip do",
			 (unsigned long long)counts->n_absolute);
	if (odd_end)
		ctx_warn(ctx, "%s: it may be half of an archive; accepted, as verify=none says",
			 odd_end);
}

int archive_open(struct ctx *ctx, const struct source *src, int fd, struct archive_index **xp,
		 struct stat *st, struct error *err)
{
	_cleanup_(archive_index_freep) struct archive_index *x = NULL;
	struct archive_counts counts;
	const char *odd_end = NULL;
	uint64_t have;
	int r;

	if (fstat(fd, st) < 0)
		return error_errno(err, errno, "look at the archive");
	data_rlimit_set(ctx->policy.threads);
	r = archive_index_new(&x, st->st_mtim.tv_sec, err);
	if (r == 0)
		r = open_scan(ctx, src, fd, st, x, &odd_end, err);
	if (r < 0)
		return r;
	archive_index_get_counts(x, &counts);
	r = ctx_claim(ctx, PLAN_TIER_MEMORY, counts.memory, 0, &have, err);
	if (r < 0)
		error_prefix(err, "memory for the index of the archive");
	if (r < 0)
		return r;
	open_report(ctx, &counts, odd_end);
	*xp = steal_ptr(x);
	return 0;
}
