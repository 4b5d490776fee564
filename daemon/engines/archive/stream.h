/*
 * stream: bytes from somewhere, block by block. Streams are put in front of each other: a file, a
 * checksum, a thread that reads ahead, a decompressor (decompress.h).
 *
 * A stream is read either by stream_next() or by stream_next_block(), by one thread at a time.
 */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "common/util/cleanup.h"
#include "daemon/engines/copy/block.h"

struct stage_io;
struct error;
struct hash;
struct stream;

/* Only one of next and next_block is required: stream.c makes the other one from it. */
struct stream_ops {
	/* Returns the size of the bytes at *datap, 0 at the end, or -errno. */
	ssize_t (*next)(struct stream *s, const void **datap, struct error *err);
	void (*close)(struct stream *s);
	int (*next_block)(struct stream *s, struct block **bp, struct error *err);
	/* Called by another thread: makes next() and next_block() return if they wait for anything
	 * but pool. May be NULL. */
	void (*stop)(struct stream *s);
	/* See stream_leave(). NULL: all bytes are read. */
	void (*leave)(struct stream *s, uint64_t n, bool needed);
	/* See stream_is_ready(). NULL: it is never ready. */
	bool (*is_ready)(struct stream *s);
	/* See stream_take_back(). NULL: not supported. */
	bool (*take_back)(struct stream *s, size_t back, uint64_t n);
};

struct stream {
	const struct stream_ops *ops;
	/* The pool of its blocks. It is set when the stream is made, or by stream.c, which stops
	 * and frees it. */
	_Atomic(struct block_pool *) pool;
	/* Private to stream.c: */
	struct block *lent; /* block that stream_next() has lent */
	atomic_bool stopped;
	const unsigned char *rest; /* bytes from next() that are not in a block yet */
	size_t rest_size;
	bool ended;
};

/* Reads bytes to *datap, which are lent until the next call. Returns their number, 0 at the end, or
 * -errno. */
ssize_t stream_next(struct stream *s, const void **datap, struct error *err);

/*
 * Gets the next block. Returns 1: the caller owns *bp (block_put()); 0 at the end; or -errno. The
 * size of each block except the last is a multiple of STREAM_ALIGN; most have BLOCK_SIZE, none is
 * empty. Waits until earlier blocks are put (block.h): a stream has at least STREAM_MIN_BLOCKS, and
 * its reader may keep STREAM_MAY_HOLD of them for any time.
 */
#define STREAM_ALIGN 4096
#define STREAM_MIN_BLOCKS 4
#define STREAM_MAY_HOLD 2
#define STREAM_READ_BLOCKS 16	  /* blocks of a file's stream */
#define STREAM_UNPACKED_BLOCKS 16 /* blocks of a decompressor's stream */
int stream_next_block(struct stream *s, struct block **bp, struct error *err);
/* Returns true if stream_next_block() would wait neither for blocks to be put nor for another
 * thread. */
bool stream_is_ready(struct stream *s);

/*
 * Allows the stream not to read the next n bytes, or as many of them as possible. For these,
 * stream_next_block() returns a block without data (block.h), which may have any size. needed: the
 * caller reads these bytes itself, if this is as good as read-ahead, and counts them as progress.
 * Must not be used together with stream_next().
 */
#define STREAM_LEAVE_MIN (4u << 20) /* fewer bytes are read */
void stream_leave(struct stream *s, uint64_t n, bool needed);

/*
 * The last `back` bytes of the last block are the first of n bytes that the caller needs and can
 * read itself. Returns true: the next block has no data and stands for those n bytes; from now on,
 * blocks have any size, but end at multiples of 512 in the file. Returns false: blocks continue as
 * before.
 */
#define STREAM_TAKE_BACK_MIN (32u << 10)
bool stream_take_back(struct stream *s, size_t back, uint64_t n);

/* May be called by any thread: a thread that waits in s, now or later, gets -ECANCELED. */
void stream_stop(struct stream *s);

/* Closes the stream. Blocks that are still held stay valid. s may be NULL. */
void stream_close(struct stream *s);
DEFINE_FREEP(struct stream, stream_close)

/* For next_block(): reads until b has size bytes, or to the file's end. offset: that of the block's
 * first byte. Returns 0 or -errno. */
int stream_fill_block(int fd, struct block *b, size_t size, uint64_t offset, struct error *err);

/* Makes a stream of a file from its beginning, with large reads. fd still belongs to the caller.
 * Bytes that are read count as progress and are added to hash (NULL: none). */
int stream_new_file(struct stream **sp, struct stage_io *io, int fd, struct hash *hash,
		    struct error *err);

/* Does the same with its own threads, which read ahead. */
int stream_new_read_ahead(struct stream **sp, struct stage_io *io, int fd, struct hash *hash,
			  struct error *err);

/* Makes a stream of bytes in memory, which are lent in pieces of step bytes (0: all at once). */
int stream_new_memory(struct stream **sp, const void *data, size_t size, size_t step);

/* Makes a stream whose thread reads `in` ahead. in is consumed on success. */
int stream_new_ahead(struct stream **sp, struct stream *in, struct error *err);

/* Makes a stream of `in`, whose blocks may have any size, with blocks of the sizes that
 * stream_next_block() promises. in is consumed on success. */
int stream_new_aligned(struct stream **sp, struct stream *in, struct error *err);

/* For next_block(): takes an empty block from the stream's pool. Returns 0, -ECANCELED or
 * -ENOMEM. */
int stream_take_block(struct stream *s, struct block **bp, struct error *err);

/* Reads to the end of the stream. */
int stream_drain(struct stream *s, struct error *err);
