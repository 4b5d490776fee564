/*
 * Two kinds of work: a directory (open, read names) and a batch of up to BATCH names of one
 * directory (look at each, hand it to ops). The type that readdir gives saves looking at
 * directories twice.
 *
 * A file system where a look takes longer than SLOW_US gets more threads, up to SLOW_THREADS: they
 * wait for the server and use no CPU; more than that gained nothing.
 */
#include "daemon/worker/walk.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "common/error.h"
#include "daemon/worker/ctx.h"
#include "daemon/worker/filter.h"

#define BATCH 64
#define SLOW_US 150
#define SLOW_MIN_SAMPLES 32
#define SLOW_THREADS 32

struct walk {
	struct ctx *ctx;
	const struct filter *filter;
	const struct walk_ops *ops;
	void *arg;
	struct workq *q;
	atomic_bool over, grown;
	_Atomic uint64_t look_us, n_looks;
	pthread_mutex_t lock;
	struct error error;
};

struct dir_work {
	struct work work;
	struct walk_dir *parent; /* referenced; NULL: dir is a root */
	struct walk_dir *dir;
	char name[];
};

struct batch_work {
	struct work work;
	struct walk_dir *dir; /* referenced */
	size_t n, size;
	char *names[BATCH];
};

static const struct error *out_of_memory(struct error *err)
{
	error_set(err, ENOMEM, "out of memory");
	return err;
}

int walk_new(struct walk **wp, struct ctx *ctx, const struct filter *filter,
	     const struct walk_ops *ops, void *arg, struct error *err)
{
	struct walk *w = calloc(1, sizeof(*w));

	if (!w || workq_new(&w->q, w) < 0) {
		free(w);
		return error_set(err, ENOMEM, "out of memory");
	}
	w->ctx = ctx;
	w->filter = filter;
	w->ops = ops;
	w->arg = arg;
	pthread_mutex_init(&w->lock, NULL);
	*wp = w;
	return 0;
}

void walk_free(struct walk *w)
{
	if (!w)
		return;
	workq_free(w->q);
	pthread_mutex_destroy(&w->lock);
	free(w);
}

void walk_stop(struct walk *w)
{
	atomic_store(&w->over, true);
}

void walk_fail(struct walk *w, const struct error *err)
{
	pthread_mutex_lock(&w->lock);
	if (!w->error.code)
		w->error = *err;
	pthread_mutex_unlock(&w->lock);
	walk_stop(w);
}

bool walk_is_over(const struct walk *w)
{
	return atomic_load_explicit(&w->over, memory_order_relaxed) ||
	       (w->ctx && ctx_is_cancelled(w->ctx));
}

void walk_push(struct walk *w, struct work *work)
{
	workq_push(w->q, work);
}

char *walk_path(const struct walk_dir *dir, const char *name, char buf[static WALK_PATH_SIZE])
{
	snprintf(buf, WALK_PATH_SIZE, "%s%s%s", dir->path, *dir->path ? "/" : "", name);
	return buf;
}

struct walk_dir *walk_dir_get(struct walk_dir *dir)
{
	atomic_fetch_add(&dir->n_refs, 1);
	return dir;
}

void walk_dir_put(struct walk *w, struct walk_dir *dir)
{
	while (dir && atomic_fetch_sub(&dir->n_refs, 1) == 1) {
		struct walk_dir *parent = dir->parent;

		if (w->ops->leave)
			w->ops->leave(w, dir, w->arg);
		fd_closep(&dir->fd);
		free(dir->path);
		free(dir);
		dir = parent; /* its reference to the parent goes too */
	}
}

/* fd is consumed. The caller's reference of parent goes over to the new one. */
static struct walk_dir *dir_new(struct walk_dir *parent, const char *name, int fd)
{
	struct walk_dir *dir = calloc(1, sizeof(*dir));
	char path[WALK_PATH_SIZE];
	const char *slash;

	if (!dir || fstat(fd, &dir->st) < 0 ||
	    !(dir->path = strdup(parent ? walk_path(parent, name, path) : name))) {
		free(dir);
		close(fd);
		return NULL;
	}
	slash = strrchr(dir->path, '/');
	dir->name = slash ? slash + 1 : dir->path;
	dir->parent = parent;
	dir->depth = parent ? parent->depth + 1 : 0;
	dir->fd = fd;
	atomic_store(&dir->n_refs, 1);
	return dir;
}

/* Bind mounts have their parent's device: the kernel says it itself (5.8); before, the device has
 * to do. dir->fd is behind the mount, if there is one. */
static bool is_mount_point(const struct walk_dir *dir)
{
	struct statx sx;

	if (statx(dir->fd, "", AT_EMPTY_PATH | AT_STATX_DONT_SYNC, STATX_TYPE, &sx) == 0 &&
	    (sx.stx_attributes_mask & STATX_ATTR_MOUNT_ROOT))
		return sx.stx_attributes & STATX_ATTR_MOUNT_ROOT;
	return dir->st.st_dev != dir->parent->st.st_dev;
}

static int report_unreadable(struct walk *w, const char *path, int errnum, struct error *err)
{
	if (errnum == ENOENT)
		return error_set(err, ESTALE, "%s vanished while the directory was read", path);
	if (errnum != EACCES && errnum != EPERM)
		return error_errno(err, errnum, "open %s", path);
	return w->ops->unreadable ? w->ops->unreadable(w, path, errnum, w->arg, err) : 0;
}

static void batch_free(struct walk *w, struct batch_work *b)
{
	for (size_t i = 0; i < b->n; i++)
		free(b->names[i]);
	walk_dir_put(w, b->dir);
	free(b);
}

static int push_dir(struct walk *w, struct walk_dir *parent, const char *name, struct error *err);

/* Counts how long a look takes and brings help where that is long. */
static void measure_look(struct walk *w, const struct timespec *a, const struct timespec *b)
{
	int64_t us = (b->tv_sec - a->tv_sec) * 1000000 + (b->tv_nsec - a->tv_nsec) / 1000;
	uint64_t n, sum;

	sum = atomic_fetch_add(&w->look_us, us > 0 ? (uint64_t)us : 0);
	n = atomic_fetch_add(&w->n_looks, 1) + 1;
	if (n >= SLOW_MIN_SAMPLES && sum / n > SLOW_US && w->ctx && !w->ctx->policy.threads_given &&
	    !atomic_exchange(&w->grown, true))
		workq_grow(w->q, SLOW_THREADS);
}

static bool is_left_out(const struct walk *w, const struct walk_dir *dir, const char *name)
{
	char path[WALK_PATH_SIZE];

	return w->filter && !filter_takes(w->filter, walk_path(dir, name, path));
}

static int do_entry(struct walk *w, struct walk_dir *dir, const char *name, struct error *err)
{
	char path[WALK_PATH_SIZE];
	struct timespec before, after;
	struct stat st;

	clock_gettime(CLOCK_MONOTONIC, &before);
	if (fstatat(dir->fd, name, &st, AT_SYMLINK_NOFOLLOW | AT_NO_AUTOMOUNT) < 0)
		return report_unreadable(w, walk_path(dir, name, path), errno, err);
	clock_gettime(CLOCK_MONOTONIC, &after);
	measure_look(w, &before, &after);
	if (S_ISDIR(st.st_mode))
		return push_dir(w, dir, name, err);
	if (is_left_out(w, dir, name))
		return 0;
	return w->ops->entry ? w->ops->entry(w, dir, name, &st, w->arg, err) : 0;
}

static void run_batch(struct work *work, void *arg)
{
	struct batch_work *b = (struct batch_work *)work;
	struct error err = ERROR_INIT;
	struct walk *w = arg;

	for (size_t i = 0; i < b->n && !walk_is_over(w); i++) {
		if (do_entry(w, b->dir, b->names[i], &err) < 0)
			walk_fail(w, &err);
	}
	batch_free(w, b);
}

static int batch_add(struct walk *w, struct batch_work **bp, struct walk_dir *dir, const char *name)
{
	struct batch_work *b = *bp;

	if (!b) {
		b = *bp = calloc(1, sizeof(*b));
		if (!b)
			return -ENOMEM;
		b->work.run = run_batch;
		b->dir = walk_dir_get(dir);
	}
	b->names[b->n] = strdup(name);
	if (!b->names[b->n])
		return -ENOMEM;
	if (++b->n == BATCH) {
		walk_push(w, &b->work);
		*bp = NULL;
	}
	return 0;
}

static int read_names(struct walk *w, struct walk_dir *dir, DIR *d, struct batch_work **bp,
		      struct error *err)
{
	struct dirent *e;
	int r = 0;

	while (r == 0 && !walk_is_over(w)) {
		errno = 0;
		e = readdir(d);
		if (!e)
			return errno ? error_errno(err, errno, "read %s", dir->path) : 0;
		if (!strcmp(e->d_name, ".") || !strcmp(e->d_name, ".."))
			continue;
		if (e->d_type == DT_DIR)
			r = push_dir(w, dir, e->d_name, err);
		else if (e->d_type != DT_UNKNOWN && is_left_out(w, dir, e->d_name))
			continue; /* without a look at it */
		else if (batch_add(w, bp, dir, e->d_name) < 0)
			r = out_of_memory(err)->code;
	}
	return r;
}

static int read_dir(struct walk *w, struct walk_dir *dir, struct error *err)
{
	_cleanup_(dir_closep) DIR *d = NULL;
	struct batch_work *b = NULL;
	int fd, r;

	fd = openat(dir->fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0)
		return report_unreadable(w, dir->path, errno, err);
	d = fdopendir(fd);
	if (!d) {
		close(fd);
		return out_of_memory(err)->code;
	}
	r = read_names(w, dir, d, &b, err);
	if (b && r == 0)
		walk_push(w, &b->work);
	else if (b)
		batch_free(w, b);
	return r;
}

/* 0 with *dirp NULL: left out. The reference of parent goes to *dirp, else stays. */
static int open_dir(struct walk *w, struct walk_dir *parent, const char *name,
		    struct walk_dir **dirp, struct error *err)
{
	char path[WALK_PATH_SIZE];
	int fd;

	fd = openat(parent->fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0)
		return report_unreadable(w, walk_path(parent, name, path), errno, err);
	*dirp = dir_new(parent, name, fd);
	return *dirp ? 0 : out_of_memory(err)->code;
}

static int enter_dir(struct walk *w, struct walk_dir *dir, struct error *err)
{
	int r = w->ops->enter ? w->ops->enter(w, dir, w->arg, err) : 0;

	if (r < 0)
		return r;
	if (dir->parent && is_mount_point(dir))
		return w->ops->mount_point ? w->ops->mount_point(w, dir, w->arg, err) : 0;
	return read_dir(w, dir, err);
}

static void run_dir(struct work *work, void *arg)
{
	struct dir_work *d = (struct dir_work *)work;
	struct walk_dir *dir = d->dir;
	struct error err = ERROR_INIT;
	struct walk *w = arg;
	int r = 0;

	if (!dir && !walk_is_over(w))
		r = open_dir(w, d->parent, d->name, &dir, &err);
	if (r == 0 && dir && !walk_is_over(w))
		r = enter_dir(w, dir, &err);
	if (r < 0)
		walk_fail(w, &err);
	walk_dir_put(w, dir ? dir : d->parent);
	free(d);
}

static int push_dir(struct walk *w, struct walk_dir *parent, const char *name, struct error *err)
{
	char path[WALK_PATH_SIZE];
	struct dir_work *d;

	walk_path(parent, name, path);
	if (parent->depth + 1 > WALK_MAX_DEPTH) {
		error_set(err, ELOOP, "%.200s… is deeper than %d directories", path,
			  WALK_MAX_DEPTH);
		return error_mend(err, -ELOOP, "stage what is below, or pack it (stagectl pack)");
	}
	if (w->filter && filter_prunes(w->filter, path))
		return 0;
	d = calloc(1, sizeof(*d) + strlen(name) + 1);
	if (!d)
		return out_of_memory(err)->code;
	d->work.run = run_dir;
	d->parent = walk_dir_get(parent);
	strcpy(d->name, name);
	walk_push(w, &d->work);
	return 0;
}

int walk_add_root(struct walk *w, int fd, const char *path, struct error *err)
{
	struct dir_work *d = calloc(1, sizeof(*d) + 1);

	if (!d) {
		close(fd);
		return out_of_memory(err)->code;
	}
	d->work.run = run_dir;
	d->dir = dir_new(NULL, path, fd);
	if (!d->dir) {
		free(d);
		return out_of_memory(err)->code;
	}
	walk_push(w, &d->work);
	return 0;
}

int walk_run(struct walk *w, struct error *err)
{
	workq_run(w->q, w->ctx ? w->ctx->policy.threads : 1);
	if (w->ctx && ctx_is_cancelled(w->ctx))
		return ctx_check(w->ctx, err);
	if (w->error.code && err)
		*err = w->error;
	return w->error.code;
}
