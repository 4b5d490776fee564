/*
 * Sources whose bytes are fetched (source.h).
 */
#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#include "common/error.h"
#include "common/fd.h"
#include "daemon/worker/ctx.h"
#include "daemon/worker/source.h"
#include "daemon/worker/target.h"
#include "daemon/worker/unpack/hash.h"
#include "daemon/worker/unpack/stream.h"
#include "daemon/worker/web/fetch-files.h"
#include "daemon/worker/web/fetch-stream.h"

int source_open_stream(struct ctx *ctx, const struct source *src, struct hash *hash,
		       struct stream **sp, struct error *err)
{
	if (src->fetch)
		return fetch_stream_new(sp, ctx, src->fetch, src->objects, hash, err);
	return stream_new_read_ahead(sp, ctx, src->fd, hash, err);
}

int source_fetch(struct ctx *ctx, const struct source *src, int fd, struct error *err)
{
	_cleanup_(hash_freep) struct hash *hash = NULL;
	int r;

	if (ctx->ds->verify == DATASET_VERIFY_SHA256 && hash_new(&hash) < 0)
		return error_set(err, ENOMEM, "out of memory");
	r = fetch_file(ctx, src->fetch, src->objects, fd, hash, err);
	return r < 0 || !hash ? r : hash_check(hash, ctx->ds->sha256, src->path, err);
}

/* Without a name nothing has to be taken away. */
int source_spool(struct ctx *ctx, struct source *src, const struct target *target,
		 struct error *err)
{
	_cleanup_(fd_closep) int fd = -1;
	int r;

	if (src->is_remote && !src->fetch)
		ctx_set_near(ctx, true); /* by an attempt before this one */
	if (!src->fetch)
		return 0;
	fd = openat(target->dirfd, ".", O_RDWR | O_TMPFILE | O_CLOEXEC, 0600);
	if (fd < 0)
		return error_errno(err, errno, "make a file without a name in %s", target->dir);
	r = source_fetch(ctx, src, fd, err);
	if (r == 0 && fstat(fd, &src->st) < 0)
		r = error_errno(err, errno, "%s", src->path);
	if (r < 0)
		return r;
	close(src->fd);
	src->fd = steal_fd(&fd);
	src->fetch = NULL; /* the bytes are here now */
	ctx_set_near(ctx, true);
	return 0;
}
