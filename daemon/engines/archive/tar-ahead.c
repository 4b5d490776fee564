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
 *
 * If the file is in the page cache, reads take no time, and each header is a read of its own. Then
 * the threads compute checksums only to find a header, in a segment or in the content of a member,
 * because the walk computes them again. Before the walk waits for a segment then, it works on the
 * next ones itself, as long as headers can be searched and reads stay fast.
 */
#include "daemon/engines/archive/tar-ahead.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "common/util/buffer.h"
#include "daemon/engines/archive/tar-explore.h"
#include "daemon/engines/archive/timed-cond.h"
#include "daemon/engines/archive/untar-header.h"

enum {
	AHEAD_MEMBERS = 128,	  /* approximate number of members in a segment, at most */
	AHEAD_FAST_MEMBERS = 512, /* the same if reads take no time */
	AHEAD_MIN_MEMBERS = 16,
	AHEAD_BLOCKS = 640, /* maximum number of blocks that are kept of a segment */
	AHEAD_STACK = 256 << 10,
	AHEAD_MAX_THREADS = 32,
	AHEAD_SEGMENTS = 2,	 /* for each thread */
	AHEAD_FAST_SEGMENTS = 4, /* the same if reads take no time, and for the walk */
	AHEAD_MAX_SEGMENTS = AHEAD_MAX_THREADS * AHEAD_SEGMENTS,
	AHEAD_MIN_SEGMENT = 1 << 20,
	AHEAD_MAX_SEGMENT = 512 << 20,
	AHEAD_MAX_MEAN = AHEAD_MAX_SEGMENT / AHEAD_MEMBERS,
	AHEAD_PATIENCE = 256, /* allowed unknown places, in addition to one for each known one */
	AHEAD_MAX_WAITS = 50, /* waits of TAR_AHEAD_WAIT_MS without a read of the thread */
	AHEAD_END_MS = 1000,  /* time for the threads to end */
	AHEAD_FIRST = 1,      /* number of the first segment; 0 is that of a chain_end not known */
};

/* Where the chain of headers in a segment has led. */
struct chain_end {
	size_t n;	    /* number of the segment after this one; 0: not known yet */
	uint64_t at;	    /* the next header; UINT64_MAX: the chain was broken */
	uint64_t inner_end; /* see struct explorer */
};

struct tar_ahead {
	struct explore_common common;
	pthread_mutex_t lock;
	pthread_cond_t changed;
	bool closed;
	uint64_t claimed;   /* bytes of the file before this are in segments */
	size_t first, next; /* the walk's segment and the next one, modulo n_segments */
	size_t n_threads, n_running, n_segments;
	bool is_given_up;      /* no thread takes segments, so the walk does not wait for them */
	bool is_orphan;	       /* the last thread frees everything */
	_Atomic bool is_blind; /* the last search could not be made; also before the first one */
	/* only for the walk: */
	size_t piece;		 /* piece of the first segment that is needed next */
	uint64_t n_known, n_not; /* requested headers that were known, and that were not */
	struct segment *held;	 /* the first segment, if it is complete; NULL: ask */
	unsigned n_waits;	 /* waits for the first segment without a read */
	uint64_t seen_reads;	 /* number of its reads at the last wait */
	struct reader reader;	 /* buf is NULL: the walk works on no segment */
	struct segment *segments[AHEAD_MAX_SEGMENTS];
	struct chain_end ends[AHEAD_MAX_SEGMENTS]; /* modulo n_segments */
};

/* ---- a segment ---- */

/* Waits for the segment before, and goes to the header to which it has led. If this is not known,
 * waits for the walk and goes to its position. Returns false if the walk is already past the
 * segment, or if the walk itself would have to wait. */
static bool join_chain(struct tar_ahead *a, struct explorer *e)
{
	size_t n = e->segment->number;
	const struct chain_end *end = &a->ends[n % a->n_segments];
	bool is_known, is_first, waits = e->reader != &a->reader;

	pthread_mutex_lock(&a->lock);
	while (waits && !a->closed && a->first < n && (end->n != n || end->at == UINT64_MAX))
		pthread_cond_wait(&a->changed, &a->lock);
	is_known = end->n == n && end->at < UINT64_MAX;
	is_first = a->first == n;
	e->at = is_known ? end->at : atomic_load(&a->common.at);
	e->inner_end = is_known ? end->inner_end : 0;
	pthread_mutex_unlock(&a->lock);
	e->searched = 0;
	return is_known || is_first;
}

/* Reads the headers of a segment. The first segment begins with a header; in another one, a header
 * is searched. Where reads take no time, the content of members may not be in memory, or they may
 * be very large: then a search would take longer than to wait for the segment before. The walk does
 * not wait there: it reads the segment when it comes to it. */
static void explore(struct tar_ahead *a, struct segment *s, struct reader *reader,
		    struct chain_end *end)
{
	struct explorer e = { .common = &a->common, .reader = reader, .segment = s, .at = s->from };
	const bool searches = a->common.options.is_fast && s->number > AHEAD_FIRST;

	if (searches) {
		e.searched = UNTAR_BLOCK;
		e.is_blind = atomic_load(&a->common.mean) > AHEAD_MAX_MEAN;
	}
	if (!e.is_blind)
		explorer_follow(&e);
	e.is_blind = e.is_blind && s->n_pieces == 0;
	if (searches)
		atomic_store(&a->is_blind, e.is_blind);
	s->is_postponed = e.is_blind && !join_chain(a, &e);
	if (e.is_blind && !s->is_postponed)
		explorer_follow(&e);
	*end = (struct chain_end){ s->number + 1, e.at >= s->end ? e.at : UINT64_MAX, e.inner_end };
}

/* ---- threads ---- */

/* At the end of the file, segments are smaller, so that all threads and the walk have one. */
static uint64_t get_segment_size(const struct tar_ahead *a)
{
	uint64_t n_workers = a->n_threads + a->common.options.is_fast; /* and the walk */
	uint64_t mean = atomic_load(&a->common.mean),
		 n = (a->common.options.size - a->claimed) / n_workers;
	uint64_t most = a->common.options.is_fast ? AHEAD_FAST_MEMBERS : AHEAD_MEMBERS;

	if (a->common.options.segment_size)
		return a->common.options.segment_size;
	n = n > mean * AHEAD_MIN_MEMBERS ? n : mean * AHEAD_MIN_MEMBERS;
	n = n < mean * most ? n : mean * most;
	n = n < AHEAD_MIN_SEGMENT ? AHEAD_MIN_SEGMENT : n;
	return n & ~(uint64_t)(UNTAR_BLOCK - 1);
}

/* Returns true if there are more segments. If reads are slow and members are large, the walk reads
 * the headers alone. */
static bool has_more(struct tar_ahead *a)
{
	if (a->claimed < atomic_load(&a->common.at))
		a->claimed = atomic_load(&a->common.at);
	return a->claimed < a->common.options.size &&
	       (a->common.options.is_fast || atomic_load(&a->common.mean) <= AHEAD_MAX_MEAN);
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
	if (size > a->common.options.size - a->claimed)
		size = a->common.options.size - a->claimed;
	atomic_store(&s->n_reads, 0);
	s->from = a->claimed;
	a->claimed = s->end = s->from + size;
	s->n_pieces = s->n_data = 0;
	s->is_busy = true;
	s->is_postponed = false;
	s->number = a->next++;
	return s;
}

static void destroy(struct tar_ahead *a)
{
	pthread_cond_destroy(&a->changed);
	pthread_mutex_destroy(&a->lock);
	for (size_t i = 0; i < a->n_segments; i++)
		segment_free(a->segments[i]);
	reader_deinit(&a->reader, &a->common.options);
	free(a);
}

/* Ends a thread's work on a segment. a must be locked. */
static void give_back(struct tar_ahead *a, struct segment *s, const struct chain_end *end)
{
	a->ends[end->n % a->n_segments] = *end;
	s->is_busy = false;
	if (s->is_left)
		segment_free(s);
	pthread_cond_broadcast(&a->changed);
}

/* Works on a segment that was claimed. */
static void work(struct tar_ahead *a, struct segment *s, struct reader *reader,
		 struct chain_end *end)
{
	*end = (struct chain_end){ s->number + 1, UINT64_MAX, 0 };
	if (reader->buf && !s->data)
		s->data = buffer_new(a->common.max_data);
	if (reader->buf && s->data)
		explore(a, s, reader, end);
}

static void *ahead_thread(void *arg)
{
	struct tar_ahead *a = arg;
	struct reader reader;
	struct chain_end end;
	struct segment *s;
	bool is_last;

	reader_init(&reader, &a->common.options);
	pthread_mutex_lock(&a->lock);
	while (!a->closed) {
		s = claim(a);
		if (!s) {
			pthread_cond_wait(&a->changed, &a->lock);
			continue;
		}
		pthread_mutex_unlock(&a->lock);
		work(a, s, &reader, &end);
		pthread_mutex_lock(&a->lock);
		give_back(a, s, &end);
	}
	pthread_mutex_unlock(&a->lock);
	reader_deinit(&reader, &a->common.options); /* before the walk knows that it has ended */
	pthread_mutex_lock(&a->lock);
	is_last = --a->n_running == 0 && a->is_orphan;
	pthread_cond_broadcast(&a->changed);
	pthread_mutex_unlock(&a->lock);
	if (is_last)
		destroy(a);
	return NULL;
}

/* Lets the walk work on a segment. a must be locked. */
static void work_as_walk(struct tar_ahead *a, struct segment *s)
{
	struct chain_end end;

	s->is_busy = true;
	pthread_mutex_unlock(&a->lock);
	work(a, s, &a->reader, &end);
	pthread_mutex_lock(&a->lock);
	give_back(a, s, &end);
}

/* Lets the walk work on the next segment. a must be locked. Returns false if there is none, if
 * reads have become slow, or if headers cannot be searched, so that it would have to wait there. */
static bool help(struct tar_ahead *a)
{
	struct segment *s = NULL;

	if (a->reader.buf && !atomic_load(&a->common.is_slow) &&
	    (a->next == AHEAD_FIRST || !atomic_load(&a->is_blind)))
		s = claim(a);
	if (s)
		work_as_walk(a, s);
	return s;
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
	while (a->n_threads < a->common.options.n_threads && a->n_threads < AHEAD_MAX_THREADS &&
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
	a->common.options = *options;
	a->n_segments = options->is_fast ? AHEAD_FAST_SEGMENTS * (options->n_threads + 1)
					 : AHEAD_SEGMENTS * options->n_threads;
	if (a->n_segments > AHEAD_MAX_SEGMENTS)
		a->n_segments = AHEAD_MAX_SEGMENTS;
	a->common.max_data = (size_t)UNTAR_BLOCK *
			     (options->is_fast ? EXPLORE_MAX_BLOCKS : AHEAD_BLOCKS);
	a->claimed = at;
	a->first = a->next = AHEAD_FIRST;
	atomic_init(&a->common.at, at);
	atomic_init(&a->common.mean, mean);
	atomic_init(&a->is_blind, true);
	a->reader.fd = options->fd;
	if (options->is_fast)
		reader_init(&a->reader, options);
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
	atomic_store(&a->common.at, UINT64_MAX); /* makes all threads end */
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
	a->held = NULL;
	a->piece = 0;
	a->n_waits = 0;
}

static struct segment *get_first(struct tar_ahead *a)
{
	return a->first < a->next ? *get_slot(a, a->first) : NULL;
}

static void pass_segments(struct tar_ahead *a, uint64_t at)
{
	bool wakes = a->first == a->next;

	for (; a->first < a->next && get_first(a)->end <= at; wakes = true)
		leave_first(a);
	if (wakes)
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
	pthread_cond_broadcast(&a->changed);
	return false;
}

static bool is_past(const struct timespec *until)
{
	struct timespec now = timed_cond_get_end(0);

	return now.tv_sec > until->tv_sec ||
	       (now.tv_sec == until->tv_sec && now.tv_nsec >= until->tv_nsec);
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
		if (is_past(&until) || !help(a))
			r = pthread_cond_timedwait(&a->changed, &a->lock, &until);
		s = get_first(a);
	}
	if (s && !s->is_busy && s->is_postponed)
		work_as_walk(a, s);
	if (s && !s->is_busy) {
		a->held = s;
		return s;
	}
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

	/* The threads are not told of places in a complete segment: none of them works on it, and
	 * each change of these numbers makes their next look at them wait for the memory. */
	if (a->held && at >= a->held->from && at < a->held->end)
		return (ssize_t)find_piece(a, a->held, at, datap);
	atomic_store_explicit(&a->common.mean, mean, memory_order_relaxed);
	atomic_store_explicit(&a->common.at, at, memory_order_relaxed);
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
	return atomic_load(&a->common.n_reads);
}

bool tar_ahead_is_slow(struct tar_ahead *a)
{
	return atomic_load(&a->common.is_slow);
}

bool tar_ahead_is_useless(const struct tar_ahead *a)
{
	return a->is_given_up || a->n_not > a->n_known + AHEAD_PATIENCE;
}
