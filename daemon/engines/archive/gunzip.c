/*
 * libarchive reads gzip without checking its checksum, so a flipped bit in a JPEG file would not be
 * noticed. inflate.h checks it.
 */
#include "daemon/engines/archive/gunzip.h"

#include <errno.h>
#include <stdbool.h>

#include "common/util/cleanup.h"
#include "common/util/error.h"
#include "daemon/engines/archive/feed.h"
#include "daemon/engines/archive/inflate.h"
#include "daemon/engines/archive/stream.h"

#define GUNZIP_COUNT_SIZE (64u << 10)

struct gunzip {
	struct stream stream;
	struct feed feed;
	struct inflate *inflate;
	bool in_member; /* a member has begun, and its end was not reached */
};

/* Called between members. Returns 1 if another member begins, 0 at the end, or -errno. */
static int next_member(struct gunzip *g, struct error *err)
{
	int r = feed_fill(&g->feed, err);

	if (r <= 0)
		return r;
	if (*g->feed.data != 0x1f)
		return feed_finish(&g->feed, "gzip", err);
	inflate_reset(g->inflate);
	g->in_member = true;
	return 1;
}

/* Returns 1: the member continues; 0: it is complete; or -errno. */
static int inflate_some(struct gunzip *g, struct block *b, struct error *err)
{
	struct inflate_io io = { .out = b->buf + b->size, .out_size = b->capacity - b->size };
	int more = feed_fill(&g->feed, err), r;

	if (more < 0)
		return more;
	io.in = g->feed.data;
	io.in_size = g->feed.size;
	r = inflate_run(g->inflate, &io, err);
	g->feed.data = io.in;
	g->feed.size = io.in_size;
	/* at the end of the input, the inflater may still have output */
	if (r > 0 && !more && b->size == b->capacity - io.out_size)
		return error_set(err, ENODATA, "gzip data without its end");
	b->size = b->capacity - io.out_size;
	return r;
}

static int fill(struct gunzip *g, struct block *b, struct error *err)
{
	int r;

	while (b->size < b->capacity) {
		if (!g->in_member) {
			r = next_member(g, err);
			if (r < 0)
				return r;
			if (r == 0)
				break;
		}
		r = inflate_some(g, b, err);
		if (r < 0)
			return r;
		g->in_member = r > 0;
	}
	return b->size > 0;
}

static int gunzip_next_block(struct stream *s, struct block **bp, struct error *err)
{
	struct gunzip *g = (struct gunzip *)s;
	struct block *b;
	int r = stream_take_block(s, &b, err);

	if (r < 0)
		return r;
	r = fill(g, b, err);
	if (r > 0)
		*bp = b;
	else
		block_put(b);
	return r;
}

static void gunzip_stop(struct stream *s)
{
	stream_stop(((struct gunzip *)s)->feed.in);
}

static void gunzip_free(struct gunzip *g)
{
	if (g)
		inflate_free(g->inflate);
	free(g);
}

static void gunzip_close(struct stream *s)
{
	struct gunzip *g = (struct gunzip *)s;

	stream_close(g->feed.in);
	gunzip_free(g);
}

int gunzip_new(struct stream **sp, struct stream *in, struct error *err)
{
	static const struct stream_ops ops = {
		.next_block = gunzip_next_block,
		.stop = gunzip_stop,
		.close = gunzip_close,
	};
	struct gunzip *g = calloc(1, sizeof(*g));
	struct block_pool *pool;

	if (!g || inflate_new(&g->inflate) < 0 ||
	    block_pool_new(&pool, STREAM_UNPACKED_BLOCKS, BLOCK_SIZE) < 0) {
		gunzip_free(g);
		return error_set(err, ENOMEM, "out of memory");
	}
	g->stream.ops = &ops;
	g->stream.pool = pool;
	g->feed.in = in;
	g->in_member = true;
	*sp = &g->stream;
	return 0;
}

uint64_t gunzip_count(const void *data, size_t size, uint64_t max, uint64_t *usedp)
{
	_cleanup_(freep) unsigned char *out = malloc(GUNZIP_COUNT_SIZE);
	_cleanup_(inflate_freep) struct inflate *inflate = NULL;
	struct inflate_io io = { .in = data, .in_size = size };
	uint64_t sum = 0;
	size_t made = 1;
	int r = 1;

	*usedp = 0;
	if (!out || inflate_new(&inflate) < 0)
		return 0;
	/* when all input is used, the next call returns the rest of the output */
	while (r == 1 && sum < max && (io.in_size > 0 || made > 0)) {
		io.out = out;
		io.out_size = GUNZIP_COUNT_SIZE;
		r = inflate_run(inflate, &io, NULL);
		made = GUNZIP_COUNT_SIZE - io.out_size;
		sum += made;
	}
	*usedp = size - io.in_size;
	return sum;
}
