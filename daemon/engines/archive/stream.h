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

/* One of next and next_block is enough: stream.c makes the other out of it. */
struct stream_ops {
	/* Size of the bytes at *datap, 0 at the end, -errno. */
	ssize_t (*next)(struct stream *s, const void **datap, struct error *err);
	void (*close)(struct stream *s);
	int (*next_block)(struct stream *s, struct block **bp, struct error *err);
	/* Ends the waiting of next() and next_block() for others than pool, from another thread;
	 * may be NULL. */
	void (*stop)(struct stream *s);
	/* See stream_leave(); NULL: everything is read. */
	void (*leave)(struct stream *s, uint64_t n, bool needed);
	/* See stream_is_ready(); NULL: never. */
	bool (*is_ready)(struct stream *s);
	/* See stream_take_back(); NULL: nothing is. */
	bool (*take_back)(struct stream *s, size_t back, uint64_t n);
};

struct stream {
	const struct stream_ops *ops;
	/* Where its blocks come from: set when it is made, or by stream.c; stopped and freed there.
	 */
	_Atomic(struct block_pool *) pool;
	/* stream.c's */
	struct block *lent; /* by stream_next() */
	atomic_bool stopped;
	const unsigned char *rest; /* of what next() lent, not yet in a block */
	size_t rest_size;
	bool ended;
};

/* Size of the bytes at *datap, which are lent until the next call; 0 at the end, -errno. */
ssize_t stream_next(struct stream *s, const void **datap, struct error *err);

/*
 * 1: *bp is the caller's (block_put()), 0: the end, -errno. Blocks have a multiple of STREAM_ALIGN
 * bytes but the last; most have BLOCK_SIZE, none is empty. Waits until blocks that were handed out
 * before are put (block.h): a stream has at least STREAM_MIN_BLOCKS, and its reader may keep
 * STREAM_MAY_HOLD of them for ever.
 */
#define STREAM_ALIGN 4096
#define STREAM_MIN_BLOCKS 4
#define STREAM_MAY_HOLD 2
#define STREAM_READ_BLOCKS 16	  /* of a file */
#define STREAM_UNPACKED_BLOCKS 16 /* of a decompressor */
int stream_next_block(struct stream *s, struct block **bp, struct error *err);
/* That would not wait for blocks to be put, nor for another thread. */
bool stream_is_ready(struct stream *s);

/*
 * Of the next n bytes as many as can be may stay where they are: stream_next_block() gives a block
 * without data (block.h) in their place, which may have any size. needed: whoever gets it reads
 * them himself, where that is as good as if they were read ahead, and counts them as progress. Not
 * together with stream_next().
 */
#define STREAM_LEAVE_MIN (4u << 20) /* less is read */
void stream_leave(struct stream *s, uint64_t n, bool needed);

/*
 * n bytes of which the last `back` of the last block were the first are needed, and may be read by
 * who gets them. True: the next block has no data and is those n, and from now on blocks have any
 * size, but end at multiples of 512 of the file. False: they are given as before.
 */
#define STREAM_TAKE_BACK_MIN (32u << 10)
bool stream_take_back(struct stream *s, size_t back, uint64_t n);

/* From any thread: a thread that waits in s, or will wait, gets -ECANCELED. */
void stream_stop(struct stream *s);

/* Blocks that are still held stay good. NULL is fine. */
void stream_close(struct stream *s);
DEFINE_FREEP(struct stream, stream_close)

/* For next_block(): reads on until b has size bytes, or to the file's end; offset is that of its
 * first. 0, -errno. */
int stream_fill_block(int fd, struct block *b, size_t size, uint64_t offset, struct error *err);

/* A file from its beginning, in big reads. fd stays the caller's. What is read counts as progress
 * and goes into hash (NULL: none). */
int stream_new_file(struct stream **sp, struct stage_io *io, int fd, struct hash *hash,
		    struct error *err);

/* The same, read ahead by threads of its own. */
int stream_new_read_ahead(struct stream **sp, struct stage_io *io, int fd, struct hash *hash,
			  struct error *err);

/* Bytes in memory, lent in pieces of step (0: at once). */
int stream_new_memory(struct stream **sp, const void *data, size_t size, size_t step);

/* A thread that reads `in` ahead and passes its blocks on. in is consumed on success. */
int stream_new_ahead(struct stream **sp, struct stream *in, struct error *err);

/* in, whose blocks may have any size, in blocks as stream_next_block() promises. in is consumed on
 * success. */
int stream_new_aligned(struct stream **sp, struct stream *in, struct error *err);

/* For next_block(): an empty block of the stream's pool. 0, -ECANCELED, -ENOMEM. */
int stream_take_block(struct stream *s, struct block **bp, struct error *err);

/* Reads to the end. */
int stream_drain(struct stream *s, struct error *err);
