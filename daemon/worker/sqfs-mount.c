/*
 * With a keeper, the mount exists already when its descriptors arrive, and the keeper removes it.
 * If stagingd dies, running tasks keep their data. Without a keeper, a helper process
 * (sqfs-unmounter.h) makes sure that the mount ends with the server.
 */
#include "daemon/worker/sqfs-mount.h"

#include <errno.h>
#include <fcntl.h>
#include <malloc.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/protocol/keeper-verbs.h"
#include "common/protocol/rundir.h"
#include "common/sandbox/data-rlimit.h"
#include "common/util/error.h"
#include "common/util/fd.h"
#include "common/util/log.h"
#include "common/util/path.h"
#include "common/util/strutil.h"
#include "daemon/engines/archive/archive-index.h"
#include "daemon/engines/image/archive-volume.h"
#include "daemon/engines/image/sqfs-fuse.h"
#include "daemon/engines/image/sqfs-hydrate.h"
#include "daemon/engines/image/sqfs-image.h"
#include "daemon/engines/image/sqfs-volume.h"
#include "daemon/engines/image/volume.h"
#include "daemon/worker/ctx.h"
#include "daemon/worker/daemon-conn.h"
#include "daemon/worker/sqfs-unmounter.h"
#include "daemon/worker/squashfuse.h"

enum {
	MOUNT_READ_MS = 5000,	 /* interval of wake-ups of an idle server */
	MOUNT_MIN_THREADS = 8,	 /* more than CPUs, because they also wait for the disk */
	MOUNT_MEMORY = 64 << 20, /* in addition to the caches and to the memory per thread of
				  * data-rlimit.h */
};

struct sqfs_mount {
	struct ctx *ctx;
	int fd;
	int copy;		/* the copy of hydrate; -1: none */
	struct sqfs_image *img; /* NULL: it is an archive */
	struct volume *volume;
	uint64_t cache_size;		  /* current cache size */
	struct sqfs_hydrate *hydrate;	  /* NULL: no copy is made */
	struct sqfs_server *server;	  /* NULL: squashfuse_ll serves (ctx->squashfuse), or not
					   * started yet */
	struct sqfs_unmounter *unmounter; /* NULL: the keeper unmounts */
	char *path;			  /* the mount point */
};

static void mount_report(void *arg, const char *text)
{
	struct sqfs_mount *m = arg;

	log_print(LOG_LEVEL_ERROR, m->ctx->ds->name, "%s", text);
	stage_io_warn(&m->ctx->io, "%s", text);
}

static unsigned mount_get_threads(const struct policy *policy)
{
	unsigned n = policy->threads;

	if (!policy->threads_given && n < MOUNT_MIN_THREADS)
		n = MOUNT_MIN_THREADS;
	return n > SQFS_SERVER_MAX_THREADS ? SQFS_SERVER_MAX_THREADS : n;
}

/* Looks for a directory at a relative path without "..". Returns 1 with its *refp; 0: there is
 * none; or -errno. */
static int mount_find_dir(struct volume *volume, const char *path, uint64_t *refp)
{
	struct volume_dirent ent = { .ref = volume->root, .type = S_IFDIR };
	char name[VOLUME_MAX_NAME + 1];
	int r = 1;

	for (const char *s = path + strspn(path, "/"); *s && r == 1; s += strspn(s, "/")) {
		size_t n = strcspn(s, "/");

		if (ent.type != S_IFDIR || n > VOLUME_MAX_NAME)
			return 0;
		memcpy(name, s, n);
		name[n] = '\0';
		s += n;
		if (!strcmp(name, "."))
			continue;
		r = volume->ops->find(volume, ent.ref, name, &ent);
	}
	*refp = ent.ref;
	return r == 1 ? ent.type == S_IFDIR : r;
}

/* Makes subdir= the root of the mount. */
static int mount_enter_subdir(struct sqfs_mount *m, struct error *err)
{
	const char *subdir = m->ctx->ds->subdir, *noun = m->volume->noun;
	uint64_t ref = 0;
	int r;

	if (!subdir)
		return 0;
	r = mount_find_dir(m->volume, subdir, &ref);
	if (r < 0)
		return error_errno(err, -r, "look for %s in the %s", subdir, noun);
	if (r == 0)
		return error_set_hint(err,
				      error_set(err, EINVAL, "the %s has no directory %s (subdir=)",
						noun, subdir),
				      "%s shows what it has",
				      m->img ? "unsquashfs -l" : "tar -t or unzip -l");
	m->volume->root = ref;
	return 0;
}

static int mount_by_keeper(struct sqfs_mount *m, unsigned n_threads, struct error *err)
{
	struct ctx_mount got = { 0 };
	int r;

	r = ctx_mount(m->ctx, n_threads, &got, err);
	if (r < 0)
		return r;
	r = sqfs_server_attach(m->server, got.fds, got.n_fds, err);
	got.n_fds = 0; /* the server owns them now */
	if (r == 0)
		m->path = steal_ptr(got.path);
	ctx_mount_deinit(&got);
	return r;
}

static int mount_by_keeper_for_squashfuse(struct sqfs_mount *m, unsigned n_threads,
					  struct error *err)
{
	struct ctx_mount got = { 0 };
	int r;

	r = ctx_mount(m->ctx, 1, &got, err);
	if (r < 0)
		return r;
	r = squashfuse_start(m->ctx->squashfuse, m->fd, got.fds[0], got.path, n_threads, err);
	if (r == 0)
		m->path = steal_ptr(got.path);
	ctx_mount_deinit(&got); /* the program has its own copies */
	return r;
}

static int mount_make_point(struct sqfs_mount *m, struct error *err)
{
	_cleanup_(freep) char *dir = NULL;
	int r;

	dir = path_join(m->ctx->rundir, RUNDIR_MOUNTS);
	m->path = dir ? strutil_printf("%s/%u", dir, m->ctx->slot) : NULL;
	if (!m->path)
		return error_set(err, ENOMEM, "no memory to mount the image");
	if (mkdir(dir, 0700) < 0 && errno != EEXIST)
		return error_errno(err, errno, "make %s", dir);
	r = ctx_record(m->ctx, MANIFEST_TREE, m->path, err);
	if (r < 0)
		return r;
	if (mkdir(m->path, 0700) < 0 && errno != EEXIST)
		return error_errno(err, errno, "make %s", m->path);
	return 0;
}

static int mount_by_helper(struct sqfs_mount *m, unsigned n_threads, struct error *err)
{
	int r;

	r = mount_make_point(m, err);
	if (r == 0)
		r = ctx_record(m->ctx, MANIFEST_MOUNT, m->path, err);
	if (r == 0)
		r = sqfs_unmounter_new(&m->unmounter, m->path, err);
	if (r < 0)
		return r;
	return m->server ? sqfs_server_mount(m->server, m->path, err)
			 : squashfuse_start(m->ctx->squashfuse, m->fd, -1, m->path, n_threads, err);
}

static void mount_resize(void *arg, uint64_t size)
{
	struct sqfs_mount *m = arg;

	if (size > m->ctx->policy.cache_size)
		size = m->ctx->policy.cache_size;
	if (size == m->cache_size || !m->volume)
		return;
	m->cache_size = size;
	m->volume->ops->set_cache_size(m->volume, size);
	/* The freed blocks are between other blocks, so free() does not return their memory to the
	 * kernel. */
	malloc_trim(0);
}

static bool mount_was_read(void *arg)
{
	struct sqfs_mount *m = arg;

	return m->server && sqfs_server_was_read(m->server);
}

static int mount_open_image(struct sqfs_mount *m, int fd, struct error *err)
{
	int r;

	m->fd = fcntl(fd, F_DUPFD_CLOEXEC, 0);
	if (m->fd < 0)
		return error_errno(err, errno, "open the image");
	if (m->ctx->squashfuse)
		return 0;
	r = sqfs_image_open(&m->img, m->fd, m->ctx->policy.cache_size, err);
	if (r == 0 && sqfs_volume_new(&m->volume, m->img) < 0)
		r = error_set(err, ENOMEM, "no memory to mount the image");
	return r;
}

/* Takes over the index, also on failure. */
static int mount_open_archive(struct sqfs_mount *m, struct archive_index *x, int fd,
			      const struct stat *st, struct error *err)
{
	_cleanup_(archive_index_freep) struct archive_index *index = x;

	m->fd = fcntl(fd, F_DUPFD_CLOEXEC, 0);
	if (m->fd < 0)
		return error_errno(err, errno, "open the archive");
	if (archive_volume_new(&m->volume, index, m->fd, st, m->ctx->policy.cache_size) < 0)
		return error_set(err, ENOMEM, "no memory to mount the archive");
	steal_ptr(index);
	return 0;
}

static int mount_serve_volume(struct sqfs_mount *m, unsigned n_threads, struct error *err)
{
	struct sqfs_server_options options = {
		.uid = geteuid(),
		.gid = getegid(),
		.n_threads = n_threads,
		.report = mount_report,
		.report_arg = m,
	};
	int r;

	m->cache_size = m->ctx->policy.cache_size;
	mount_resize(m, m->ctx->policy.cache_first);
	r = mount_enter_subdir(m, err);
	if (r == 0)
		r = sqfs_server_new(&m->server, m->volume, &options, err);
	return r;
}

/* Ends the server. Can be called from any thread and from a signal handler. */
static void mount_end(struct sqfs_mount *m)
{
	if (m->server)
		sqfs_server_stop(m->server);
	else
		squashfuse_stop(m->ctx->squashfuse);
}

/* The mount for the signal handler. A process serves only one. */
static struct sqfs_mount *serving;

static void mount_on_term(int sig)
{
	mount_end(serving);
}

/* Called before the mount is reported. With `stagectl run`, SIGTERM is already ignored. */
static void mount_set_signals(struct sqfs_mount *m)
{
	struct sigaction term = { .sa_handler = m->ctx->policy.keeper ? SIG_IGN : mount_on_term };
	struct sigaction old;

	serving = m;
	/* A worker that was started to write a copy would otherwise end with the keeper. */
	if (m->ctx->policy.keeper)
		prctl(PR_SET_PDEATHSIG, 0);
	if (sigaction(SIGTERM, NULL, &old) == 0 && old.sa_handler == SIG_IGN)
		return;
	sigemptyset(&term.sa_mask);
	sigaction(SIGTERM, &term, NULL);
}

static int mount_alloc(struct sqfs_mount **mp, struct ctx *ctx, struct error *err)
{
	struct sqfs_mount *m = calloc(1, sizeof(*m));

	if (!m)
		return error_set(err, ENOMEM, "no memory to mount it");
	m->ctx = ctx;
	m->fd = m->copy = -1;
	*mp = m;
	return 0;
}

/* Mounts. Either m->volume is open, or squashfuse_ll opens the image itself. */
static int mount_make(struct sqfs_mount *m, struct error *err)
{
	unsigned n_threads = mount_get_threads(&m->ctx->policy);
	int r;

	r = m->volume ? mount_serve_volume(m, n_threads, err) : 0;
	if (r == 0 && !m->ctx->policy.keeper)
		r = mount_by_helper(m, n_threads, err);
	else if (r == 0)
		r = m->volume ? mount_by_keeper(m, n_threads, err)
			      : mount_by_keeper_for_squashfuse(m, n_threads, err);
	if (r < 0)
		return r;
	mount_set_signals(m);
	return 0;
}

int sqfs_mount_new(struct sqfs_mount **mp, struct ctx *ctx, int fd, struct error *err)
{
	_cleanup_(sqfs_mount_freep) struct sqfs_mount *m = NULL;
	int r;

	r = mount_alloc(&m, ctx, err);
	if (r == 0)
		r = mount_open_image(m, fd, err);
	if (r == 0)
		r = mount_make(m, err);
	if (r == 0)
		*mp = steal_ptr(m);
	return r;
}

int sqfs_mount_new_archive(struct sqfs_mount **mp, struct ctx *ctx, struct archive_index *x, int fd,
			   const struct stat *st, struct error *err)
{
	_cleanup_(sqfs_mount_freep) struct sqfs_mount *m = NULL;
	int r;

	r = mount_alloc(&m, ctx, err);
	if (r < 0) {
		archive_index_free(x);
		return r;
	}
	r = mount_open_archive(m, x, fd, st, err);
	if (r == 0)
		r = mount_make(m, err);
	if (r == 0)
		*mp = steal_ptr(m);
	return r;
}

/* Closes the connection first, so that unmounting does not wait for a server. */
void sqfs_mount_free(struct sqfs_mount *m)
{
	if (!m)
		return;
	sqfs_server_free(m->server);
	sqfs_unmounter_free(m->unmounter);
	sqfs_hydrate_free(m->hydrate);
	volume_free(m->volume);
	sqfs_image_close(m->img);
	fd_closep(&m->fd);
	fd_closep(&m->copy);
	free(m->path);
	free(m);
}

int sqfs_mount_set_copy(struct sqfs_mount *m, int fd, const struct stat *st, struct error *err)
{
	m->copy = fcntl(fd, F_DUPFD_CLOEXEC, 0);
	if (m->copy < 0)
		return error_errno(err, errno, "open the copy");
	return sqfs_hydrate_new(&m->hydrate, &m->ctx->io, m->img, m->fd, m->copy, st, err);
}

static bool mount_is_cancelled(void *arg)
{
	struct sqfs_mount *m = arg;

	return ctx_is_cancelled(m->ctx);
}

int sqfs_mount_settle(struct sqfs_mount *m, struct error *err)
{
	int r = 0;

	if (m->server)
		sqfs_server_settle(m->server, m->path);
	else
		r = squashfuse_wait_ready(m->ctx->squashfuse, m->path, mount_is_cancelled, m, err);
	return r == -ECANCELED ? ctx_check(m->ctx, err) : r;
}

const char *sqfs_mount_get_path(const struct sqfs_mount *m)
{
	return m->path;
}

/* Called by the thread that reads stagingd's socket, after a cancel and when the socket ends. */
static void mount_stop(void *arg)
{
	struct sqfs_mount *m = arg;
	struct pollfd p = { .fd = WORKER_FD_SOCKET };

	if (m->ctx->policy.keeper && poll(&p, 1, 0) == 1 && p.revents & (POLLHUP | POLLERR))
		return;
	mount_end(m);
}

static const struct daemon_conn_serving mount_serving = {
	.stop = mount_stop,
	.resize = mount_resize,
	.was_read = mount_was_read,
	.read_ms = MOUNT_READ_MS,
};

int sqfs_mount_serve(struct sqfs_mount *m, struct error *err)
{
	int r;

	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0 || prctl(PR_SET_DUMPABLE, 0) < 0)
		return error_errno(err, errno, "give up privileges");
	/* An xz block can require a dictionary of 4 GiB, whatever its size is. */
	data_rlimit_set_to(m->ctx->policy.cache_size + MOUNT_MEMORY,
			   mount_get_threads(&m->ctx->policy));
	ctx_set_serving(m->ctx, &mount_serving, m);
	if (m->hydrate)
		sqfs_hydrate_start(m->hydrate);
	r = m->server ? sqfs_server_run(m->server, err) : squashfuse_wait(m->ctx->squashfuse, err);
	ctx_end_serving(m->ctx);
	return r;
}
