/*
 * renameat2(RENAME_NOREPLACE) makes a dataset appear completely or not at all, and does not replace
 * a name that somebody else has created. On file systems without this flag (some network file
 * systems of a shared tier), the name is checked before a plain rename, which is enough because the
 * directory belongs to the job.
 */
#include "daemon/worker/target.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/protocol/rundir.h"
#include "common/util/error.h"
#include "common/util/log.h"
#include "common/util/path.h"
#include "common/util/rmtree.h"
#include "common/util/strutil.h"
#include "daemon/worker/ctx.h"
#include "daemon/worker/plan.h"

static int rename_new(int from_fd, const char *from, int to_fd, const char *to)
{
	struct stat st;

	if (renameat2(from_fd, from, to_fd, to, RENAME_NOREPLACE) == 0)
		return 0;
	if (errno != EINVAL && errno != ENOSYS && errno != EOPNOTSUPP)
		return -errno;
	if (fstatat(to_fd, to, &st, AT_SYMLINK_NOFOLLOW) == 0)
		return -EEXIST;
	return renameat(from_fd, from, to_fd, to) < 0 ? -errno : 0;
}

static int set_place(struct ctx *ctx, struct target *t, struct error *err)
{
	int r = 0;

	if (t->memory) {
		t->dir = strdup(ctx->tmp_path);
		t->name = strdup(ctx->ds->name);
	} else {
		r = ctx_get_tier_dir(ctx, t->tier, &t->dir, err);
		if (r < 0)
			return r;
		t->name = strutil_printf(".%s.partial", ctx->ds->name);
	}
	t->path = t->dir && t->name ? path_join(t->dir, t->name) : NULL;
	return t->path ? 0 : error_set(err, ENOMEM, "out of memory");
}

/* Records the entry and, on disk, its final name, before either of them exists. */
static int record(struct ctx *ctx, const struct target *t, struct error *err)
{
	_cleanup_(freep) char *final = NULL;
	struct stat st;
	int r;

	r = ctx_record(ctx, MANIFEST_TREE, t->path, err);
	if (r < 0 || t->memory)
		return r;
	if (fstatat(t->dirfd, ctx->ds->name, &st, AT_SYMLINK_NOFOLLOW) == 0)
		return error_set(err, EEXIST, "%s/%s is there already", t->dir, ctx->ds->name);
	final = path_join(t->dir, ctx->ds->name);
	if (!final)
		return error_set(err, ENOMEM, "out of memory");
	return ctx_record(ctx, MANIFEST_TREE, final, err);
}

/* Opens and checks the directory, because others who may write to its parent could have replaced
 * it. */
static int open_place(struct target *t, struct error *err)
{
	struct stat st;

	t->dirfd = open(t->dir, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (t->dirfd < 0 || fstat(t->dirfd, &st) < 0)
		return error_errno(err, errno, "open %s", t->dir);
	if (st.st_uid != geteuid() || (st.st_mode & 022))
		return error_set(err, EPERM,
				 "%s is not the job's own directory any more (owner %u, mode %04o)",
				 t->dir, st.st_uid, st.st_mode & 07777);
	return 0;
}

int target_open(struct ctx *ctx, const char *tier, bool keep, struct target **targetp,
		struct error *err)
{
	_cleanup_(target_closep) struct target *t = calloc(1, sizeof(*t));
	int r;

	if (!t || !(t->tier = strdup(tier))) {
		if (t)
			t->dirfd = -1;
		return error_set(err, ENOMEM, "out of memory");
	}
	t->dirfd = -1;
	t->memory = !strcmp(tier, PLAN_TIER_MEMORY) && !keep;
	r = set_place(ctx, t, err);
	if (r < 0)
		return r;
	r = open_place(t, err);
	if (r < 0)
		return r;
	r = record(ctx, t, err);
	if (r < 0)
		return r;
	r = rmtree_at(t->dirfd, t->name, NULL, err); /* may be left by a worker that died */
	if (r < 0)
		return r;
	*targetp = steal_ptr(t);
	return 0;
}

void target_close(struct target *t)
{
	if (!t)
		return;
	fd_closep(&t->dirfd);
	free(t->tier);
	free(t->dir);
	free(t->name);
	free(t->path);
	free(t);
}

/* Records data/<name>. Fails if something with this name exists. */
static int record_entry(struct ctx *ctx, struct error *err)
{
	_cleanup_(freep) char *path = path_join(ctx->data_path, ctx->ds->name);
	struct stat st;

	if (!path)
		return error_set(err, ENOMEM, "out of memory");
	if (fstatat(ctx->data_fd, ctx->ds->name, &st, AT_SYMLINK_NOFOLLOW) == 0)
		return error_set(err, EEXIST, "%s is there already", path);
	return ctx_record(ctx, MANIFEST_TREE, path, err);
}

int target_publish_link(struct ctx *ctx, const char *to, struct error *err)
{
	/* the name has a dot, which names of datasets cannot have */
	char name[DATASET_NAME_SIZE + 8];
	_cleanup_(freep) char *path = NULL;
	int r;

	snprintf(name, sizeof(name), "%s.link", ctx->ds->name);
	path = path_join(ctx->tmp_path, name);
	if (!path)
		return error_set(err, ENOMEM, "out of memory");
	r = record_entry(ctx, err);
	if (r == 0)
		r = ctx_record(ctx, MANIFEST_TREE, path, err);
	if (r < 0)
		return r;
	if (unlinkat(ctx->tmp_fd, name, 0) < 0 && errno != ENOENT)
		return error_errno(err, errno, "remove %s", path);
	if (symlinkat(to, ctx->tmp_fd, name) < 0)
		return error_errno(err, errno, "link %s", path);
	r = rename_new(ctx->tmp_fd, name, ctx->data_fd, ctx->ds->name);
	if (r < 0)
		return error_errno(err, -r, "rename %s to %s/%s", path, ctx->data_path,
				   ctx->ds->name);
	return 0;
}

/* Makes the empty entry on which the keeper mounts. It is not reported before that. */
static int make_place(struct ctx *ctx, bool is_dir, struct error *err)
{
	const char *name = ctx->ds->name;
	_cleanup_(fd_closep) int fd = -1;
	int r;

	if (is_dir)
		r = mkdirat(ctx->data_fd, name, RUNDIR_PLACE_MODE);
	else
		r = fd = openat(ctx->data_fd, name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC,
				RUNDIR_PLACE_MODE);
	return r < 0 ? error_errno(err, errno, "make %s/%s", ctx->data_path, name) : 0;
}

static int remove_place(struct ctx *ctx, bool is_dir, struct error *err)
{
	if (unlinkat(ctx->data_fd, ctx->ds->name, is_dir ? AT_REMOVEDIR : 0) < 0)
		return error_errno(err, errno, "remove %s/%s", ctx->data_path, ctx->ds->name);
	return 0;
}

int target_publish_place(struct ctx *ctx, const char *to, bool read_only, struct error *err)
{
	_cleanup_(fd_closep) int fd = -1;
	struct statx st;
	bool is_dir;
	int r;

	if (!ctx->policy.keeper)
		return target_publish_link(ctx, to, err);
	fd = open(to, O_PATH | O_NOFOLLOW | O_CLOEXEC);
	/* The server of an image does not answer yet, so its attributes are not requested. */
	if (fd < 0 || statx(fd, "", AT_EMPTY_PATH | AT_STATX_DONT_SYNC, STATX_TYPE, &st) < 0)
		return error_errno(err, errno, "open %s", to);
	is_dir = S_ISDIR(st.stx_mode);
	r = record_entry(ctx, err);
	if (r == 0)
		r = make_place(ctx, is_dir, err);
	if (r < 0)
		return r;
	r = ctx_place(ctx, fd, read_only, err);
	if (r == 0 || ctx_is_cancelled(ctx))
		return r == 0 ? 0 : ctx_check(ctx, err);
	log_print(LOG_LEVEL_INFO, ctx->ds->name, "the path is a symbolic link: %s", strerror(-r));
	/* After this, nothing can be mounted on the entry, not even by an earlier request that is
	 * still being processed. */
	r = remove_place(ctx, is_dir, err);
	return r < 0 ? r : target_publish_link(ctx, to, err);
}

int target_set_root_mode(const struct target *t, int dirfd, const char *name, struct error *err)
{
	_cleanup_(fd_closep) int fd = -1;

	if (!t->root_mode)
		return 0;
	fd = openat(dirfd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0 || fchmod(fd, t->root_mode & 0777) < 0)
		return error_errno(err, errno, "set mode of %s", name);
	return 0;
}

int target_publish(struct ctx *ctx, struct target *t, struct error *err)
{
	_cleanup_(freep) char *final = NULL;
	int to_fd = t->memory ? ctx->data_fd : t->dirfd;
	int r;

	if (t->memory) {
		r = record_entry(ctx, err);
		if (r < 0)
			return r;
	}
	r = rename_new(t->dirfd, t->name, to_fd, ctx->ds->name);
	if (r < 0)
		return error_errno(err, -r, "rename %s into place", t->path);
	r = target_set_root_mode(t, to_fd, ctx->ds->name, err);
	if (r < 0 || t->memory)
		return r;
	final = path_join(t->dir, ctx->ds->name);
	if (!final)
		return error_set(err, ENOMEM, "out of memory");
	return target_publish_place(ctx, final, false, err);
}
