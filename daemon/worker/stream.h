/*
 * stream: bytes from somewhere, block by block, each lent until the next call. Streams are put in
 * front of each other: a file, a checksum, a thread that reads ahead, a decompressor.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "common/cleanup.h"

struct ctx;
struct error;
struct hash;
struct stream;

struct stream_ops {
	/* Size of the block at *datap, 0 at the end, -errno. */
	ssize_t (*next)(struct stream *s, const void **datap, struct error *err);
	void (*close)(struct stream *s);
};

struct stream {
	const struct stream_ops *ops;
};

static inline ssize_t stream_next(struct stream *s, const void **datap, struct error *err)
{
	return s->ops->next(s, datap, err);
}

static inline void stream_close(struct stream *s)
{
	if (s)
		s->ops->close(s);
}
DEFINE_FREEP(struct stream, stream_close)

#define STREAM_READ_SIZE (4u << 20)

/* A file from its beginning, in big reads. fd stays the caller's. What is read counts as progress and
 * goes into hash (NULL: none). */
int stream_new_file(struct stream **sp, struct ctx *ctx, int fd, struct hash *hash,
		    struct error *err);

/* Bytes in memory, lent in pieces of step (0: at once). */
int stream_new_memory(struct stream **sp, const void *data, size_t size, size_t step);

/* A thread that reads `in` ahead. Blocks have STREAM_AHEAD_SIZE bytes but the last. in is consumed on
 * success. */
#define STREAM_AHEAD_SIZE (1u << 20)
int stream_new_ahead(struct stream **sp, struct stream *in, struct error *err);

/* Reads to the end. */
int stream_drain(struct stream *s, struct error *err);
