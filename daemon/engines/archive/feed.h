/*
 * feed: the input of a decompressor: a stream from whose pieces it may take any number of bytes.
 */
#pragma once

#include <stddef.h>

struct error;
struct stream;

struct feed {
	struct stream *in;
	const unsigned char *data; /* of the piece at hand, what is not taken yet */
	size_t size;
};

/* 1: there is at least a byte at data, 0: the end, -errno. */
int feed_fill(struct feed *f, struct error *err);

/* The next n bytes to buf. 1, 0 if there are less (they are taken), -errno. */
int feed_take(struct feed *f, void *buf, size_t n, struct error *err);
int feed_skip(struct feed *f, size_t n, struct error *err);

/* -EINVAL: the data of that format is complete, but something follows. format: also its tool's
 * name. */
int feed_refuse_rest(const char *format, struct error *err);

/* To the end of the stream, where there may be zeros and nothing else. 0 or -errno. */
int feed_finish(struct feed *f, const char *format, struct error *err);
