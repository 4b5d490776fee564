/*
 * Functions for all streams, and the stream of bytes in memory. A stream that lends pieces gets a
 * pool of blocks when a block is requested for the first time, and its pieces are copied to blocks.
 * A stream that returns blocks lends them one at a time.
 */
#include "daemon/engines/archive/stream.h"

#include <errno.h>
#include <string.h>

#include "common/util/error.h"

static int ensure_pool(struct stream *s)
{
	struct block_pool *pool = atomic_load(&s->pool);
	int r;

	if (pool)
		return 0;
	r = block_pool_new(&pool, STREAM_MIN_BLOCKS, BLOCK_SIZE);
	if (r < 0)
		return r;
	atomic_store(&s->pool, pool);
	if (atomic_load(&s->stopped))
		block_pool_stop(pool);
	return 0;
}

/* Gets more bytes to rest. Returns 1, 0 at the end, or -errno. */
static int refill(struct stream *s, struct error *err)
{
	ssize_t n;

	if (s->rest_size > 0)
		return 1;
	if (s->ended)
		return 0;
	n = s->ops->next(s, (const void **)&s->rest, err);
	if (n <= 0) {
		s->ended = true;
		return (int)n;
	}
	s->rest_size = (size_t)n;
	return 1;
}

static int copy_to_block(struct stream *s, struct block *b, struct error *err)
{
	size_t n;
	int r = 1;

	while (b->size < b->capacity && (r = refill(s, err)) > 0) {
		n = b->capacity - b->size;
		n = s->rest_size < n ? s->rest_size : n;
		memcpy(b->buf + b->size, s->rest, n);
		b->size += n;
		s->rest += n;
		s->rest_size -= n;
	}
	return r < 0 ? r : b->size > 0;
}

int stream_take_block(struct stream *s, struct block **bp, struct error *err)
{
	int r = block_pool_take(atomic_load(&s->pool), bp);

	if (r == -ECANCELED)
		return error_set(err, ECANCELED, "stopped");
	return r < 0 ? error_set(err, -r, "out of memory") : 0;
}

int stream_next_block(struct stream *s, struct block **bp, struct error *err)
{
	struct block *b;
	int r;

	if (s->ops->next_block)
		return s->ops->next_block(s, bp, err);
	r = ensure_pool(s);
	if (r < 0)
		return error_set(err, ENOMEM, "out of memory");
	r = stream_take_block(s, &b, err);
	if (r < 0)
		return r;
	r = copy_to_block(s, b, err);
	if (r > 0)
		*bp = b;
	else
		block_put(b);
	return r;
}

void stream_leave(struct stream *s, uint64_t n, bool needed)
{
	if (s->ops->leave && n >= STREAM_LEAVE_MIN)
		s->ops->leave(s, n, needed);
}

bool stream_is_ready(struct stream *s)
{
	return s->ops->is_ready && s->ops->is_ready(s);
}

bool stream_take_back(struct stream *s, size_t back, uint64_t n)
{
	return s->ops->take_back && n >= STREAM_TAKE_BACK_MIN && s->ops->take_back(s, back, n);
}

ssize_t stream_next(struct stream *s, const void **datap, struct error *err)
{
	int r;

	if (s->ops->next)
		return s->ops->next(s, datap, err);
	block_put(steal_ptr(s->lent));
	r = s->ops->next_block(s, &s->lent, err);
	if (r <= 0)
		return r;
	*datap = s->lent->data;
	return (ssize_t)s->lent->size;
}

void stream_stop(struct stream *s)
{
	struct block_pool *pool;

	atomic_store(&s->stopped, true);
	pool = atomic_load(&s->pool);
	if (pool)
		block_pool_stop(pool);
	if (s->ops->stop)
		s->ops->stop(s);
}

void stream_close(struct stream *s)
{
	struct block_pool *pool;

	if (!s)
		return;
	pool = atomic_load(&s->pool);
	block_put(s->lent);
	s->ops->close(s); /* waits for threads that may use the pool */
	block_pool_free(pool);
}

int stream_drain(struct stream *s, struct error *err)
{
	struct block *b;
	int r;

	while ((r = stream_next_block(s, &b, err)) > 0)
		block_put(b);
	return r;
}

/* ---- memory ---- */

struct memory_stream {
	struct stream stream;
	const char *data;
	size_t size, step;
};

static ssize_t memory_next(struct stream *s, const void **datap, struct error *err)
{
	struct memory_stream *m = (struct memory_stream *)s;
	size_t n = m->step && m->step < m->size ? m->step : m->size;

	*datap = m->data;
	m->data += n;
	m->size -= n;
	return (ssize_t)n;
}

static void memory_close(struct stream *s)
{
	free(s);
}

int stream_new_memory(struct stream **sp, const void *data, size_t size, size_t step)
{
	static const struct stream_ops ops = { .next = memory_next, .close = memory_close };
	struct memory_stream *m = calloc(1, sizeof(*m));

	if (!m)
		return -ENOMEM;
	*m = (struct memory_stream){ { &ops }, data, size, step };
	*sp = &m->stream;
	return 0;
}
