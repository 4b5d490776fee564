/*
 * A table points to the ranges that are being copied. They are on the stacks of their owners, and
 * an owner does not return before its last helper has. A part ends at the end of a huge page of the
 * file. No thread takes l->lock while it holds a writer's lock.
 */
#include "daemon/engines/archive/untar-range-copy.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>

#include "common/util/buffer.h"
#include "common/util/error.h"
#include "daemon/engines/copy/copy-file.h"

#define MAX_LARGE 8 /* buffers of COPY_BUFFER_SIZE */
#define PART_SIZE (2ULL * COPY_BUFFER_SIZE)

struct copying {
	struct archive_range range;
	uint64_t next; /* offset of the next part in out */
	unsigned n_active;
	bool failed;
	struct error error;
};

struct range_copy {
	struct stage_io *io;
	pthread_mutex_t lock;
	pthread_cond_t idle; /* a range has no helper */
	struct range_copy_writer *writers[RANGE_COPY_MAX_WRITERS];
	struct copying *copyings[RANGE_COPY_MAX_WRITERS]; /* of the writer of this number */
	unsigned n_large;
	_Atomic unsigned n_open; /* ranges with parts that no thread copies */
	_Atomic uint64_t n_announced;
};

int range_copy_new(struct range_copy **lp, struct stage_io *io)
{
	struct range_copy *l = calloc(1, sizeof(*l));

	if (!l)
		return -ENOMEM;
	l->io = io;
	pthread_mutex_init(&l->lock, NULL);
	pthread_cond_init(&l->idle, NULL);
	*lp = l;
	return 0;
}

void range_copy_free(struct range_copy *l)
{
	if (!l)
		return;
	pthread_cond_destroy(&l->idle);
	pthread_mutex_destroy(&l->lock);
	free(l);
}

/* l is locked. The caller knows that it is there: no more than RANGE_COPY_MAX_WRITERS join. */
static unsigned find(const struct range_copy *l, const struct range_copy_writer *w)
{
	unsigned i = 0;

	while (i < RANGE_COPY_MAX_WRITERS && l->writers[i] != w)
		i++;
	assert(i < RANGE_COPY_MAX_WRITERS);
	return i;
}

void range_copy_join(struct range_copy *l, struct range_copy_writer *w)
{
	pthread_mutex_lock(&l->lock);
	l->writers[find(l, NULL)] = w;
	pthread_mutex_unlock(&l->lock);
}

void range_copy_leave(struct range_copy *l, struct range_copy_writer *w)
{
	pthread_mutex_lock(&l->lock);
	l->writers[find(l, w)] = NULL;
	l->n_large -= w->size == COPY_BUFFER_SIZE;
	pthread_mutex_unlock(&l->lock);
	free(w->buf);
	*w = (struct range_copy_writer){ 0 };
}

static void wake_all(struct range_copy *l)
{
	pthread_mutex_lock(&l->lock);
	for (unsigned i = 0; i < RANGE_COPY_MAX_WRITERS; i++) {
		if (!l->writers[i])
			continue;
		pthread_mutex_lock(l->writers[i]->lock);
		pthread_cond_broadcast(l->writers[i]->changed);
		pthread_mutex_unlock(l->writers[i]->lock);
	}
	pthread_mutex_unlock(&l->lock);
}

/* Returns true if a range has more than one part, so that helpers are useful. */
static bool is_shared(uint64_t n)
{
	return n > PART_SIZE;
}

void range_copy_announce(struct range_copy *l, uint64_t n)
{
	if (is_shared(n))
		atomic_fetch_add(&l->n_announced, 1);
}

void range_copy_settle(struct range_copy *l, uint64_t n)
{
	if (is_shared(n) && atomic_fetch_sub(&l->n_announced, 1) == 1)
		wake_all(l);
}

bool range_copy_is_settled(const struct range_copy *l)
{
	return atomic_load(&l->n_announced) == 0;
}

bool range_copy_wants_help(const struct range_copy *l, const struct range_copy_writer *w)
{
	return atomic_load(&l->n_open) > 0 && !w->fails;
}

/* ---- parts; l is locked ---- */

static bool get_buffer(struct range_copy *l, struct range_copy_writer *w)
{
	if (w->buf)
		return true;
	w->size = l->n_large < MAX_LARGE ? COPY_BUFFER_SIZE : COPY_SMALL_SIZE;
	w->buf = buffer_new(w->size);
	w->fails = !w->buf;
	if (w->fails)
		w->size = 0;
	l->n_large += w->size == COPY_BUFFER_SIZE;
	return !w->fails;
}

static void give_up(struct range_copy *l, struct copying *c, const struct error *err)
{
	if (!c->failed)
		c->error = *err;
	c->failed = true;
	if (c->next < c->range.to)
		atomic_fetch_sub(&l->n_open, 1);
	c->next = c->range.to;
}

/* Copies a part. l must be locked, and is unlocked while it copies. */
static void copy_part(struct range_copy *l, struct range_copy_writer *w, struct copying *c)
{
	const struct archive_range *range = &c->range;
	uint64_t from = c->next, to = (from / PART_SIZE + 1) * PART_SIZE;
	struct error err = ERROR_INIT;
	int r;

	to = to < range->to ? to : range->to;
	c->next = to;
	if (to == range->to)
		atomic_fetch_sub(&l->n_open, 1);
	c->n_active++;
	pthread_mutex_unlock(&l->lock);
	r = copy_file_shifted(l->io, range->in, range->in_at + (from - range->from), range->out,
			      from, to, w->buf, w->size, &err);
	pthread_mutex_lock(&l->lock);
	if (r < 0)
		give_up(l, c, &err);
	if (--c->n_active == 0)
		pthread_cond_broadcast(&l->idle);
}

static int copy_alone(struct range_copy *l, struct range_copy_writer *w,
		      const struct archive_range *range, struct error *err)
{
	bool there = w->buf;

	if (!there) {
		pthread_mutex_lock(&l->lock);
		there = get_buffer(l, w);
		pthread_mutex_unlock(&l->lock);
	}
	if (!there)
		return error_set(err, ENOMEM, "out of memory");
	return copy_file_shifted(l->io, range->in, range->in_at, range->out, range->from, range->to,
				 w->buf, w->size, err);
}

static int copy_together(struct range_copy *l, struct range_copy_writer *w,
			 const struct archive_range *range, struct error *err)
{
	struct copying c = { .range = *range, .next = range->from };
	struct error no_memory = ERROR_INIT;
	unsigned i;

	pthread_mutex_lock(&l->lock);
	i = find(l, w);
	l->copyings[i] = &c;
	atomic_fetch_add(&l->n_open, 1);
	pthread_mutex_unlock(&l->lock);
	wake_all(l);
	pthread_mutex_lock(&l->lock);
	if (!get_buffer(l, w)) {
		error_set(&no_memory, ENOMEM, "out of memory");
		give_up(l, &c, &no_memory);
	}
	while (c.next < c.range.to)
		copy_part(l, w, &c);
	l->copyings[i] = NULL;
	while (c.n_active > 0)
		pthread_cond_wait(&l->idle, &l->lock);
	pthread_mutex_unlock(&l->lock);
	if (c.failed && err)
		*err = c.error;
	return c.failed ? c.error.code : 0;
}

int range_copy_run(struct range_copy *l, struct range_copy_writer *w,
		   const struct archive_range *range, struct error *err)
{
	return is_shared(range->to - range->from) ? copy_together(l, w, range, err)
						  : copy_alone(l, w, range, err);
}

void range_copy_help(struct range_copy *l, struct range_copy_writer *w)
{
	struct copying *c;

	pthread_mutex_lock(&l->lock);
	for (unsigned i = 0; i < RANGE_COPY_MAX_WRITERS; i++) {
		c = l->copyings[i];
		if (!c || c->next >= c->range.to || !get_buffer(l, w))
			continue;
		copy_part(l, w, c);
		break;
	}
	pthread_mutex_unlock(&l->lock);
}
