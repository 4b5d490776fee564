#include "daemon/engines/archive/inflate.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>

#include <zlib.h>

#include "common/util/error.h"

#define INFLATE_GZIP (15 + 16) /* the largest window, and a gzip header */
#define INFLATE_RAW (-15)

struct inflate {
	z_stream z;
};

static int inflate_make(struct inflate **ip, int window)
{
	struct inflate *i = calloc(1, sizeof(*i));

	if (!i || inflateInit2(&i->z, window) != Z_OK) {
		free(i);
		return -ENOMEM;
	}
	*ip = i;
	return 0;
}

int inflate_new(struct inflate **ip)
{
	return inflate_make(ip, INFLATE_GZIP);
}

int inflate_new_raw(struct inflate **ip)
{
	return inflate_make(ip, INFLATE_RAW);
}

int inflate_clone(struct inflate **copyp, const struct inflate *i)
{
	struct inflate *copy = calloc(1, sizeof(*copy));

	if (!copy || inflateCopy(&copy->z, (z_stream *)&i->z) != Z_OK) {
		free(copy);
		return -ENOMEM;
	}
	*copyp = copy;
	return 0;
}

void inflate_free(struct inflate *i)
{
	if (!i)
		return;
	inflateEnd(&i->z);
	free(i);
}

void inflate_reset(struct inflate *i)
{
	inflateReset(&i->z);
}

static uInt clamp(size_t n)
{
	return n < INT_MAX ? (uInt)n : INT_MAX;
}

int inflate_run(struct inflate *i, struct inflate_io *io, struct error *err)
{
	z_stream *z = &i->z;
	int r;

	z->next_in = (unsigned char *)io->in; /* zlib does not write there */
	z->avail_in = clamp(io->in_size);
	z->next_out = io->out;
	z->avail_out = clamp(io->out_size);
	r = inflate(z, Z_NO_FLUSH);
	io->in_size -= (size_t)(z->next_in - io->in);
	io->in = z->next_in;
	io->out_size -= (size_t)(z->next_out - io->out);
	io->out = z->next_out;
	switch (r) {
	case Z_OK:
	case Z_BUF_ERROR: /* there was no progress: more input is needed */
		return 1;
	case Z_STREAM_END:
		return 0;
	case Z_MEM_ERROR:
		return error_set(err, ENOMEM, "out of memory");
	default:
		return error_set(err, EBADMSG, "gzip: %s", z->msg ? z->msg : "bad data");
	}
}

uint32_t inflate_add_crc(uint32_t crc, const void *data, size_t n)
{
	const unsigned char *p = data;

	for (; n > INT_MAX; n -= INT_MAX, p += INT_MAX)
		crc = (uint32_t)crc32(crc, p, INT_MAX);
	return (uint32_t)crc32(crc, p, (uInt)n);
}
