/*
 * feed: the input of a decompressor: a stream from whose pieces it may take any number of bytes.
 */
#pragma once

#include <stddef.h>

struct error;
struct stream;

struct feed {
	struct stream *in;
	const unsigned char *data; /* rest of the current piece */
	size_t size;
};

/* Returns 1 if there is at least one byte at data, 0 at the end, or -errno. */
int feed_fill(struct feed *f, struct error *err);

/* Take or skip the next n bytes. Return 1, 0 if there are fewer (they are taken), or -errno. */
int feed_take(struct feed *f, void *buf, size_t n, struct error *err);
int feed_skip(struct feed *f, size_t n, struct error *err);

/* Returns -EINVAL with a message: the compressed data is complete, but something follows. format:
 * also the name of its tool. */
int feed_refuse_rest(const char *format, struct error *err);

/* Reads to the end of the stream. Only zeros may follow. Returns 0 or -errno. */
int feed_finish(struct feed *f, const char *format, struct error *err);
