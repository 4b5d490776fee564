/*
 * Sources whose bytes are fetched (source.h).
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

#include "common/util/error.h"
#include "common/util/fd.h"
#include "common/util/path.h"
#include "daemon/engines/archive/stream.h"
#include "daemon/engines/copy/hash.h"
#include "daemon/worker/ctx.h"
#include "daemon/worker/source.h"
#include "daemon/worker/target.h"
#include "daemon/worker/web/fetch-ranges.h"
#include "daemon/worker/web/fetch-stream.h"

int source_open_stream(struct ctx *ctx, const struct source *src, struct hash *hash,
		       struct stream **sp, struct error *err)
{
	if (src->fetch)
		return fetch_stream_new(sp, ctx, src->fetch, src->objects, hash, err);
	return stream_new_read_ahead(sp, &ctx->io, src->fd, hash, err);
}

int source_fetch(struct ctx *ctx, const struct source *src, int fd, struct error *err)
{
	_cleanup_(hash_freep) struct hash *hash = NULL;
	int r;

	if (ctx->ds->verify == DATASET_VERIFY_SHA256 && hash_new(&hash) < 0)
		return error_set(err, ENOMEM, "out of memory");
	r = fetch_ranges_one(ctx, src->fetch, src->objects, fd, hash, err);
	return r < 0 || !hash ? r : hash_check(hash, ctx->ds->sha256, src->path, err);
}

/* Makes a file and removes its name at once, for file systems without O_TMPFILE (NFS, Lustre). The
 * name has a dot, which names of datasets cannot have. Returns the descriptor or -errno. */
static int make_nameless(struct ctx *ctx, const struct target *target, struct error *err)
{
	_cleanup_(freep) char *path = NULL;
	char name[DATASET_NAME_SIZE + 8];
	int fd, r;

	snprintf(name, sizeof(name), ".%s.spool", ctx->ds->name);
	path = path_join(target->dir, name);
	if (!path)
		return error_set(err, ENOMEM, "out of memory");
	r = ctx_record(ctx, MANIFEST_TREE, path, err);
	if (r < 0)
		return r;
	/* may be left by a worker that died */
	if (unlinkat(target->dirfd, name, 0) < 0 && errno != ENOENT)
		return error_errno(err, errno, "remove %s", path);
	fd = openat(target->dirfd, name, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
	if (fd < 0)
		return error_errno(err, errno, "make %s", path);
	if (unlinkat(target->dirfd, name, 0) < 0) {
		r = error_errno(err, errno, "remove %s", path);
		close(fd);
		return r;
	}
	return fd;
}

/* Opens a file without a name, so that nothing must be removed later. Returns the descriptor or
 * -errno. */
static int open_nameless(struct ctx *ctx, const struct target *target, struct error *err)
{
	int fd = openat(target->dirfd, ".", O_RDWR | O_TMPFILE | O_CLOEXEC, 0600);

	if (fd >= 0)
		return fd;
	if (errno == EOPNOTSUPP || errno == EISDIR) /* EISDIR: an old kernel that ignores the
						     * flag */
		return make_nameless(ctx, target, err);
	return error_errno(err, errno, "make a file without a name in %s", target->dir);
}

int source_spool(struct ctx *ctx, struct source *src, const struct target *target,
		 struct error *err)
{
	_cleanup_(fd_closep) int fd = -1;
	int r;

	if (src->is_remote && !src->fetch)
		ctx_set_near(ctx, true); /* an earlier attempt has fetched it */
	if (!src->fetch)
		return 0;
	fd = open_nameless(ctx, target, err);
	if (fd < 0)
		return fd;
	r = source_fetch(ctx, src, fd, err);
	if (r == 0 && fstat(fd, &src->st) < 0)
		r = error_errno(err, errno, "%s", src->path);
	if (r < 0)
		return r;
	close(src->fd);
	src->fd = steal_fd(&fd);
	src->fetch = NULL; /* all bytes are on this node now */
	ctx_set_near(ctx, true);
	return 0;
}
