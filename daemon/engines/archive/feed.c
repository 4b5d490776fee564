#include "daemon/engines/archive/feed.h"

#include <errno.h>
#include <string.h>

#include "common/util/error.h"
#include "daemon/engines/archive/stream.h"

int feed_fill(struct feed *f, struct error *err)
{
	ssize_t n;

	if (f->size > 0)
		return 1;
	n = stream_next(f->in, (const void **)&f->data, err);
	if (n <= 0)
		return (int)n;
	f->size = (size_t)n;
	return 1;
}

/* buf NULL: the bytes are dropped. */
static int take(struct feed *f, unsigned char *buf, size_t n, struct error *err)
{
	size_t part;
	int r;

	while (n > 0) {
		r = feed_fill(f, err);
		if (r <= 0)
			return r;
		part = f->size < n ? f->size : n;
		if (buf) {
			memcpy(buf, f->data, part);
			buf += part;
		}
		f->data += part;
		f->size -= part;
		n -= part;
	}
	return 1;
}

int feed_take(struct feed *f, void *buf, size_t n, struct error *err)
{
	return take(f, buf, n, err);
}

int feed_skip(struct feed *f, size_t n, struct error *err)
{
	return take(f, NULL, n, err);
}

int feed_refuse_rest(const char *format, struct error *err)
{
	error_set(err, EINVAL, "there is garbage after the %s data", format);
	return error_set_hint(
		err, -EINVAL,
		"make or copy it again, or leave the garbage out (%s -dc FILE >NEW.tar)", format);
}

int feed_finish(struct feed *f, const char *format, struct error *err)
{
	int r;

	while ((r = feed_fill(f, err)) > 0) {
		for (size_t i = 0; i < f->size; i++) {
			if (f->data[i])
				return feed_refuse_rest(format, err);
		}
		f->size = 0;
	}
	return r;
}
