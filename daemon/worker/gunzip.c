/*
 * libarchive reads gzip without looking at its checksum: a flipped bit in a picture would be staged
 * as it is. zlib looks.
 */
#include "daemon/worker/gunzip.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>

#include <zlib.h>

#include "common/cleanup.h"
#include "common/error.h"
#include "daemon/worker/stream.h"

#define GUNZIP_OUT_SIZE (1u << 20)
#define GUNZIP_WINDOW (15 + 16) /* the largest, and a gzip header */

struct gunzip {
	struct stream stream;
	struct stream *in;
	z_stream z;
	bool in_member; /* the end of the one that has begun has not come */
	bool in_padding;
	unsigned char out[GUNZIP_OUT_SIZE];
};

/* More to inflate. 1, 0 at the end of in, -errno. */
static int refill(struct gunzip *g, struct error *err)
{
	const void *data;
	ssize_t n;

	if (g->z.avail_in > 0)
		return 1;
	n = stream_next(g->in, &data, err);
	if (n <= 0)
		return (int)n;
	g->z.next_in = (unsigned char *)data; /* zlib does not write there */
	g->z.avail_in = (uInt)n;
	return 1;
}

/* Between members: 1 if another begins, 0 at the end. */
static int next_member(struct gunzip *g, struct error *err)
{
	int r;

	while ((r = refill(g, err)) > 0) {
		if (*g->z.next_in == 0) {
			g->in_padding = true;
			g->z.next_in++;
			g->z.avail_in--;
			continue;
		}
		if (g->in_padding || *g->z.next_in != 0x1f)
			return error_set(err, EBADMSG, "rubbish behind the gzip data");
		if (inflateReset(&g->z) != Z_OK)
			return error_set(err, ENOMEM, "out of memory");
		g->in_member = true;
		return 1;
	}
	return r;
}

/* Fills out. 1: goes on, 0: the member is complete, -errno. */
static int inflate_some(struct gunzip *g, struct error *err)
{
	int r = refill(g, err);

	if (r < 0)
		return r;
	if (r == 0)
		return error_set(err, ENODATA, "gzip data without its end");
	switch (inflate(&g->z, Z_NO_FLUSH)) {
	case Z_OK:
	case Z_BUF_ERROR: /* no progress: more input is needed */
		return 1;
	case Z_STREAM_END:
		g->in_member = false;
		return 0;
	case Z_MEM_ERROR:
		return error_set(err, ENOMEM, "out of memory");
	default:
		return error_set(err, EBADMSG, "gzip: %s", g->z.msg ? g->z.msg : "bad data");
	}
}

static ssize_t gunzip_next(struct stream *s, const void **datap, struct error *err)
{
	struct gunzip *g = (struct gunzip *)s;
	int r;

	g->z.next_out = g->out;
	g->z.avail_out = sizeof(g->out);
	while (g->z.avail_out > 0) {
		if (!g->in_member) {
			r = next_member(g, err);
			if (r < 0)
				return r;
			if (r == 0)
				break;
		}
		r = inflate_some(g, err);
		if (r < 0)
			return r;
	}
	*datap = g->out;
	return (ssize_t)(sizeof(g->out) - g->z.avail_out);
}

static void gunzip_stop(struct stream *s)
{
	stream_stop(((struct gunzip *)s)->in);
}

static void gunzip_close(struct stream *s)
{
	struct gunzip *g = (struct gunzip *)s;

	inflateEnd(&g->z);
	stream_close(g->in);
	free(g);
}

int gunzip_new(struct stream **sp, struct stream *in, struct error *err)
{
	static const struct stream_ops ops = { .next = gunzip_next,
					       .stop = gunzip_stop,
					       .close = gunzip_close };
	struct gunzip *g = calloc(1, sizeof(*g));

	if (!g || inflateInit2(&g->z, GUNZIP_WINDOW) != Z_OK) {
		free(g);
		return error_set(err, ENOMEM, "out of memory");
	}
	g->stream.ops = &ops;
	g->in = in;
	g->in_member = true;
	*sp = &g->stream;
	return 0;
}

uint64_t gunzip_count(const void *data, size_t size, uint64_t max, uint64_t *usedp)
{
	z_stream z = { .next_in = (unsigned char *)data, .avail_in = (uInt)size };
	_cleanup_(freep) unsigned char *out = malloc(GUNZIP_OUT_SIZE);
	uint64_t sum = 0;
	int r = Z_OK;

	*usedp = 0;
	if (!out || inflateInit2(&z, GUNZIP_WINDOW) != Z_OK)
		return 0;
	while (r == Z_OK && sum < max) {
		z.next_out = out;
		z.avail_out = GUNZIP_OUT_SIZE;
		r = inflate(&z, Z_NO_FLUSH);
		sum += GUNZIP_OUT_SIZE - z.avail_out;
	}
	*usedp = size - z.avail_in;
	inflateEnd(&z);
	return sum;
}
