/*
 * A walk from its beginning to its end; walk-read.c reads the directories.
 *
 * A file system where operations take longer than WALK_SLOW_US gets more threads, step by step
 * (copy-concurrency.h): they wait for the server and use no CPU.
 */
#include "daemon/engines/copy/walk.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/engines/copy/stage-io.h"
#include "daemon/engines/copy/walk-internal.h"
#include "daemon/engines/copy/walk-kept.h"

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
	copy_concurrency_init(&w->pace, 1, 0, WALK_SLOW_US);
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

/* ---- how many at once ---- */

size_t walk_get_threads(struct walk *w)
{
	return copy_concurrency_get(&w->pace);
}

size_t walk_get_max_threads(const struct walk *w)
{
	return w->pace.max;
}

/* Sets the number of threads. A number that the user or the site has set does not grow; otherwise
 * MaxReaders= limits it. */
static void set_pace(struct walk *w, size_t n_threads)
{
	const struct stage_io *io = w->io;
	size_t start = io ? io->n_threads : 1, max = io ? io->max_readers : 1;

	if (io && io->is_n_threads_given && (max == 0 || max > start))
		max = start;
	copy_concurrency_deinit(&w->pace);
	copy_concurrency_init(&w->pace, n_threads > start ? n_threads : start, max, WALK_SLOW_US);
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
