/*
 * libarchive stops reading at the end of the compressed data. So the rest of the input is read
 * here, and must consist of zeros.
 */
#include "daemon/engines/archive/decompress.h"

#include <errno.h>

#include "common/util/error.h"
#include "daemon/engines/archive/decode.h"
#include "daemon/engines/archive/feed.h"
#include "daemon/engines/archive/gunzip.h"
#include "daemon/engines/archive/stream.h"
#include "daemon/engines/archive/unlz4.h"
#include "daemon/engines/archive/unzstd.h"

/* A stream between the source and libarchive. It records the number of bytes, and the place of the
 * last byte that is not zero. */
struct tap {
	struct stream stream;
	struct stream *in;
	uint64_t lent, end; /* offset after the lent bytes, and after the last byte that is not
			     * zero */
};

static size_t trim_zeros(const unsigned char *p, size_t n)
{
	while (n > 0 && p[n - 1] == 0)
		n--;
	return n;
}

static ssize_t tap_next(struct stream *s, const void **datap, struct error *err)
{
	struct tap *t = (struct tap *)s;
	ssize_t n = stream_next(t->in, datap, err);
	size_t used;

	if (n <= 0)
		return n;
	used = trim_zeros(*datap, (size_t)n);
	if (used > 0)
		t->end = t->lent + used;
	t->lent += (uint64_t)n;
	return n;
}

static void tap_stop(struct stream *s)
{
	stream_stop(((struct tap *)s)->in);
}

static void tap_close(struct stream *s)
{
	struct tap *t = (struct tap *)s;

	stream_close(t->in);
	free(t);
}

static int tap_new(struct tap **tp, struct stream *in, struct error *err)
{
	static const struct stream_ops ops = {
		.next = tap_next,
		.stop = tap_stop,
		.close = tap_close,
	};
	struct tap *t = calloc(1, sizeof(*t));

	if (!t)
		return error_set(err, ENOMEM, "out of memory");
	t->stream.ops = &ops;
	t->in = in;
	*tp = t;
	return 0;
}

struct rest_checker {
	struct stream stream;
	struct stream *in; /* the stream of decode_decompress() */
	struct tap *tap;   /* the tap, which in owns */
	enum facts_filter filter;
};

static int check_rest(struct rest_checker *c, struct error *err)
{
	uint64_t consumed = decode_get_consumed(c->in);
	const void *data;
	ssize_t n;

	do {
		n = stream_next(&c->tap->stream, &data, err);
	} while (n > 0);
	if (n < 0)
		return (int)n;
	return c->tap->end > consumed ? feed_refuse_rest(facts_filter_to_string(c->filter), err)
				      : 0;
}

static ssize_t checked_next(struct stream *s, const void **datap, struct error *err)
{
	struct rest_checker *c = (struct rest_checker *)s;
	ssize_t n = stream_next(c->in, datap, err);

	return n != 0 ? n : check_rest(c, err);
}

static void checked_stop(struct stream *s)
{
	stream_stop(((struct rest_checker *)s)->in);
	stream_stop(&((struct rest_checker *)s)->tap->stream);
}

static void checked_close(struct stream *s)
{
	struct rest_checker *c = (struct rest_checker *)s;

	stream_close(c->in); /* also closes the tap */
	free(c);
}

static int checked_new(struct stream **sp, struct stream *in, enum facts_filter filter,
		       struct error *err)
{
	static const struct stream_ops ops = {
		.next = checked_next,
		.stop = checked_stop,
		.close = checked_close,
	};
	struct rest_checker *c = calloc(1, sizeof(*c));
	int r;

	if (!c)
		return error_set(err, ENOMEM, "out of memory");
	r = tap_new(&c->tap, in, err);
	if (r == 0)
		r = decode_decompress(&c->in, &c->tap->stream, FILTER_NONE, err);
	if (r < 0) {
		free(c->tap);
		free(c);
		return r;
	}
	c->stream.ops = &ops;
	c->filter = filter;
	*sp = &c->stream;
	return 0;
}

int decompress_new(struct stream **sp, struct stream *in, enum facts_filter filter,
		   struct error *err)
{
	if (filter == FILTER_GZIP)
		return gunzip_new(sp, in, err);
	if (filter == FILTER_ZSTD)
		return unzstd_new(sp, in, err);
	if (filter == FILTER_LZ4)
		return unlz4_new(sp, in, err);
	return checked_new(sp, in, filter, err);
}
