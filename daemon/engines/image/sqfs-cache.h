/*
 * sqfs-cache: a bounded cache of decompressed blocks that many threads share.
 *
 * A block is identified by a 64-bit key (its position in the image). The first thread that asks for
 * a block fills it. Threads that ask in the meantime wait for this decompression and do not start
 * another one. A block that no thread holds stays until its memory is needed; the least recently
 * used block is removed first.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "common/util/cleanup.h"

struct sqfs_cache;

struct sqfs_block {
	uint8_t *data;
	uint32_t size; /* bytes of data that are filled */
	uint64_t next; /* whatever fill says; here: where the next block begins */
};

/* Fills block->data (room for the cache's unit), size and next. 0 or -errno. Runs unlocked. */
typedef int (*sqfs_fill_fn)(void *arg, uint64_t key, struct sqfs_block *block);

struct sqfs_cache_stats {
	uint64_t n_hits;
	uint64_t n_fills;
	uint64_t n_waits;   /* asked for a block that somebody else was filling */
	uint64_t n_buffers; /* of unit bytes, allocated now */
};

/* limit: bytes that are kept; at least a few units are. What callers hold is never taken away,
 * so the limit may be passed by that much for as long. */
int sqfs_cache_new(struct sqfs_cache **cp, size_t limit, uint32_t unit);
/* Nobody holds a block any more. */
void sqfs_cache_free(struct sqfs_cache *c);
DEFINE_FREEP(struct sqfs_cache, sqfs_cache_free)

/* Lends the block of key until sqfs_cache_release(). A failed fill is told to all who wait for it
 * and not remembered. -ENOMEM, or what fill returned. */
int sqfs_cache_acquire(struct sqfs_cache *c, uint64_t key, sqfs_fill_fn fill, void *arg,
		       const struct sqfs_block **blockp);
/* Lends the block of key if it is there and filled, else NULL. */
const struct sqfs_block *sqfs_cache_find(struct sqfs_cache *c, uint64_t key);
void sqfs_cache_release(struct sqfs_cache *c, const struct sqfs_block *block);

/* Another limit, from any thread. What is too much goes now, or when nobody holds it any more; a
 * block of each shard stays. */
void sqfs_cache_set_limit(struct sqfs_cache *c, size_t limit);

void sqfs_cache_get_stats(struct sqfs_cache *c, struct sqfs_cache_stats *stats);
