/*
 * The part of the file before the walk's position is divided into segments of some hundred members.
 * A thread takes the next segment, looks for a block that is a header by its checksum, and follows
 * the chain of headers from there. It keeps the headers that it finds, and the bytes that belong to
 * them. If the chain breaks, it looks for another header. If the content of a member is an archive,
 * the thread reads the headers in it, too. If a thread's read hangs, its segment is given up: the
 * walk reads that part itself, and the other threads continue. When the hanging thread returns, it
 * frees its memory. The walk asks only for positions to which the chain of the whole archive has
 * led. So headers that were found in the content of a member are never used, and the chains of the
 * threads need no proof.
 */
#include "daemon/engines/archive/tar-ahead.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "daemon/engines/archive/timed-cond.h"
#include "daemon/engines/archive/untar-header.h"
#include "daemon/engines/archive/untar-parser.h"

enum {
	AHEAD_MEMBERS = 128, /* approximate number of members in a segment, at most */
	AHEAD_MIN_MEMBERS = 16,
	AHEAD_BLOCKS = 640,	 /* maximum number of blocks that are kept of a segment */
	AHEAD_PAGE = 4096,	 /* size of a read for one header */
	AHEAD_PIECE = 256 << 10, /* size of a read for many headers, or to search for one */
	AHEAD_SMALL = 64 << 10,	 /* headers with smaller distances are read with what is between */
	AHEAD_STACK = 256 << 10,
	AHEAD_MAX_THREADS = 32,
	AHEAD_MIN_SEGMENT = 1 << 20,
	AHEAD_MAX_SEGMENT = 512 << 20,
	AHEAD_MAX_MEAN = AHEAD_MAX_SEGMENT / AHEAD_MEMBERS,
	AHEAD_MIN_SEARCH = 1 << 20,
	AHEAD_PATIENCE = 256, /* allowed unknown places, in addition to one for each known one */
	AHEAD_MAX_WAITS = 50, /* waits of TAR_AHEAD_WAIT_MS without a read of the thread */
	AHEAD_END_MS = 1000,  /* time for the threads to end */
};

/* Bytes of the file, which are in the segment's data. */
struct kept_piece {
	uint64_t at;
	uint32_t from, size;
};

struct segment {
	uint64_t from, end;
	bool is_busy;
	bool is_left; /* the thread that works on it frees it */
	_Atomic uint64_t n_reads;
	size_t n_pieces, n_data;
	struct kept_piece pieces[AHEAD_BLOCKS];
	unsigned char *data;
};

struct tar_ahead {
	struct tar_ahead_options options;
	pthread_mutex_t lock;
	pthread_cond_t changed;
	bool closed;
	uint64_t claimed;	   /* bytes of the file before this are in segments */
	size_t first, next;	   /* the walk's segment and the next one, modulo n_segments */
	size_t piece;		   /* piece of the first segment that is needed next */
	uint64_t n_known, n_not;   /* requested headers that were known, and that were not */
	_Atomic uint64_t at, mean; /* offset of the walk, and its mean distance between headers */
	_Atomic uint64_t n_reads;
	size_t n_threads, n_running, n_segments;
	bool is_given_up;    /* no thread takes segments, so the walk does not wait for them */
	unsigned n_waits;    /* waits for the first segment without a read */
	uint64_t seen_reads; /* number of its reads at the last wait */
	bool is_orphan;	     /* the last thread frees everything */
	struct segment *segments[2 * AHEAD_MAX_THREADS];
};

/* The state of a thread that works on a segment. */
struct explorer {
	struct tar_ahead *ahead;
	struct segment *segment;
	uint64_t at, searched;
	uint64_t inner_end; /* end of the archive in the archive whose headers are read */
	uint64_t buf_at;
	size_t buf_size;
	unsigned char *buf;
};

/* ---- a segment ---- */

static bool fill(struct explorer *e, size_t want)
{
	const struct tar_ahead_options *o = &e->ahead->options;
	ssize_t n;

	if (atomic_load(&e->ahead->at) == UINT64_MAX)
		return false;
	if (want > o->size - e->at)
		want = (size_t)(o->size - e->at);
	do
		n = pread(o->fd, e->buf, want, (off_t)e->at);
	while (n < 0 && errno == EINTR);
	atomic_fetch_add(&e->ahead->n_reads, n > 0);
	atomic_fetch_add(&e->segment->n_reads, 1);
	e->buf_at = e->at;
	e->buf_size = n > 0 ? (size_t)n : 0;
	return e->buf_size >= UNTAR_BLOCK;
}

/* Returns the block at e->at. NULL: the file ends or cannot be read; the walk will get the same
 * result. */
static const unsigned char *get_block(struct explorer *e)
{
	bool many = e->searched > 0 || atomic_load(&e->ahead->mean) < AHEAD_SMALL;

	if (e->ahead->options.size - e->at < UNTAR_BLOCK)
		return NULL;
	if ((e->at < e->buf_at || e->at - e->buf_at + UNTAR_BLOCK > e->buf_size) &&
	    !fill(e, many ? AHEAD_PIECE : AHEAD_PAGE))
		return NULL;
	return e->buf + (e->at - e->buf_at);
}

static bool keep_block(struct explorer *e, const unsigned char *block)
{
	struct segment *s = e->segment;
	struct kept_piece *last = s->n_pieces ? &s->pieces[s->n_pieces - 1] : NULL;

	if (s->n_data == (size_t)AHEAD_BLOCKS * UNTAR_BLOCK)
		return false;
	memcpy(s->data + s->n_data, block, UNTAR_BLOCK);
	if (last && last->at + last->size == e->at)
		last->size += UNTAR_BLOCK;
	else
		s->pieces[s->n_pieces++] = (struct kept_piece){ e->at, (uint32_t)s->n_data,
								UNTAR_BLOCK };
	s->n_data += UNTAR_BLOCK;
	e->at += UNTAR_BLOCK;
	return true;
}

/* Keeps the body of a header: a long name, or records. */
static bool keep_body(struct explorer *e, uint64_t size)
{
	const unsigned char *block;
	bool ok = true;

	for (uint64_t done = 0; done < size && ok; done += UNTAR_BLOCK) {
		block = get_block(e);
		ok = block && keep_block(e, block);
	}
	return ok;
}

static bool is_over(const struct explorer *e)
{
	return e->at >= e->segment->end || atomic_load(&e->ahead->at) >= e->segment->end;
}

/* Goes to the block after a member's headers: the next header, which is in its content if this is
 * an archive. */
static void pass_member(struct explorer *e, uint64_t size)
{
	uint64_t end = e->at + (size + UNTAR_BLOCK - 1) / UNTAR_BLOCK * UNTAR_BLOCK;
	bool looks = e->ahead->options.nested && size >= UNTAR_BLOCK;
	const unsigned char *block = looks ? get_block(e) : NULL;
	struct untar_header h = { 0 };

	if (block && untar_header_read(block, &h) >= UNTAR_MEMBER)
		e->inner_end = end;
	else
		e->at = end;
}

/* Examines a block. Returns false at the end of the segment, or if no header can be found. */
static bool explore_block(struct explorer *e)
{
	struct untar_header h = { 0 };
	const unsigned char *block = get_block(e);
	enum untar_kind kind;
	uint64_t left;

	if (!block)
		return false;
	kind = untar_header_read(block, &h);
	left = e->ahead->options.size - e->at - UNTAR_BLOCK;
	if (kind < UNTAR_MEMBER && e->at < e->inner_end) {
		e->at = e->inner_end;
		return true;
	}
	if (kind < UNTAR_MEMBER || h.size > left) {
		e->searched += UNTAR_BLOCK;
		e->at += UNTAR_BLOCK;
		return e->searched <= AHEAD_MIN_SEARCH + 4 * atomic_load(&e->ahead->mean);
	}
	e->searched = 0;
	if (!keep_block(e, block))
		return false;
	if (kind != UNTAR_MEMBER && kind != UNTAR_OLD_SPARSE && h.size <= UNTAR_MAX_PAX)
		return keep_body(e, h.size);
	pass_member(e, h.size);
	return true;
}

static void explore(struct tar_ahead *a, struct segment *s, unsigned char *buf)
{
	struct explorer e = { .ahead = a, .segment = s, .at = s->from, .buf = buf };

	while (!is_over(&e) && explore_block(&e))
		;
}

/* ---- threads ---- */

/* At the end of the file, segments are smaller, so that all threads have one. */
static uint64_t get_segment_size(const struct tar_ahead *a)
{
	uint64_t mean = atomic_load(&a->mean), n = (a->options.size - a->claimed) / a->n_threads;

	if (a->options.segment_size)
		return a->options.segment_size;
	n = n > mean * AHEAD_MIN_MEMBERS ? n : mean * AHEAD_MIN_MEMBERS;
	n = n < mean * AHEAD_MEMBERS ? n : mean * AHEAD_MEMBERS;
	n = n < AHEAD_MIN_SEGMENT ? AHEAD_MIN_SEGMENT : n;
	return n & ~(uint64_t)(UNTAR_BLOCK - 1);
}

/* Returns true if there are more segments. If members are large, the walk reads the headers
 * alone. */
static bool has_more(struct tar_ahead *a)
{
	if (a->claimed < atomic_load(&a->at))
		a->claimed = atomic_load(&a->at);
	return a->claimed < a->options.size && atomic_load(&a->mean) <= AHEAD_MAX_MEAN;
}

static struct segment **get_slot(struct tar_ahead *a, size_t i)
{
	return &a->segments[i % a->n_segments];
}

static void segment_free(struct segment *s)
{
	if (s)
		free(s->data);
	free(s);
}

/* Takes the next segment. NULL: there is none, or enough segments wait for the walk. */
static struct segment *claim(struct tar_ahead *a)
{
	struct segment **slot = get_slot(a, a->next), *s;
	uint64_t size;

	if (a->next - a->first >= a->n_segments || !has_more(a))
		return NULL;
	if (!*slot)
		*slot = calloc(1, sizeof(**slot));
	s = *slot;
	if (!s)
		return NULL;
	size = get_segment_size(a);
	if (size > a->options.size - a->claimed)
		size = a->options.size - a->claimed;
	atomic_store(&s->n_reads, 0);
	s->from = a->claimed;
	a->claimed = s->end = s->from + size;
	s->n_pieces = s->n_data = 0;
	s->is_busy = true;
	a->next++;
	return s;
}

static void destroy(struct tar_ahead *a)
{
	pthread_cond_destroy(&a->changed);
	pthread_mutex_destroy(&a->lock);
	for (size_t i = 0; i < a->n_segments; i++)
		segment_free(a->segments[i]);
	free(a);
}

/* Ends a thread's work on a segment. a must be locked. */
static void give_back(struct tar_ahead *a, struct segment *s)
{
	s->is_busy = false;
	if (s->is_left)
		segment_free(s);
	pthread_cond_broadcast(&a->changed);
}

static void *ahead_thread(void *arg)
{
	_cleanup_(freep) unsigned char *buf = malloc(AHEAD_PIECE);
	struct tar_ahead *a = arg;
	struct segment *s;
	bool is_last;

	pthread_mutex_lock(&a->lock);
	while (!a->closed) {
		s = claim(a);
		if (!s) {
			pthread_cond_wait(&a->changed, &a->lock);
			continue;
		}
		pthread_mutex_unlock(&a->lock);
		if (buf && !s->data)
			s->data = malloc((size_t)AHEAD_BLOCKS * UNTAR_BLOCK);
		if (buf && s->data)
			explore(a, s, buf);
		pthread_mutex_lock(&a->lock);
		give_back(a, s);
	}
	is_last = --a->n_running == 0 && a->is_orphan;
	pthread_cond_broadcast(&a->changed);
	pthread_mutex_unlock(&a->lock);
	if (is_last)
		destroy(a);
	return NULL;
}

/* Starts the threads. They are detached, because one may hang. */
static void start_threads(struct tar_ahead *a)
{
	pthread_attr_t attr;
	pthread_t thread;

	pthread_attr_init(&attr);
	pthread_attr_setstacksize(&attr, AHEAD_STACK);
	pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
	pthread_mutex_lock(&a->lock);
	while (a->n_threads < a->options.n_threads && a->n_threads < AHEAD_MAX_THREADS &&
	       pthread_create(&thread, &attr, ahead_thread, a) == 0)
		a->n_threads++;
	a->n_running = a->n_threads;
	pthread_mutex_unlock(&a->lock);
	pthread_attr_destroy(&attr);
}

struct tar_ahead *tar_ahead_new(const struct tar_ahead_options *options, uint64_t at, uint64_t mean)
{
	struct tar_ahead *a = calloc(1, sizeof(*a));

	if (!a)
		return NULL;
	a->options = *options;
	a->n_segments = 2 * (options->n_threads < AHEAD_MAX_THREADS ? options->n_threads
								    : AHEAD_MAX_THREADS);
	a->claimed = at;
	atomic_init(&a->at, at);
	atomic_init(&a->mean, mean);
	pthread_mutex_init(&a->lock, NULL);
	timed_cond_init(&a->changed);
	start_threads(a);
	if (a->n_threads > 0)
		return a;
	tar_ahead_free(a);
	return NULL;
}

void tar_ahead_free(struct tar_ahead *a)
{
	struct timespec until = timed_cond_get_end(AHEAD_END_MS);
	bool is_last;
	int r = 0;

	if (!a)
		return;
	pthread_mutex_lock(&a->lock);
	a->closed = true;
	atomic_store(&a->at, UINT64_MAX); /* makes all threads end */
	pthread_cond_broadcast(&a->changed);
	while (a->n_running > 0 && r == 0)
		r = pthread_cond_timedwait(&a->changed, &a->lock, &until);
	is_last = a->n_running == 0;
	a->is_orphan = !is_last;
	pthread_mutex_unlock(&a->lock);
	if (is_last)
		destroy(a);
}

/* ---- the walk ---- */

/* Drops the first segment. A thread may still work on it. */
static void leave_first(struct tar_ahead *a)
{
	struct segment **slot = get_slot(a, a->first++);

	if ((*slot)->is_busy) {
		(*slot)->is_left = true;
		*slot = NULL;
	}
	a->piece = 0;
	a->n_waits = 0;
}

static struct segment *get_first(struct tar_ahead *a)
{
	return a->first < a->next ? *get_slot(a, a->first) : NULL;
}

static void pass_segments(struct tar_ahead *a, uint64_t at)
{
	while (a->first < a->next && get_first(a)->end <= at)
		leave_first(a);
	pthread_cond_broadcast(&a->changed);
}

/* Counts a wait for the first segment (NULL: for a segment). Returns false after too many waits. */
static bool count_wait(struct tar_ahead *a, struct segment *s)
{
	uint64_t n = s ? atomic_load(&s->n_reads) : 0;

	if (n != a->seen_reads)
		a->n_waits = 0;
	a->seen_reads = n;
	if (++a->n_waits < AHEAD_MAX_WAITS)
		return true;
	a->n_waits = 0;
	if (s)
		leave_first(a);
	else
		a->is_given_up = true;
	return false;
}

/* Finds the segment that contains a place. NULL: no thread will read it, because it is past the end
 * or was passed before; or (*waitsp) it is not complete yet. */
static struct segment *find_segment(struct tar_ahead *a, uint64_t at, bool *waitsp)
{
	struct timespec until = timed_cond_get_end(TAR_AHEAD_WAIT_MS);
	struct segment *s = get_first(a);
	int r = 0;

	*waitsp = false;
	if (s ? s->from > at : !has_more(a) || a->claimed > at || a->is_given_up)
		return NULL;
	while ((!s || s->is_busy) && r == 0) {
		r = pthread_cond_timedwait(&a->changed, &a->lock, &until);
		s = get_first(a);
	}
	if (s && !s->is_busy)
		return s;
	*waitsp = count_wait(a, s);
	return NULL;
}

static size_t find_piece(struct tar_ahead *a, struct segment *s, uint64_t at,
			 const unsigned char **datap)
{
	const struct kept_piece *p;

	for (; a->piece < s->n_pieces; a->piece++) {
		p = &s->pieces[a->piece];
		if (p->at + p->size <= at)
			continue;
		if (p->at > at)
			break;
		*datap = s->data + p->from + (at - p->at);
		return (size_t)(p->size - (at - p->at));
	}
	return 0;
}

ssize_t tar_ahead_peek(struct tar_ahead *a, uint64_t at, uint64_t mean, const unsigned char **datap)
{
	struct segment *s;
	size_t n = 0;
	bool waits;

	atomic_store(&a->mean, mean);
	atomic_store(&a->at, at);
	pthread_mutex_lock(&a->lock);
	pass_segments(a, at);
	s = find_segment(a, at, &waits);
	if (s)
		n = find_piece(a, s, at, datap);
	pthread_mutex_unlock(&a->lock);
	return waits ? -EAGAIN : (ssize_t)n;
}

ssize_t tar_ahead_get(struct tar_ahead *a, uint64_t at, uint64_t mean, const unsigned char **datap)
{
	ssize_t n = tar_ahead_peek(a, at, mean, datap);

	a->n_known += n > 0;
	a->n_not += n == 0;
	return n;
}

uint64_t tar_ahead_count_reads(struct tar_ahead *a)
{
	return atomic_load(&a->n_reads);
}

bool tar_ahead_is_useless(const struct tar_ahead *a)
{
	return a->is_given_up || a->n_not > a->n_known + AHEAD_PATIENCE;
}
