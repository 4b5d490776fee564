/*
 * A walk, its directories and its end; walk-read.c reads them.
 *
 * A file system where operations take longer than SLOW_US gets more threads, step by step
 * (copy-concurrency.h): they wait for the server and use no CPU.
 */
#include "daemon/engines/copy/walk.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/util/fd.h"
#include "daemon/engines/copy/stage-io.h"
#include "daemon/engines/copy/walk-internal.h"
#include "daemon/engines/copy/walk-kept.h"

#define SLOW_US 150
#define MEASURE_ONE_OF 8

int walk_out_of_memory(struct error *err)
{
	return error_set(err, ENOMEM, "out of memory");
}

int walk_new(struct walk **wp, struct stage_io *io, const struct path_filter *filter,
	     const struct walk_ops *ops, void *arg, struct error *err)
{
	struct walk *w = calloc(1, sizeof(*w));

	if (!w || workq_new(&w->q, w) < 0) {
		free(w);
		return walk_out_of_memory(err);
	}
	w->io = io;
	w->filter = filter;
	w->ops = ops;
	w->arg = arg;
	pthread_mutex_init(&w->lock, NULL);
	copy_concurrency_init(&w->pace, 1, 0, SLOW_US);
	*wp = w;
	return 0;
}

void walk_free(struct walk *w)
{
	if (!w)
		return;
	workq_free(w->q);
	copy_concurrency_deinit(&w->pace);
	pthread_mutex_destroy(&w->lock);
	free(w);
}

void walk_set_keeping(struct walk *w, struct walk_kept *kept)
{
	w->kept = kept;
	w->keeping = true;
}

void walk_set_kept(struct walk *w, struct walk_kept *kept)
{
	w->kept = kept;
	w->keeping = false;
}

void walk_set_following(struct walk *w)
{
	w->following = true;
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
	return atomic_load_explicit(&w->over, memory_order_relaxed) || stage_io_is_cancelled(w->io);
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

const struct walk_dir *walk_root(const struct walk_dir *dir)
{
	while (dir->parent)
		dir = dir->parent;
	return dir;
}

int walk_report_unreadable(struct walk *w, const char *path, int errnum, struct error *err)
{
	if (errnum == ENOENT)
		return error_set(err, ESTALE, "%s vanished while the directory was read", path);
	if (errnum != EACCES && errnum != EPERM)
		return error_errno(err, errnum, "open %s", path);
	return w->ops->unreadable ? w->ops->unreadable(w, path, errnum, w->arg, err) : 0;
}

/* ---- directories ---- */

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
		if (w->keeping && !walk_is_over(w))
			walk_kept_complete(dir->kept);
		fd_closep(&dir->fd);
		free(dir->path);
		free(dir);
		dir = parent; /* its reference to the parent goes too */
	}
}

struct walk_dir *walk_dir_new(struct walk_dir *parent, const char *name, int fd)
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

/* ---- how many at once ---- */

bool walk_should_measure(struct walk *w)
{
	static _Thread_local unsigned n;

	return atomic_load_explicit(&w->suspect, memory_order_relaxed) || n++ % MEASURE_ONE_OF == 0;
}

void walk_note_wait(struct walk *w, uint64_t us, unsigned n_units)
{
	size_t n = copy_concurrency_note(&w->pace, us, n_units);

	/* One in eight of a slow source's took a quarter of a second until there were more threads.
	 */
	if (us > SLOW_US)
		atomic_store_explicit(&w->suspect, true, memory_order_relaxed);
	if (n == 0)
		return;
	atomic_store(&w->slow, true);
	workq_grow(w->q, n);
}

size_t walk_get_threads(struct walk *w)
{
	return copy_concurrency_get(&w->pace);
}

size_t walk_get_max_threads(const struct walk *w)
{
	return w->pace.max;
}

/* As many as may be: those whom user or site have named, no more; others as MaxReaders says. */
static void set_pace(struct walk *w, size_t n_threads)
{
	const struct stage_io *io = w->io;
	size_t start = io ? io->n_threads : 1, max = io ? io->max_readers : 1;

	if (io && io->is_n_threads_given && (max == 0 || max > start))
		max = start;
	copy_concurrency_deinit(&w->pace);
	copy_concurrency_init(&w->pace, n_threads > start ? n_threads : start, max, SLOW_US);
	if (n_threads > start)
		atomic_store(&w->slow, true);
}

int walk_run(struct walk *w, size_t n_threads, struct error *err)
{
	set_pace(w, n_threads);
	workq_run(w->q, copy_concurrency_get(&w->pace));
	if (stage_io_is_cancelled(w->io))
		return stage_io_check(w->io, err);
	if (w->error.code && err)
		*err = w->error;
	return w->error.code;
}

int walk_add_root(struct walk *w, int fd, const char *path, struct error *err)
{
	struct dir_work *d = calloc(1, sizeof(*d) + 1);

	if (!d) {
		close(fd);
		return walk_out_of_memory(err);
	}
	d->work.run = walk_run_dir;
	d->dir = walk_dir_new(NULL, path, fd);
	if (!d->dir) {
		free(d);
		return walk_out_of_memory(err);
	}
	if (w->kept && !*path)
		d->kept = walk_kept_get_root(w->kept);
	walk_push(w, &d->work);
	return 0;
}
