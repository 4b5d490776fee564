/*
 * The thread that opened a file, and helpers on other threads, take the ranges of the file one
 * after the other. A helper that is too late finds no range and returns. The thread that opened the
 * file returns only when all ranges are copied, so the number of open big files stays small.
 */
#include "daemon/engines/copy/copy-ranges.h"

#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>

#include "common/util/buffer.h"
#include "common/util/cleanup.h"
#include "common/util/error.h"
#include "common/util/fd.h"
#include "daemon/engines/copy/copy-file.h"
#include "daemon/engines/copy/stage-io.h"
#include "daemon/engines/copy/walk.h"

/* A read of READ_UNIT bytes is slow if it takes four times as long as a slow look-up. */
#define READ_IS_LOOKS 4
#define READ_UNIT (512u << 10)

/* With more threads, each one gets a smaller buffer. */
#define FEW_THREADS 16

struct ranges {
	struct walk *walk;
	struct stage_io *io;
	int in, out;
	bool sparse;
	uint64_t size;
	_Atomic uint64_t next; /* offset of the next range */
	_Atomic uint64_t left; /* bytes that were not copied yet */
	_Atomic unsigned n_refs;
	atomic_flag failed;
	atomic_bool over;
	struct error error; /* the first failure; written before over is set */
	copy_part_fn *part; /* NULL: copy_file_part() */
	void (*done)(void *arg, const struct error *err);
	void *arg;
};

struct help {
	struct work work;
	struct ranges *ranges;
};

/* The buffer of a thread, and its own descriptor of the source. */
struct room {
	char *buf; /* NULL: no memory */
	size_t size;
	int own;	/* the source, opened again; -1: not open */
	bool wants_own; /* own must still be opened */
};

static struct room new_room(struct walk *w)
{
	size_t size = walk_get_threads(w) <= FEW_THREADS ? COPY_BUFFER_SIZE : COPY_SMALL_SIZE;

	return (struct room){ buffer_new(size), size, -1, false };
}

static void room_deinit(struct room *room)
{
	free(room->buf);
	fd_closep(&room->own);
}

static void ranges_put(struct ranges *r)
{
	if (atomic_fetch_sub(&r->n_refs, 1) == 1)
		free(r);
}

static int copy_part(struct ranges *r, uint64_t from, uint64_t to, const struct room *room,
		     uint64_t *usp, struct error *err)
{
	int in = room->own < 0 ? r->in : room->own;

	if (r->part)
		return r->part(r->arg, in, from, to, room->buf, room->size, usp, err);
	return copy_file_part(r->io, in, r->out, from, to, r->sparse, room->buf, room->size, usp,
			      err);
}

static void copy_one(struct ranges *r, uint64_t from, uint64_t to, const struct room *room)
{
	struct error err = ERROR_INIT;
	unsigned n_units = (unsigned)((to - from + READ_UNIT - 1) / READ_UNIT);
	uint64_t us = 0;

	if (atomic_load(&r->over) || walk_is_over(r->walk))
		return;
	if (copy_part(r, from, to, room, &us, &err) < 0 && !atomic_flag_test_and_set(&r->failed)) {
		r->error = err;
		atomic_store(&r->over, true);
	}
	walk_note_wait(r->walk, us / n_units / READ_IS_LOOKS, n_units);
}

/* Opens the source again for this thread, because some file systems have one read-ahead, and one
 * limit, for each open file. The caller has a range, so r->in is still open. */
static void open_own(struct ranges *r, struct room *room)
{
	if (room->wants_own)
		room->own = fd_reopen(r->in, O_RDONLY);
	room->wants_own = false;
}

static void work_on(struct ranges *r, struct room *room)
{
	uint64_t from, to;

	while ((from = atomic_fetch_add(&r->next, COPY_RANGE_SIZE)) < r->size) {
		to = r->size - from < COPY_RANGE_SIZE ? r->size : from + COPY_RANGE_SIZE;
		open_own(r, room);
		copy_one(r, from, to, room);
		if (atomic_fetch_sub(&r->left, to - from) == to - from)
			r->done(r->arg, atomic_load(&r->over) ? &r->error : NULL);
	}
}

static void run_help(struct work *work, void *arg)
{
	struct help *h = (struct help *)work;
	_cleanup_(room_deinit) struct room room = new_room(h->ranges->walk);

	room.wants_own = true;
	if (room.buf)
		work_on(h->ranges, &room);
	ranges_put(h->ranges);
	free(h);
}

/* Pushes help for as many threads as can be useful. Threads that are added during the copy help
 * with the next file. */
static void call_help(struct ranges *r)
{
	uint64_t n_ranges = (r->size + COPY_RANGE_SIZE - 1) / COPY_RANGE_SIZE;
	size_t n = walk_get_max_threads(r->walk);
	struct help *h;

	if (n > n_ranges)
		n = n_ranges;
	for (size_t i = 1; i < n; i++) {
		h = calloc(1, sizeof(*h));
		if (!h)
			return;
		h->work.run = run_help;
		h->ranges = r;
		atomic_fetch_add(&r->n_refs, 1);
		walk_push(r->walk, &h->work);
	}
}

static int run_ranges(const struct ranges *wanted, const struct stat *st)
{
	struct ranges *r = calloc(1, sizeof(*r));
	_cleanup_(room_deinit) struct room room = new_room(wanted->walk);

	if (!r || !room.buf) {
		free(r);
		return -ENOMEM;
	}
	*r = *wanted;
	r->sparse = copy_file_is_sparse(st);
	r->size = (uint64_t)st->st_size;
	r->left = r->size;
	r->n_refs = 1;
	if (r->size == 0)
		r->done(r->arg, NULL);
	call_help(r);
	work_on(r, &room);
	ranges_put(r);
	return 0;
}

int copy_ranges(struct walk *w, struct stage_io *io, int in, int out, const struct stat *st,
		void (*done)(void *arg, const struct error *err), void *arg)
{
	const struct ranges r = {
		.walk = w,
		.io = io,
		.in = in,
		.out = out,
		.failed = ATOMIC_FLAG_INIT,
		.done = done,
		.arg = arg,
	};

	return run_ranges(&r, st);
}

int copy_ranges_by(struct walk *w, int in, const struct stat *st, copy_part_fn *part,
		   void (*done)(void *arg, const struct error *err), void *arg)
{
	const struct ranges r = {
		.walk = w,
		.in = in,
		.out = -1,
		.failed = ATOMIC_FLAG_INIT,
		.done = done,
		.arg = arg,
		.part = part,
	};

	return run_ranges(&r, st);
}

/* ---- a single file ---- */

struct alone {
	struct work work;
	struct walk *walk;
	struct stage_io *io;
	int in, out;
	const struct stat *st;
};

static void end_alone(void *arg, const struct error *err)
{
	struct alone *a = arg;

	if (err)
		walk_fail(a->walk, err);
}

static void run_alone(struct work *work, void *arg)
{
	struct alone *a = (struct alone *)work;
	struct error err = ERROR_INIT;

	if (copy_ranges(a->walk, a->io, a->in, a->out, a->st, end_alone, a) < 0) {
		error_set(&err, ENOMEM, "out of memory");
		walk_fail(a->walk, &err);
	}
}

int copy_ranges_of_file(struct stage_io *io, int in, int out, const struct stat *st,
			struct error *err)
{
	static const struct walk_ops none = { 0 };
	_cleanup_(walk_freep) struct walk *w = NULL;
	struct alone a = { .work.run = run_alone, .io = io, .in = in, .out = out, .st = st };
	int r;

	r = walk_new(&w, io, NULL, &none, NULL, err);
	if (r < 0)
		return r;
	a.walk = w;
	walk_push(w, &a.work);
	return walk_run(w, 0, err);
}
