/*
 * A member of one block is inflated as a whole. For a larger member, a *stream* is kept. It has the
 * inflate state at its cursor, where the last reader stopped, and *points*, which are copies of the
 * state at intervals. One thread at a time inflates a stream, because its readers mostly want the
 * next block. The blocks just before the wanted one also go to the cache, because readers of one
 * file overtake each other.
 *
 * A quarter of the memory is for states. If there are too many, the least recently used stream is
 * freed. If all are in use, a stream frees every second of its points.
 *
 * Each state has the checksum of all bytes before it, so a member's checksum is known whenever its
 * end is inflated.
 */
#include "daemon/engines/image/zip-blocks.h"

#include <errno.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>

#include "common/util/fd.h"
#include "common/util/list.h"
#include "daemon/engines/archive/inflate.h"
#include "daemon/engines/image/sqfs-scratch.h"

enum {
	BLOCKS_PIECE = 32 << 10, /* bytes of the file that are read at once */
	BLOCKS_STATE_PART = 4,	 /* this part of the memory is for states */
	BLOCKS_MIN_STATES = 4,
	BLOCKS_N_BUCKETS = 256,
	BLOCKS_INTERVAL = 32, /* blocks between two points, at first */
	BLOCKS_KEEP = 8,      /* blocks before the wanted one that are kept */
};

/* A place in a member at which inflating can continue. */
struct state {
	struct inflate *inflate; /* NULL: there is no state */
	uint64_t in;		 /* bytes of the file that were used */
	uint64_t out;
	uint32_t crc; /* checksum of the content before out */
};

struct zip_stream {
	uint32_t id;
	struct zip_stream *next; /* in its bucket */
	struct list lru;	 /* while nobody uses it */
	unsigned n_users;
	pthread_mutex_t lock; /* protects the fields below */
	struct state cursor;
	struct state *points; /* point k is k + 1 intervals after the beginning */
	size_t n_points, room;
	uint64_t interval; /* blocks between two points */
};

struct zip_blocks {
	int fd;
	int (*check)(void *arg);
	void *arg;
	struct sqfs_cache *cache;
	pthread_mutex_t lock; /* protects the fields below, and the streams' fields up to n_users */
	struct zip_stream *buckets[BLOCKS_N_BUCKETS];
	struct list lru; /* oldest first */
	size_t n_states, max_states;
};

/* The argument of the sqfs_fill_fn. */
struct fill {
	struct zip_blocks *b;
	const struct zip_member *m;
	struct state *state; /* NULL: begins at the member's beginning */
	bool has_run;
};

/* ---- inflating ---- */

static int read_packed(const struct zip_blocks *b, uint64_t offset, uint8_t *buf, size_t size)
{
	ssize_t n = fd_pread_all(b->fd, buf, size, offset);
	int r = n < 0 ? (int)n : b->check(b->arg);

	if (r < 0)
		return r;
	return (size_t)n < size ? -EIO : 0; /* the file may have become shorter */
}

/* Does one step. Returns 1: there may be more; 0: the end of the stream; or -errno. */
static int inflate_some(struct zip_blocks *b, const struct zip_member *m, struct state *s,
			uint8_t *buf, struct inflate_io *io)
{
	size_t n = m->packed - s->in < BLOCKS_PIECE ? (size_t)(m->packed - s->in) : BLOCKS_PIECE;
	size_t room = io->out_size;
	int r = read_packed(b, m->start + s->in, buf, n);

	if (r < 0)
		return r;
	io->in = buf;
	io->in_size = n;
	r = inflate_run(s->inflate, io, NULL);
	s->in += n - io->in_size;
	if (r == 1 && io->in_size == n && io->out_size == room)
		return -EBADMSG; /* the stream ends too early */
	return r;
}

/* Checks size and checksum after all of the member was inflated. */
static int check_end(struct zip_blocks *b, const struct zip_member *m, struct state *s,
		     uint8_t *buf, int more)
{
	uint8_t none;
	struct inflate_io io = { .out = &none, .out_size = sizeof(none) };

	while (more == 1 && io.out_size > 0)
		more = inflate_some(b, m, s, buf, &io);
	if (more < 0)
		return more;
	return io.out_size == 0 || m->packed - s->in >= INFLATE_AHEAD || s->crc != m->crc ? -EBADMSG
											  : 0;
}

static size_t get_size(const struct zip_member *m, uint64_t out)
{
	return m->size - out < ZIP_BLOCK_SIZE ? (size_t)(m->size - out) : ZIP_BLOCK_SIZE;
}

/* Inflates the next block to the buffer `to`. NULL: its content is dropped. */
static int inflate_block(struct zip_blocks *b, const struct zip_member *m, struct state *s,
			 uint8_t *to)
{
	uint8_t *buf = sqfs_scratch_get(BLOCKS_PIECE + ZIP_BLOCK_SIZE);
	size_t size = get_size(m, s->out);
	struct inflate_io io = { .out_size = size };
	int r = 1;

	if (!buf)
		return -ENOMEM;
	if (!to)
		to = buf + BLOCKS_PIECE;
	io.out = to;
	while (r == 1 && io.out_size > 0)
		r = inflate_some(b, m, s, buf, &io);
	if (r < 0)
		return r;
	if (io.out_size > 0)
		return -EBADMSG;
	s->crc = inflate_add_crc(s->crc, to, size);
	s->out += size;
	if (s->out == m->size)
		return check_end(b, m, s, buf, r);
	return r == 0 ? -EBADMSG : 0;
}

static int fill_block(void *arg, uint64_t key, struct sqfs_block *block)
{
	struct fill *f = arg;
	struct state fresh = { 0 }, *s = f->state ? f->state : &fresh;
	size_t size = get_size(f->m, s->out);
	int r = 0;

	f->has_run = true;
	if (!f->state)
		r = inflate_new_raw(&fresh.inflate);
	if (r == 0)
		r = inflate_block(f->b, f->m, s, block->data);
	inflate_free(fresh.inflate);
	block->size = (uint32_t)size;
	return r;
}

static uint64_t get_key(const struct zip_member *m, uint64_t i)
{
	return (uint64_t)m->id << 32 | i;
}

/* ---- states ---- */

static void state_clear(struct state *s)
{
	inflate_free(s->inflate);
	*s = (struct state){ 0 };
}

static int state_copy(struct state *to, const struct state *from)
{
	*to = *from;
	to->inflate = NULL;
	return from->inflate ? inflate_clone(&to->inflate, from->inflate)
			     : inflate_new_raw(&to->inflate);
}

static void zip_stream_free(struct zip_stream *s)
{
	for (size_t i = 0; i < s->n_points; i++)
		state_clear(&s->points[i]);
	state_clear(&s->cursor);
	free(s->points);
	pthread_mutex_destroy(&s->lock);
	free(s);
}

static struct zip_stream **find_stream(struct zip_blocks *b, uint32_t id)
{
	struct zip_stream **p = &b->buckets[id % BLOCKS_N_BUCKETS];

	while (*p && (*p)->id != id)
		p = &(*p)->next;
	return p;
}

/* Makes room for one more state. Returns false if this is not possible. The lock must be held. */
static bool make_room(struct zip_blocks *b)
{
	while (b->n_states >= b->max_states && !list_is_empty(&b->lru)) {
		struct zip_stream *s = list_entry(b->lru.next, struct zip_stream, lru);

		list_remove(&s->lru);
		*find_stream(b, s->id) = s->next;
		b->n_states -= 1 + s->n_points;
		zip_stream_free(s);
	}
	return b->n_states < b->max_states;
}

/* Adds a stream. Its cursor has a state even if there are too many states. The lock must be
 * held. */
static struct zip_stream *add_stream(struct zip_blocks *b, uint32_t id)
{
	struct zip_stream *s = calloc(1, sizeof(*s)), **p;

	if (!s)
		return NULL;
	s->id = id;
	s->interval = BLOCKS_INTERVAL;
	pthread_mutex_init(&s->lock, NULL);
	list_init(&s->lru);
	make_room(b);
	b->n_states++;
	p = find_stream(b, id);
	*p = s;
	return s;
}

/* Finds or makes the stream, and locks it for this thread until zip_stream_leave(). NULL: no
 * memory. */
static struct zip_stream *zip_stream_enter(struct zip_blocks *b, uint32_t id)
{
	struct zip_stream *s;

	pthread_mutex_lock(&b->lock);
	s = *find_stream(b, id);
	if (!s)
		s = add_stream(b, id);
	else if (s->n_users == 0)
		list_remove(&s->lru);
	if (s)
		s->n_users++;
	pthread_mutex_unlock(&b->lock);
	if (s)
		pthread_mutex_lock(&s->lock);
	return s;
}

static void zip_stream_leave(struct zip_blocks *b, struct zip_stream *s)
{
	pthread_mutex_unlock(&s->lock);
	pthread_mutex_lock(&b->lock);
	if (--s->n_users == 0)
		list_append(&b->lru, &s->lru);
	if (b->n_states > b->max_states)
		make_room(b);
	pthread_mutex_unlock(&b->lock);
}

/* Frees every second point. Returns how many. */
static size_t thin_out(struct zip_stream *s)
{
	size_t n = 0, had = s->n_points;

	for (size_t i = 0; i < had; i++) {
		if (i % 2 == 0)
			state_clear(&s->points[i]);
		else
			s->points[n++] = s->points[i];
	}
	s->n_points = n;
	s->interval *= 2;
	return had - n;
}

/* Reserves room for a point of s, and makes room if necessary. Returns false if there is none. */
static bool reserve_point(struct zip_blocks *b, struct zip_stream *s)
{
	bool has_room;

	pthread_mutex_lock(&b->lock);
	if (!make_room(b))
		b->n_states -= thin_out(s);
	has_room = b->n_states < b->max_states;
	b->n_states += has_room;
	pthread_mutex_unlock(&b->lock);
	return has_room;
}

static bool is_at_point(const struct zip_stream *s)
{
	return s->cursor.out == (s->n_points + 1) * s->interval * ZIP_BLOCK_SIZE;
}

/* Makes a point if the cursor is at the place of the next one. Without memory, there is no
 * point. */
static void add_point(struct zip_blocks *b, struct zip_stream *s)
{
	bool has_room;

	if (!is_at_point(s))
		return;
	if (s->n_points == s->room) {
		size_t room = s->room ? 2 * s->room : 16;
		void *more = reallocarray(s->points, room, sizeof(*s->points));

		if (!more)
			return;
		s->points = more;
		s->room = room;
	}
	has_room = reserve_point(b, s);
	if (has_room && is_at_point(s) && state_copy(&s->points[s->n_points], &s->cursor) == 0) {
		s->n_points++;
	} else if (has_room) {
		pthread_mutex_lock(&b->lock);
		b->n_states--;
		pthread_mutex_unlock(&b->lock);
	}
}

/* Moves the cursor to the nearest state at block i or before it. */
static int move_cursor(struct zip_stream *s, uint64_t i)
{
	const struct state begin = { 0 }, *from = &begin;
	size_t k = i / s->interval < s->n_points ? (size_t)(i / s->interval) : s->n_points;

	if (k > 0)
		from = &s->points[k - 1];
	if (s->cursor.inflate && s->cursor.out <= i * ZIP_BLOCK_SIZE && s->cursor.out >= from->out)
		return 0;
	state_clear(&s->cursor);
	return state_copy(&s->cursor, from);
}

/* Inflates the block at the cursor. keep: to the cache, else its content is dropped. */
static int pass_block(struct zip_blocks *b, struct zip_stream *s, const struct zip_member *m,
		      bool keep, const struct sqfs_block **blockp)
{
	struct fill fill = { .b = b, .m = m, .state = &s->cursor };
	int r = 0;

	*blockp = NULL;
	add_point(b, s);
	if (keep)
		r = sqfs_cache_acquire(b->cache, get_key(m, s->cursor.out / ZIP_BLOCK_SIZE),
				       fill_block, &fill, blockp);
	if (r == 0 && !fill.has_run)
		r = inflate_block(b, m, &s->cursor, NULL);
	if (r < 0)
		sqfs_cache_release(b->cache, steal_ptr(*blockp));
	return r;
}

/* Inflates block i of a stream that this thread has locked. */
static int zip_stream_get(struct zip_blocks *b, struct zip_stream *s, const struct zip_member *m,
			  uint64_t i, const struct sqfs_block **blockp)
{
	const struct sqfs_block *passed;
	int r = move_cursor(s, i);

	while (r == 0 && s->cursor.out < i * ZIP_BLOCK_SIZE) {
		passed = NULL;
		r = pass_block(b, s, m, i - s->cursor.out / ZIP_BLOCK_SIZE <= BLOCKS_KEEP, &passed);
		sqfs_cache_release(b->cache, passed);
	}
	if (r == 0)
		r = pass_block(b, s, m, true, blockp);
	if (r < 0 || s->cursor.out == m->size)
		state_clear(&s->cursor);
	return r;
}

/* ---- blocks ---- */

static size_t get_max_states(size_t memory)
{
	size_t n = memory / BLOCKS_STATE_PART / INFLATE_MEMORY;

	return n > BLOCKS_MIN_STATES ? n : BLOCKS_MIN_STATES;
}

int zip_blocks_new(struct zip_blocks **bp, int fd, int (*check)(void *arg), void *arg,
		   size_t memory)
{
	_cleanup_(zip_blocks_freep) struct zip_blocks *b = calloc(1, sizeof(*b));

	if (!b)
		return -ENOMEM;
	b->fd = fd;
	b->check = check;
	b->arg = arg;
	list_init(&b->lru);
	pthread_mutex_init(&b->lock, NULL);
	b->max_states = get_max_states(memory);
	if (sqfs_cache_new(&b->cache, memory - memory / BLOCKS_STATE_PART, ZIP_BLOCK_SIZE) < 0)
		return -ENOMEM;
	*bp = steal_ptr(b);
	return 0;
}

void zip_blocks_free(struct zip_blocks *b)
{
	if (!b)
		return;
	b->max_states = 0;
	make_room(b);
	sqfs_cache_free(b->cache);
	pthread_mutex_destroy(&b->lock);
	free(b);
}

void zip_blocks_set_memory(struct zip_blocks *b, size_t memory)
{
	sqfs_cache_set_limit(b->cache, memory - memory / BLOCKS_STATE_PART);
	pthread_mutex_lock(&b->lock);
	b->max_states = get_max_states(memory);
	make_room(b);
	pthread_mutex_unlock(&b->lock);
}

int zip_blocks_acquire(struct zip_blocks *b, const struct zip_member *m, uint64_t i,
		       const struct sqfs_block **blockp)
{
	struct fill whole = { .b = b, .m = m };
	struct zip_stream *s;
	int r = 0;

	if (m->size <= ZIP_BLOCK_SIZE)
		return sqfs_cache_acquire(b->cache, get_key(m, 0), fill_block, &whole, blockp);
	*blockp = sqfs_cache_find(b->cache, get_key(m, i));
	if (*blockp)
		return 0;
	s = zip_stream_enter(b, m->id);
	if (!s)
		return -ENOMEM;
	/* another reader has just inflated it */
	*blockp = sqfs_cache_find(b->cache, get_key(m, i));
	if (!*blockp)
		r = zip_stream_get(b, s, m, i, blockp);
	zip_stream_leave(b, s);
	return r;
}

void zip_blocks_release(struct zip_blocks *b, const struct sqfs_block *block)
{
	sqfs_cache_release(b->cache, block);
}
