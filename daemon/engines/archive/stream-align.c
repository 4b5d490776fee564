/*
 * The input has blocks of any size; the sizes of the output's blocks are multiples of STREAM_ALIGN.
 * A block that fits is passed on. After a block that does not, bytes are copied into new blocks
 * until a block fits again.
 */
#include <errno.h>
#include <string.h>

#include "common/util/error.h"
#include "daemon/engines/archive/stream.h"

struct aligned_stream {
	struct stream stream;
	struct stream *in;
	struct block *held; /* bytes before `at` were copied */
	size_t at;
	bool ended;
	unsigned char odd[STREAM_ALIGN]; /* the rest of a block that was passed on */
	size_t odd_size;
};

/* Returns 1: held has more bytes; 0: the end; or -errno. */
static int hold(struct aligned_stream *a, struct error *err)
{
	int r;

	if (a->held && a->at < a->held->size)
		return 1;
	block_put(steal_ptr(a->held));
	if (a->ended)
		return 0;
	r = stream_next_block(a->in, &a->held, err);
	a->ended = r <= 0;
	a->at = 0;
	return r;
}

/* Passes on the aligned part of the held block, if nothing of the block was copied. Returns false
 * if there is no such part. */
static bool pass_on(struct aligned_stream *a, struct block **bp)
{
	struct block *b = a->held;
	size_t odd = b->size % STREAM_ALIGN;

	if (b->size < STREAM_ALIGN)
		return false;
	b->size -= odd;
	memcpy(a->odd, b->data + b->size, odd);
	a->odd_size = odd;
	*bp = steal_ptr(a->held);
	return true;
}

static int copy(struct aligned_stream *a, struct block *b, struct error *err)
{
	size_t n;
	int r = 1;

	memcpy(b->buf, a->odd, a->odd_size);
	b->size = a->odd_size;
	a->odd_size = 0;
	while (b->size < b->capacity && (r = hold(a, err)) > 0) {
		n = a->held->size - a->at;
		n = n < b->capacity - b->size ? n : b->capacity - b->size;
		memcpy(b->buf + b->size, a->held->data + a->at, n);
		b->size += n;
		a->at += n;
	}
	return r < 0 ? r : b->size > 0;
}

static int aligned_next_block(struct stream *s, struct block **bp, struct error *err)
{
	struct aligned_stream *a = (struct aligned_stream *)s;
	struct block *b;
	int r;

	if (a->odd_size == 0) {
		r = hold(a, err);
		if (r <= 0)
			return r;
		if (a->at == 0 && pass_on(a, bp))
			return 1;
	}
	r = stream_take_block(s, &b, err);
	if (r < 0)
		return r;
	r = copy(a, b, err);
	if (r > 0)
		*bp = b;
	else
		block_put(b);
	return r;
}

static void aligned_stop(struct stream *s)
{
	stream_stop(((struct aligned_stream *)s)->in);
}

static void aligned_close(struct stream *s)
{
	struct aligned_stream *a = (struct aligned_stream *)s;

	block_put(a->held);
	stream_close(a->in);
	free(a);
}

int stream_new_aligned(struct stream **sp, struct stream *in, struct error *err)
{
	static const struct stream_ops ops = {
		.next_block = aligned_next_block,
		.stop = aligned_stop,
		.close = aligned_close,
	};
	struct aligned_stream *a = calloc(1, sizeof(*a));
	struct block_pool *pool;

	if (!a || block_pool_new(&pool, STREAM_MIN_BLOCKS, BLOCK_SIZE) < 0) {
		free(a);
		return error_set(err, ENOMEM, "out of memory");
	}
	a->stream.ops = &ops;
	a->stream.pool = pool;
	a->in = in;
	*sp = &a->stream;
	return 0;
}
