#include "daemon/engines/archive/unzstd.h"

#include <errno.h>
#include <stdbool.h>
#include <string.h>

#include <zstd.h>
#include <zstd_errors.h>

#include "common/util/error.h"
#include "daemon/engines/archive/feed.h"
#include "daemon/engines/archive/stream.h"

#define UNZSTD_WINDOW_LOG 27
#define MAGIC_SIZE 4

struct unzstd {
	struct stream stream;
	struct feed feed;
	ZSTD_DStream *zstd;
	bool begun;    /* a frame was found */
	bool in_frame; /* a frame has begun, and its end was not reached */
};

static int refuse(size_t code, struct error *err)
{
	switch (ZSTD_getErrorCode(code)) {
	case ZSTD_error_memory_allocation:
		return error_set(err, ENOMEM, "out of memory");
	case ZSTD_error_frameParameter_windowTooLarge:
		error_set(err, EINVAL, "the zstd data needs a window of more than %u MiB",
			  (1u << UNZSTD_WINDOW_LOG) >> 20);
		return error_set_hint(err, -EINVAL, "pack it again with --long=%d at most",
				      UNZSTD_WINDOW_LOG);
	case ZSTD_error_dictionary_wrong:
		error_set(err, EINVAL, "the zstd data needs a dictionary to be unpacked");
		return error_set_hint(err, -EINVAL, "pack it again without one");
	default:
		return error_set(err, EBADMSG, "zstd decompression failed: %s",
				 ZSTD_getErrorName(code));
	}
}

/* Runs libzstd on bytes, which need not be the feed's. Returns 0 or -errno. */
static int unzstd_run(struct unzstd *u, ZSTD_inBuffer *in, struct block *b, struct error *err)
{
	ZSTD_outBuffer out = { b->buf, b->capacity, b->size };
	size_t r = ZSTD_decompressStream(u->zstd, &out, in);

	b->size = out.pos;
	if (ZSTD_isError(r))
		return refuse(r, err);
	u->in_frame = r > 0;
	return 0;
}

static bool is_magic(const unsigned char *m)
{
	return !memcmp(m, "\x28\xb5\x2f\xfd", MAGIC_SIZE) ||
	       ((m[0] & 0xf0) == 0x50 && !memcmp(m + 1, "\x2a\x4d\x18", MAGIC_SIZE - 1));
}

/* Called between frames. Returns 1: the next one has begun; 0: there is none; or -errno. */
static int next_frame(struct unzstd *u, struct block *b, struct error *err)
{
	unsigned char magic[MAGIC_SIZE];
	ZSTD_inBuffer in = { magic, MAGIC_SIZE, 0 };
	int r = feed_fill(&u->feed, err);

	if (r < 0 || (r == 0 && u->begun))
		return r;
	if (r > 0 && u->begun && *u->feed.data == 0)
		return feed_finish(&u->feed, "zstd", err);
	r = feed_take(&u->feed, magic, MAGIC_SIZE, err);
	if (r == 0)
		return error_set(err, ENODATA, "truncated zstd input");
	if (r > 0 && !is_magic(magic))
		return feed_refuse_rest("zstd", err);
	u->begun = true;
	if (r > 0)
		r = unzstd_run(u, &in, b, err);
	if (r < 0)
		return r;
	u->in_frame = true;
	return 1;
}

static int unpack_some(struct unzstd *u, struct block *b, struct error *err)
{
	ZSTD_inBuffer in = { 0 };
	size_t before = b->size;
	int more = feed_fill(&u->feed, err), r;

	if (more < 0)
		return more;
	in.src = u->feed.data;
	in.size = u->feed.size;
	r = unzstd_run(u, &in, b, err);
	u->feed.data += in.pos;
	u->feed.size -= in.pos;
	/* at the end of the input, libzstd may still have output */
	if (r == 0 && !more && u->in_frame && b->size == before)
		return error_set(err, ENODATA, "truncated zstd input");
	return r;
}

static int fill(struct unzstd *u, struct block *b, struct error *err)
{
	int r;

	while (b->size < b->capacity) {
		if (u->in_frame) {
			r = unpack_some(u, b, err);
		} else {
			r = next_frame(u, b, err);
			if (r == 0)
				break;
		}
		if (r < 0)
			return r;
	}
	return b->size > 0;
}

static int unzstd_next_block(struct stream *s, struct block **bp, struct error *err)
{
	struct unzstd *u = (struct unzstd *)s;
	struct block *b;
	int r = stream_take_block(s, &b, err);

	if (r < 0)
		return r;
	r = fill(u, b, err);
	if (r > 0)
		*bp = b;
	else
		block_put(b);
	return r;
}

static void unzstd_stop(struct stream *s)
{
	stream_stop(((struct unzstd *)s)->feed.in);
}

static void unzstd_free(struct unzstd *u)
{
	if (u)
		ZSTD_freeDStream(u->zstd);
	free(u);
}

static void unzstd_close(struct stream *s)
{
	struct unzstd *u = (struct unzstd *)s;

	stream_close(u->feed.in);
	unzstd_free(u);
}

int unzstd_new(struct stream **sp, struct stream *in, struct error *err)
{
	static const struct stream_ops ops = {
		.next_block = unzstd_next_block,
		.stop = unzstd_stop,
		.close = unzstd_close,
	};
	struct unzstd *u = calloc(1, sizeof(*u));
	struct block_pool *pool;

	if (!u || !(u->zstd = ZSTD_createDStream()) ||
	    ZSTD_isError(ZSTD_DCtx_setParameter(u->zstd, ZSTD_d_windowLogMax, UNZSTD_WINDOW_LOG)) ||
	    block_pool_new(&pool, STREAM_UNPACKED_BLOCKS, BLOCK_SIZE) < 0) {
		unzstd_free(u);
		return error_set(err, ENOMEM, "out of memory");
	}
	u->stream.ops = &ops;
	u->stream.pool = pool;
	u->feed.in = in;
	*sp = &u->stream;
	return 0;
}
